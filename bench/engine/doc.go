// Package engine is Culvert's own traffic: it sends, receives and counts, and
// needs nothing installed. It also has the list of all engines, [Engines].
//
// In goes a [bench.Workload] and the address of the other end; out comes a
// [bench.Run] with the figures of one window. Package agent calls it, [Listen]
// and [Server.Serve] at the end To, [Measure] at the end From. Both open their
// sockets on the calling goroutine's thread, so that they measure in its network
// namespace.
//
// One TCP connection, the control connection, carries messages of one line; the
// traffic goes to the same port of the server. Each connection, and the first datagram
// of each stream, shows the server's token ([Server.Remote]); the server answers
// nothing else. The receiver counts, or the end that sends requests. It reports to the
// other end when its window begins and ends, so that the figures of both ends are of one
// window, by one clock.
package engine
