// Package vsphere talks to an ESXi host, itself or through a vCenter, by the vSphere Web Services
// API. It reads the host as a state.Host, and does the actions of a plan.
//
// Package apply calls it. Facts of the API come from its public text: the comment of each function
// names class and field. Nothing here was tried on a real ESXi.
package vsphere
