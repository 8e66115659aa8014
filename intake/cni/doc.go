// Package cni is the way in for container runtimes: it turns an invocation of
// the shim culvert-cni (api.CNIRequest) into an attach.Request, asks the engine,
// and turns what the engine did into a CNI result of the configuration's
// version, or into a CNI error with a code and a next step.
//
// It serves the CNI specification 1.1.0 whole, and answers configurations of
// 0.3.1, 0.4.0, 1.0.0 and 1.1.0. culvertd registers Handler.Serve with package
// rpc under api.MethodCNI.
package cni

// Commands of the specification (section 2, "CNI operations").
const (
	cmdAdd     = "ADD"
	cmdDel     = "DEL"
	cmdCheck   = "CHECK"
	cmdGC      = "GC"
	cmdStatus  = "STATUS"
	cmdVersion = "VERSION"
)
