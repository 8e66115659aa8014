// Package agent has the agent that runs at an end of a path, and the conductor's client of it.
//
// An agent ([Run], `culvert-bench agent`) is a process in one network namespace, with
// a pipe to the conductor ([Client]): requests and answers are JSON, one a line. Its first line
// names the protocol. Requests have numbers and their answers come in any order. Standard error is
// for people. When the pipe closes, the agent ends its children and leaves.
//
// A run has two parts. [Client.Receive] readies the receiving end, [Client.Send] has the
// other one send to it, [Part.Finish] returns the figures of each, and [Join] makes one [bench.Run]
// of both. One agent may have any number of parts. Several senders begin together when their tasks
// have Hold: each is ready when [Part.Held] returns, and sends after [Part.Release].
//
// # The window
//
// Both ends count the same window without comparing clocks. Each sees by itself when
// the traffic begins: the engine's connections are established, or its first packet has come. From
// then it waits [bench.Workload.Warmup] seconds by its own monotonic clock, samples (package
// evidence), waits [bench.Workload.Seconds], and samples again. So the two windows are as long as
// each other, but for the drift of two clocks (parts in 1e5), and one begins later by the time that
// the first packet took on its way and that the agent took to be woken: a few milliseconds, more
// where it is not root and all processors are busy. For iperf3 add its start, some four round
// trips. An agent that was woken too late makes the run void. A change of the machine's date has no
// effect.
//
// An agent that takes no part, in the PID namespace of a pod's node, say, samples
// the same window with [Client.Watch], by its [Part.Window].
package agent
