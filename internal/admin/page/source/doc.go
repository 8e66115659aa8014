// Package source has the Sources of culvert ui. Host reads culvertd's socket. Cluster lists and watches
// the objects of a cluster with the rights of the user's kubeconfig. Both give package page the same
// values. cmd/culvert calls it.
package source
