// Package controller is what culvert-controller does in a cluster: it gives each
// node blocks of the addresses of the networks (I4), adds to pods the resources
// that their networks need, refuses networks and policies that cannot work, says
// what became of the policies, and makes the certificates of its webhooks. It
// never talks to a node: NodeState says what a node needs, AddressPool what it
// gets.
package controller
