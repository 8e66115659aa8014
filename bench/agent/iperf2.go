package agent

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/internal/excerpt"
)

var iperf2Says = regexp.MustCompile(`(?m)^iperf version (2(?:\.\d+)+\S*)`)

func iperf2Version(ctx context.Context) (string, error) {
	return programVersion(ctx, engine.Iperf2, parseIperf2Version, "-v")
}

func parseIperf2Version(said string) (string, error) {
	m := iperf2Says.FindStringSubmatch(said)
	if m == nil {
		return "", fmt.Errorf("ask iperf 2 for its version: it says %s", excerpt.QuoteOutput(said))
	}
	return m[1], nil
}

// iperf2Interval is the interval of iperf 2's reports in seconds, the shortest that all its
// versions accept.
const iperf2Interval = "0.5"

// iperf2Options returns the options of both ends. They ask for CSV, which has the exact bytes of
// an interval; the text form is rounded.
func iperf2Options(w bench.Workload, port uint16, streams int) []string {
	args := []string{"-p", fmt.Sprint(port), "-i", iperf2Interval, "-y", "C", "-P", fmt.Sprint(streams)}
	if w.Size > 0 {
		args = append(args, "-l", fmt.Sprint(w.Size))
	}
	if w.Window > 0 {
		args = append(args, "-w", fmt.Sprint(w.Window))
	}
	return args
}

// iperf2Receive starts a server that ends with its streams (-P).
func iperf2Receive(ctx context.Context, t Task, version string) (half, error) {
	h := &iperf{
		Task: t, is: Ready{Engine: engine.Iperf2, Version: version}, server: true, shares: shareStreams(t.Workload.Streams, 1), parse: parseIperf2,
	}
	return h, h.startServers(ctx, "iperf", func(port uint16, streams int) []string {
		return append([]string{"-s", "-B", t.To.String()}, iperf2Options(t.Workload, port, streams)...)
	})
}

func iperf2Send(_ context.Context, t Task, to Ready) (half, error) {
	h := &iperf{Task: t, is: to, shares: shareStreams(t.Workload.Streams, max(1, len(to.Ports))), parse: parseIperf2}
	return h, h.startClients("iperf", func(port uint16, streams int) []string {
		args := append([]string{"-c", t.sendAddress().String(), "-t", iperfSeconds(t.Workload)}, iperf2Options(t.Workload, port, streams)...)
		if from := t.bindAddress(); from.IsValid() {
			args = append(args, "-B", from.String())
		}
		return args
	})
}

// parseIperf2 reads what iperf 2 -y C prints at either end (2.0.10 to 2.2): a line for each
// stream and interval,
//
//	date,address,port,address,port,stream,from-to,bytes,bits a second
//
// and one line for the whole time of each stream. parseIperf2 leaves out these lines, and the sums
// of all streams, which have the number -1. Retransmits are not in the text.
func parseIperf2(text []byte, w bench.Workload) (tally, error) {
	var all []interval
	streams := map[string]float64{} // the end of the last interval of each
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), ",")
		if len(f) < 9 {
			return tally{}, fmt.Errorf("read iperf 2's result: %q has %d fields, and not 9", line, len(f))
		}
		i, err := iperf2Line(f)
		if err != nil {
			return tally{}, fmt.Errorf("read iperf 2's result: %q: %w", line, err)
		}
		ports := f[2] + " " + f[4]
		if f[5] == "-1" || i.start < streams[ports] {
			continue
		}
		streams[ports] = i.end
		all = append(all, i)
	}
	if len(all) == 0 {
		return tally{}, errors.New("read iperf 2's result: there is none")
	}
	return cutWindow(all, len(streams), w)
}

func iperf2Line(f []string) (i interval, err error) {
	from, to, _ := strings.Cut(f[6], "-")
	values := []*float64{&i.start, &i.end, &i.bytes}
	for n, text := range []string{from, to, f[7]} {
		if *values[n], err = strconv.ParseFloat(text, 64); err != nil {
			return i, err
		}
	}
	return i, nil
}
