// Package compat measures how far Culvert accepts inputs of other projects: networks of type
// sriov, annotations of pods, configurations of the device plugin, and addresses of host-local,
// static and whereabouts.
//
// Each group has a file of cases. A case has an input, the outcome that the other project
// reaches (the peer), and where its documentation or tests show it. Inputs are written for this
// package, with names and numbers of its own. A runner gives the input to the code that serves
// it in Culvert and describes the outcome in the same words. Cases reads the files and Run
// compares; the tests of the package print a table, and tools/refdoc writes
// docs/compatibility.md from it.
package compat
