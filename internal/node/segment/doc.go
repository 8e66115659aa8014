// Package segment discovers which PFs of a host share an L2 segment, and warns of pools with PFs
// that do not share one. It covers only PFs whose segment has no name. On each of them culvertd
// sends a small frame every few seconds, and listens for the frames of its other PFs and of other
// nodes.
//
// The package only warns, and Culvert makes no decision from its verdicts: a pod with NET_RAW can
// forge frames. Forged frames of this host can hide a warning, and do nothing else. A Table
// computes the verdicts from the frames that were heard, and does no I/O. A Watcher has the
// sockets, and feeds a Table.
package segment
