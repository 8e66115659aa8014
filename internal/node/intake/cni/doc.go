// Package cni is the way in for container runtimes: it turns an invocation of the shim culvert-cni
// (api.CNIRequest) into an attach.Request, calls the engine, and turns the engine's result into a
// CNI result of the configuration's version, or into a CNI error with a code and a next step.
//
// It serves the whole CNI specification 1.1.0, and answers configurations of all versions in
// api.CNIVersions. culvertd registers Handler.Serve with package rpc under api.MethodCNI.
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
