package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
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
	if w.Size > 0 {
		args = append(args, "--length", fmt.Sprint(w.Size))
	}
	if w.Window > 0 {
		args = append(args, "--window", fmt.Sprint(w.Window))
	}
	return args
}

// iperf3Interval returns the interval of iperf3's reports in seconds.
func iperf3Interval(w bench.Workload) string {
	const fine, coarse = 0.1, 0.5
	if w.Seconds*float64(max(w.Streams, 1)) <= 100 {
		return fmt.Sprint(fine)
	}
	return fmt.Sprint(coarse)
}

// iperf3Result is the part of iperf3's JSON that a tally needs.
type iperf3Result struct {
	Error string `json:"error"`
	Start struct {
		Segment iperf3Number `json:"tcp_mss_default"` // TCP_MAXSEG once connected
	} `json:"start"`
	End struct {
		Sent struct {
			Bytes       iperf3Number `json:"bytes"`
			Retransmits iperf3Number `json:"retransmits"`
		} `json:"sum_sent"`
	} `json:"end"`
	Intervals []struct {
		Sum struct {
			Start iperf3Number `json:"start"`
			End   iperf3Number `json:"end"`
			Bytes iperf3Number `json:"bytes"`
			// Retransmits are missing if the kernel does not report them.
			Retransmits *iperf3Number `json:"retransmits"`
		} `json:"sum"`
		Streams []struct {
			Cwnd iperf3Number `json:"snd_cwnd"` // bytes; of the end that sends
		} `json:"streams"`
	} `json:"intervals"`
}

// iperf3Number is a number of the result that a tally needs. It refuses null, which replaces nan.
type iperf3Number float64

// UnmarshalJSON reads a number.
func (n *iperf3Number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return errors.New("a count is no number")
	}
	return json.Unmarshal(text, (*float64)(n))
}

// notANumber matches a value that JSON does not have: the quotient of two zeros, as cJSON before
// 1.5 prints it (esnet/iperf issues 278, 613).
var notANumber = regexp.MustCompile(`(":\s*)-?(?:nan|inf)(\s*[,}\n])`)

// saidVersion finds the version that iperf3 writes into its result.
var saidVersion = regexp.MustCompile(`"version":\s*"(iperf 3[0-9A-Za-z.+-]{0,20})"`)

// decodeIperf3 reads the JSON that iperf3 prints. Some builds of 3.16 and 3.17 print it twice
// (esnet/iperf issue 1688): an exact copy is left out, and other text after the result is an error.
// Older ones print nan for quotients that no tally needs.
func decodeIperf3(text []byte) (out iperf3Result, err error) {
	text = notANumber.ReplaceAll(text, []byte("${1}null${2}"))
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&out); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return out, errors.New("unexpected end of JSON input")
	} else if err != nil {
		return out, err
	}
	first, rest := bytes.TrimSpace(text[:d.InputOffset()]), bytes.TrimSpace(text[d.InputOffset():])
	if len(rest) > 0 && !bytes.Equal(first, rest) {
		return out, errors.New("other text follows the result")
	}
	return out, nil
}

// parseIperf3 reads what iperf3 --json prints at either end (3.x), and cuts the window out of
// its intervals. An error that iperf3 reports is an iperfError, and a window that the
// intervals do not cover is an error too.
func parseIperf3(text []byte, w bench.Workload) (tally, error) {
	out, err := decodeIperf3(text)
	if err != nil {
		program := engine.Iperf3
		if m := saidVersion.FindSubmatch(text); m != nil {
			program = string(m[1])
		}
		return tally{}, fmt.Errorf("read the result of %s: %w: it wrote %s", program, err, excerpt.QuoteOutput(string(text)))
	}
	if out.Error != "" {
		return tally{}, iperfError(out.Error)
	}
	var all []interval
	for _, i := range out.Intervals {
		s := i.Sum
		one := interval{start: float64(s.Start), end: float64(s.End), bytes: float64(s.Bytes)}
		if one.resent = s.Retransmits != nil; one.resent {
			one.again = float64(*s.Retransmits)
		}
		for _, stream := range i.Streams {
			one.cwnd += float64(stream.Cwnd)
		}
		all = append(all, one)
	}
	t, err := cutWindow(all, 1, w)
	t.segment = int(min(out.Start.Segment, math.MaxUint16))
	// Threads of iperf3 still send when the last interval has ended.
	t.endBytes, t.endAgain = float64(out.End.Sent.Bytes), float64(out.End.Sent.Retransmits)
	return t, err
}
