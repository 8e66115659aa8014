// Package bench turns what measuring programs print into figures, and figures
// into what a person reads.
//
// In go the texts of iperf3, ping and /proc/stat, and durations; out come
// values, medians with their spread, ratios with an interval, percentiles, a
// table and a chart. It is pure but for [Attachments], which times a CNI
// plugin. Package demo calls it.
//
// A [Result] is what `culvert bench` measured. From one, or two, come [Metric]s of
// runs, an [Estimate] of each, the [Difference] of two, what [Limits] a run, and
// how machines are [Unlike]. Package bench/report writes them down.
package bench
