// Package endpoints decides how a Service is served over a VF network
// (docs/design/0021-services.md). A Service, its pods and the NodeStates of their nodes come in.
// The network, the pods' addresses there, and the reasons why pods have none go out. The controller
// calls it and writes.
package endpoints
