// Package scale simulates clusters of many nodes: culvertd's parts for a node over a kernel
// in memory, the real controller, and a real API server with added latency (tag lab). The
// tests check that no address is given twice and none is lost, and print how fast addresses
// are given.
package scale
