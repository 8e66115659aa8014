// Package failover measures the fail-over of bonds in a lab of two nodes whose wires are joined. It
// pulls the wire of the PF that sends under iperf3 and a 1 kHz ping in both directions, and prints the
// longest gap, the time until iperf3 is back, duplicates and lost connections. With -events, it also
// does what else may happen to a wire, a PF or culvertd.
package failover
