// Package kube is culvertd's eyes and mouth in a cluster. Its informers keep what
// the node needs to know: its own pods, the network attachment definitions, what
// the cluster wishes of it and which addresses are its own. Whoever
// asks is answered from there, without a call to the API server; a pod that has not
// arrived yet costs one GET. So does a network, or a pod with large annotations, that the
// bound on memory leaves out: tenants write as many and as large ones as they like. What culvertd has to say, annotations and events, is
// queued and written behind the answers, and tried again until it is there.
//
// While the API server is away the informers go on answering with what they have.
// Objects are read into types that have no more fields than are looked at, so that
// the memory of a node does not grow with the size of its pods.
//
// intake/pod asks about pods and networks; daemon makes a Client and runs it.
package kube
