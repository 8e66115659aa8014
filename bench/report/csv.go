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
	"github.com/culvert-net/culvert/internal/excerpt"
)

// CSV writes a line with the columns' names, and a line for each run, also for void runs and
// warm-up runs. Cells without a measurement are empty. A name that a spreadsheet would take for a
// formula gets an apostrophe before it.
func CSV(out io.Writer, r bench.Result) error {
	r = r.WithoutFalseWires()
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
	resent := ""
	if r.Retransmits != nil {
		resent = n(*r.Retransmits)
	}
	lost := ""
	if knowsLoss(a, r) || a.Workload.Kind == bench.Stream {
		lost = n(r.Lost)
	}
	limit := ""
	if r.Void == "" {
		limit = bench.Limits(r, a)[0].What
	}
	c := a.Cost(r)
	from, to := r.Busiest()
	return []string{
		fmt.Sprint(i + 1), plainCell(a.Name), plainCell(a.Path.Network), plainCell(a.Path.Place), string(a.Workload.Kind), fmt.Sprint(a.Workload.Size), fmt.Sprint(a.Workload.Streams),
		r.Started.UTC().Format(time.RFC3339), fmt.Sprint(r.Discard), plainCell(r.Void), f(r.Seconds), n(r.Bytes), f(r.Gbps), f(r.PPS), n(r.Sent), lost,
		resent, f(r.Percentile(0.5)), f(r.Percentile(0.99)), f(r.Percentile(1)), f(c.SecondsPerGB), f(c.PerGbps), f(c.NsPerPacket), f(from), f(to), plainCell(limit), f(a.Fairness(r)),
	}
}

// plainCell makes foreign text one line that is no formula.
func plainCell(s string) string {
	s = excerpt.Clean(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}
