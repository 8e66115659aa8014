// Package v1alpha1 has Culvert's objects in a Kubernetes cluster. People write
// NodePolicy, the wanted state of the nodes' NICs. Each node's culvertd writes
// NodeState, its actual state. culvert-controller writes AddressPool, the blocks of
// addresses of each node. kube and controller read and write them. tools/generate
// makes dist/kubernetes/crds of the comments here.
//
// +kubebuilder:object:generate=true
// +groupName=culvert.dev
package v1alpha1
