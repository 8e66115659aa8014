// Package netannotation reads the annotation k8s.v1.cni.cncf.io/networks, with which a pod asks for
// networks beside its default one: a string goes in, and the requested attachments come out, or an
// error that names the wrong attachment and the reason. intake/pod and the controller's webhook
// call it. It is pure.
//
// The format is that of the Network Plumbing Working Group's "Kubernetes Network
// Custom Resource Definition De-facto Standard", version 1.3, section 4.1.2.
package netannotation
