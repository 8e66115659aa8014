// Package migrate turns the objects of the SR-IOV operator and the configurations of the SR-IOV
// device plugin into NodePolicies and NetworkAttachmentDefinitions of Culvert, once. Read parses
// files, Convert converts their objects, and Result has the outcome of every field with a value.
// Fields is the table of all fields. The command culvert migrate calls it.
package migrate
