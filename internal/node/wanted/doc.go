// Package wanted keeps the wanted Spec of a node. host.yaml, and in a cluster the NodePolicies that
// select the node and the device plugin's ConfigMap, go in; one merged desired.Spec comes out,
// which the reconciler follows, with the reasons for everything that could not be read or is not
// applied. The daemon feeds host.yaml, package membership feeds the cluster's objects.
package wanted
