// Package pod is the meta plugin: one ADD of a pod's sandbox becomes the pod's default network,
// which another plugin serves, and the networks that its annotation asks for. Invocations of the
// shim with a configuration that says podNetworks come in; requests to intake/cni, runs of other
// projects' plugins by the shim, and the pod's network-status go out. Every other configuration is
// handed to intake/cni.
//
// The networks of a sandbox are in the ledger before the first plugin runs (journal.Sandbox),
// so DEL, CHECK and GC need nothing else (I8). culvertd registers Handler.Serve with package
// rpc.
package pod
