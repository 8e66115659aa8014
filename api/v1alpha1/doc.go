// Package v1alpha1 has Culvert's objects in a Kubernetes cluster: what is wanted
// of the nodes' NICs (NodePolicy, written by people), what is there (NodeState,
// written by each node's culvertd), and which node gives out which addresses
// (AddressPool, written by culvert-controller). kube and controller read and
// write them; dist/kubernetes/crds and docs/reference/objects.md are generated
// from the comments here (tools/generate).
//
// +kubebuilder:object:generate=true
// +groupName=culvert.dev
package v1alpha1
