// Package bench holds the results of measurements and compares them.
//
// A [Result] is what `culvert bench` measured. The package parses the output of iperf3, ping and
// /proc/stat, computes each [Metric] of the runs, its [Estimate] and the [Difference] of two, and
// reports where two results are [Unlike] or a run exceeds its [Limits]. Package bench/report writes
// the reports for people.
//
// The package opens no socket and starts no program, with one exception: [Attachments] times a CNI
// plugin.
package bench
