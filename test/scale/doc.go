// Package scale simulates clusters of many nodes: the real node half of each over a kernel in
// memory, and the real controller, by a real API server with latency added (tag lab). No
// address is given twice, none is lost, and it says how fast that is.
package scale
