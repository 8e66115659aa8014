// Package sources merges the declarations of a node into its wanted Spec, and keeps that Spec.
// host.yaml, and in a cluster the NodePolicies that select the node and the device plugin's
// ConfigMap, go in. One desired.Spec comes out, which the reconciler follows, with the reasons for
// everything that could not be read or is not applied. The daemon feeds host.yaml, package
// membership feeds the cluster's objects.
package sources
