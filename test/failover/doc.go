// Package failover measures the fail-over of bonds in a lab of two nodes whose wires are joined. It
// pulls the wire of the PF that sends, while iperf3 and a 1 kHz ping run in both directions. It
// prints the longest gap, the time until iperf3 has its rate back, duplicates and lost connections.
// With -events, it also tests other failures of a wire, a PF or culvertd.
package failover
