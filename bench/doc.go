// Package bench reads figures from the output of measuring programs, and compares them.
//
// In go the texts of iperf3, ping and /proc/stat, and durations; out come
// values, medians with their spread, ratios with an interval, percentiles, a
// table and a chart. It is pure but for [Attachments], which times a CNI
// plugin. Package demo calls it.
//
// A [Result] is what `culvert bench` measured. The package computes [Metric]s of its runs, an
// [Estimate] of each, the [Difference] of two, the [Limits] of a run, and how two results are
// [Unlike]. Package bench/report writes the reports.
package bench
