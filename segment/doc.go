// Package segment finds out which PFs of a host share an L2 segment where no person has named it,
// and warns of pools over PFs that do not. On each such PF culvertd sends a small frame every few
// seconds, and listens for those of its other PFs and of other nodes.
//
// It warns and decides nothing: a pod with NET_RAW can forge frames. Frames can hide a warning, and
// no more. A Table learns from what was heard, and is pure. A Watcher has the sockets.
package segment
