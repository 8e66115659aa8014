// Package kube is culvertd's connection to its cluster. It keeps copies (conn.Store) of
// what the node needs to know: its own pods, the network attachment definitions, what
// the cluster wishes of it and which addresses are its own. Callers
// are answered from there, without a call to the API server; a pod that has not
// arrived yet costs one GET. What culvertd has to say, annotations and events, is
// queued and written behind the answers, and tried again until it is there.
//
// While the API server is away the copies go on answering with what they have.
// Objects are read into types that have no more fields than are looked at, so that
// the memory of a node does not grow with the size of its pods.
//
// intake/pod asks about pods and networks; daemon makes a Client and runs it.
package kube
