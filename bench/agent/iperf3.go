package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/internal/excerpt"
)

var iperf3Says = regexp.MustCompile(`(?m)^iperf (3(?:\.\d+)+\S*)`)

func iperf3Version(ctx context.Context) (string, error) {
	return programVersion(ctx, engine.Iperf3, parseIperf3Version, "--version")
}

func parseIperf3Version(said string) (string, error) {
	m := iperf3Says.FindStringSubmatch(said)
	if m == nil {
		return "", fmt.Errorf("ask iperf3 for its version: it says %s", excerpt.QuoteOutput(said))
	}
	return m[1], nil
}

// hasThreads reports whether a version of iperf3 has a thread for each stream: 3.16 is the
// first one.
func hasThreads(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	n, err := strconv.Atoi(parts[1])
	return err == nil && n >= 16
}

// iperf3Receive starts servers that serve one test each. A version without threads has a process
// for each processor, if there are enough streams.
func iperf3Receive(ctx context.Context, t Task, version string) (half, error) {
	processes := 1
	if !hasThreads(version) {
		processes = min(max(t.Workload.Streams, 1), runtime.NumCPU(), len(bench.ServicePorts))
	}
	h := &iperf{
		Task: t, is: Ready{Engine: engine.Iperf3, Version: version}, server: true, control: 1,
		shares: shareStreams(t.Workload.Streams, processes), parse: parseIperf3,
	}
	return h, h.startServers(ctx, engine.Iperf3, func(port uint16, _ int) []string {
		return []string{"--server", "--one-off", "--json", "--bind", t.To.String(), "--port", fmt.Sprint(port), "--interval", iperf3Interval(t.Workload)}
	})
}

func iperf3Send(_ context.Context, t Task, to Ready) (half, error) {
	h := &iperf{Task: t, is: to, control: 1, shares: shareStreams(t.Workload.Streams, max(1, len(to.Ports))), parse: parseIperf3}
	return h, h.startClients(engine.Iperf3, func(port uint16, streams int) []string { return iperf3Client(t, port, streams) })
}

// iperf3Client returns the arguments of a client. They have no --omit: versions differ in how
// much of the omitted time the server counts, and the option takes whole seconds only. The window
// is cut out of the intervals instead.
func iperf3Client(t Task, port uint16, streams int) []string {
	w := t.Workload
	args := []string{"--client", t.sendAddress().String(), "--port", fmt.Sprint(port), "--json", "--connect-timeout", "5000",
		"--time", iperfSeconds(w), "--interval", iperf3Interval(w), "--parallel", fmt.Sprint(streams)}
	if from := t.bindAddress(); from.IsValid() {
		args = append(args, "--bind", from.String())
	}
	if w.Kind == bench.Datagram {
		// The --bitrate of iperf3 is of each stream, and 0 is as fast as it can.
		args = append(args, "--udp", "--bitrate", bitsOfStream(w))
	}
	if w.Size > 0 {
		args = append(args, "--length", fmt.Sprint(w.Size))
	}
	if w.Window > 0 {
		args = append(args, "--window", fmt.Sprint(w.Window))
	}
	return args
}

// bitsOfStream returns the rate of one stream.
func bitsOfStream(w bench.Workload) string {
	return strconv.FormatFloat(w.Rate/float64(max(w.Streams, 1)), 'f', 0, 64)
}

// iperf3Interval returns the interval of iperf3's reports in seconds.
func iperf3Interval(w bench.Workload) string {
	const fine, coarse = 0.1, 0.5
	if w.Seconds*float64(max(w.Streams, 1)) <= 100 {
		return fmt.Sprint(fine)
	}
	return fmt.Sprint(coarse)
}

// parseIperf3 reads what iperf3 --json prints at either end (3.x), and cuts the window out of
// its intervals. An error that iperf3 reports is an iperfError, and a window that the
// intervals do not cover is an error too.
func parseIperf3(text []byte, w bench.Workload) (tally, error) {
	var out struct {
		Error     string `json:"error"`
		Intervals []struct {
			Sum struct {
				Start   float64 `json:"start"`
				End     float64 `json:"end"`
				Bytes   float64 `json:"bytes"`
				Packets float64 `json:"packets"` // sent, or at the receiver expected
				Lost    float64 `json:"lost_packets"`
				// Retransmits are missing if the kernel does not report them.
				Retransmits *float64 `json:"retransmits"`
			} `json:"sum"`
			Streams []struct {
				Cwnd float64 `json:"snd_cwnd"` // bytes; of the end that sends
			} `json:"streams"`
		} `json:"intervals"`
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return tally{}, fmt.Errorf("read iperf3's result: %w: it wrote %s", err, excerpt.QuoteOutput(string(text)))
	}
	if out.Error != "" {
		return tally{}, iperfError(out.Error)
	}
	var all []interval
	for _, i := range out.Intervals {
		s := i.Sum
		one := interval{start: s.Start, end: s.End, bytes: s.Bytes, packets: s.Packets, lost: s.Lost}
		if one.resent = s.Retransmits != nil; one.resent {
			one.again = *s.Retransmits
		}
		for _, stream := range i.Streams {
			one.cwnd += stream.Cwnd
		}
		all = append(all, one)
	}
	return cutWindow(all, 1, w)
}
