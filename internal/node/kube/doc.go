// Package kube connects culvertd to a cluster. Its informers keep the objects that the node needs:
// its own pods, the network attachment definitions, the policies for the node and its addresses.
// The Client answers from these informers, without a call to the API server; a pod that has not
// arrived yet costs one GET. So does a network, or a pod with large annotations, that the bound on
// memory leaves out: tenants write as many and as large ones as they like. Annotations and events
// are queued, written after the answers, and tried again until the API server has them.
//
// While the API server is away the informers go on answering from memory. Objects are read into
// types that have no more fields than Culvert reads, so that the memory of a node does not grow
// with the size of its pods.
//
// intake/pod asks about pods and networks; daemon makes a Client and runs it.
package kube
