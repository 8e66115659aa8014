package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/excerpt"
)

// CSV writes a line for each run, void ones and those to warm up with it, under a line
// with the columns' names. What was not measured is empty. Names that a
// spreadsheet would take for a formula get an apostrophe before them.
func CSV(out io.Writer, r bench.Result) error {
	w := csv.NewWriter(out)
	err := w.Write([]string{
		"run", "arm", "network", "place", "kind", "size", "streams", "started", "discard", "void", "seconds", "bytes", "gbps", "pps", "sent", "lost",
		"retransmits", "p50_us", "p99_us", "max_us", "cpu_seconds_per_gb", "cpu_percent_per_gbps", "cpu_ns_per_packet", "from_busiest", "to_busiest", "limit", "fairness",
	})
	if err != nil {
		return err
	}
	for i, run := range r.Runs {
		if err := w.Write(line(i, r.Arms[run.Arm], run)); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func line(i int, a bench.Arm, r bench.Run) []string {
	f := func(v float64) string {
		if math.IsNaN(v) {
			return ""
		}
		return strconv.FormatFloat(v, 'g', 9, 64)
	}
	n := func(v uint64) string { return strconv.FormatUint(v, 10) }
	resent, p50, p99, most := "", "", "", ""
	if r.Retransmits != nil {
		resent = n(*r.Retransmits)
	}
	if d := r.Delays; d != nil {
		p50, p99, most = f(d.P50), f(d.P99), f(d.Max)
	}
	limit := ""
	if len(r.Limits) > 0 {
		limit = r.Limits[0].What
	}
	c := a.Cost(r)
	from, to := r.Busiest()
	return []string{
		fmt.Sprint(i + 1), plain(a.Name), plain(a.Path.Network), plain(a.Path.Place), string(a.Workload.Kind), fmt.Sprint(a.Workload.Size), fmt.Sprint(a.Workload.Streams),
		r.Started.UTC().Format(time.RFC3339), fmt.Sprint(r.Discard), plain(r.Void), f(r.Seconds), n(r.Bytes), f(r.Gbps), f(r.PPS), n(r.Sent), n(r.Lost),
		resent, p50, p99, most, f(c.SecondsPerGB), f(c.PerGbps), f(c.NsPerPacket), f(from), f(to), plain(limit), f(a.Fairness(r)),
	}
}

// plain keeps foreign text from being a formula or more than a line.
func plain(s string) string {
	s = excerpt.Clean(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}
