// Package controller has the work of culvert-controller in a cluster. It gives each node blocks
// of the networks' addresses (I4). It adds to pods the resources that their networks need, and
// refuses networks and policies that cannot work. It reports which nodes follow a policy, and
// makes the certificates of its webhooks. It never talks to a node: a NodeState has the node's
// needs, an AddressPool its blocks. It makes the EndpointSlices of Services over VF networks.
package controller
