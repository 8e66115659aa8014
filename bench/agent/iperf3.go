package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/culvert-net/culvert/bench"
)

var iperf3Says = regexp.MustCompile(`(?m)^iperf (3(?:\.\d+)+\S*)`)

func iperf3Version(ctx context.Context) (string, error) {
	return programVersion(ctx, "iperf3", "iperf3", parseIperf3Version, "--version")
}

func parseIperf3Version(said string) (string, error) {
	m := iperf3Says.FindStringSubmatch(said)
	if m == nil {
		return "", fmt.Errorf("ask iperf3 for its version: it says %s", brief([]byte(said)))
	}
	return m[1], nil
}

// threaded reports whether a version of iperf3 has a thread for each stream: 3.16 is the
// first one.
func threaded(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	n, err := strconv.Atoi(parts[1])
	return err == nil && n >= 16
}

// iperf3Half is one end's iperf3: one process for each port.
type iperf3Half struct {
	Task
	is     Ready
	server bool
	shares []int // streams of each process
	all    []*child
}

// iperf3Receive starts servers that serve one test each, and waits until they listen. One
// without threads has a process for each processor instead, when there are streams
// for them.
func iperf3Receive(ctx context.Context, t Task, version string) (_ half, err error) {
	processes := 1
	if !threaded(version) {
		processes = min(max(t.Workload.Streams, 1), runtime.NumCPU())
	}
	h := &iperf3Half{Task: t, server: true, is: Ready{Engine: "iperf3", Version: version}}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	for range processes {
		port, c, err := iperf3Listen(ctx, t)
		if err != nil {
			return nil, err
		}
		h.is.Ports, h.all = append(h.is.Ports, port), append(h.all, c)
	}
	h.shares = shares(t.Workload.Streams, processes)
	return h, nil
}

// iperf3Listen starts a server on a free port, on another one when somebody took it.
func iperf3Listen(ctx context.Context, t Task) (uint16, *child, error) {
	const tries = 5
	var last error
	for range tries {
		port, err := freePort(ctx, t.To)
		if err != nil {
			return 0, nil, err
		}
		c, err := startChild("iperf3", "--server", "--one-off", "--json", "--bind", t.To.String(), "--port", fmt.Sprint(port),
			"--interval", iperf3Interval(t.Workload))
		if err != nil {
			return 0, nil, err
		}
		last = listens(ctx, c, port)
		if last == nil {
			return port, c, nil
		}
		c.stop()
		if ctx.Err() != nil {
			break
		}
	}
	return 0, nil, last
}

// listens waits until a child listens on a TCP port.
func listens(ctx context.Context, c *child, port uint16) error {
	const long = 10 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, long, fmt.Errorf("%s does not listen on port %d after %s", c.name, port, long))
	defer cancel()
	return poll(ctx, 5*time.Millisecond, func() (bool, error) {
		select {
		case <-c.ended:
			return false, c.failure(errors.New("it ended when it should listen"))
		default:
		}
		n, err := countSockets("tcp", func(s socket) bool { return s.local == port && s.state == listening })
		return n > 0, err
	})
}

// iperf3Send starts a client for each of the servers.
func iperf3Send(_ context.Context, t Task, to Ready) (_ half, err error) {
	if len(to.Ports) == 0 {
		return nil, errors.New("the receiver listens on no port")
	}
	h := &iperf3Half{Task: t, is: to, shares: shares(t.Workload.Streams, len(to.Ports))}
	for i, port := range to.Ports {
		c, err := startChild("iperf3", iperf3Client(t, port, h.shares[i])...)
		if err != nil {
			return nil, errors.Join(err, h.close())
		}
		h.all = append(h.all, c)
	}
	return h, nil
}

// iperf3Client are the arguments of a client. There is no --omit: versions differ in what of
// it the server counts, and it takes whole seconds only. The window is cut out of the
// intervals instead.
func iperf3Client(t Task, port uint16, streams int) []string {
	w := t.Workload
	args := []string{"--client", t.To.String(), "--port", fmt.Sprint(port), "--json", "--connect-timeout", "5000",
		"--time", fmt.Sprint(int(math.Ceil(w.Warmup + w.Seconds + spare))), "--interval", iperf3Interval(w), "--parallel", fmt.Sprint(streams)}
	if t.From != (netip.Addr{}) {
		args = append(args, "--bind", t.From.String())
	}
	if w.Kind == bench.Datagram {
		// Its --bitrate is of each stream, and 0 is as fast as it can.
		args = append(args, "--udp", "--bitrate", strconv.FormatFloat(w.Rate/float64(max(w.Streams, 1)), 'f', 0, 64))
	}
	if w.Size > 0 {
		args = append(args, "--length", fmt.Sprint(w.Size))
	}
	if w.Window > 0 {
		args = append(args, "--window", fmt.Sprint(w.Window))
	}
	if w.Reverse {
		args = append(args, "--reverse")
	}
	return args
}

// spare seconds of traffic follow the window, for an end that saw the beginning late, and
// processes that began one after the other.
const spare = 2

// iperf3Interval is what iperf3 reports in, in seconds.
func iperf3Interval(w bench.Workload) string {
	const fine, coarse = 0.1, 0.5
	if w.Seconds*float64(max(w.Streams, 1)) <= 100 {
		return fmt.Sprint(fine)
	}
	return fmt.Sprint(coarse)
}

// shares spreads streams over processes.
func shares(streams, processes int) []int {
	streams = max(streams, processes)
	all := make([]int, processes)
	for i := range all {
		all[i] = streams/processes + min(1, max(0, streams%processes-i))
	}
	return all
}

func (h *iperf3Half) ready() Ready { return h.is }

func (h *iperf3Half) close() error {
	for _, c := range h.all {
		c.stop()
	}
	return nil
}

func (h *iperf3Half) run(ctx context.Context, m marks) (bench.Run, error) {
	ended := make(chan struct{})
	gone := make(chan struct{})
	defer close(gone)
	go func() { // any of them that ends takes the window with it
		defer close(ended)
		for _, c := range h.all {
			select {
			case <-c.ended:
				return
			case <-gone:
				return
			}
		}
	}()
	none := fmt.Errorf("nothing came in %s: is a firewall between the ends, or no route?", patience)
	early := timed(ctx, h.Workload, within(patience, none, h.begun), ended, m)
	if early != nil && !errors.Is(early, errEarly) {
		return bench.Run{}, h.explain(early)
	}
	var sum tally
	for _, c := range h.all {
		text, err := c.wait(ctx)
		// With --json it says on standard output what went wrong, and may end with 0.
		t, wrong := parseIperf3(text, h.Workload)
		var said iperf3Error
		if err == nil || errors.As(wrong, &said) {
			err = wrong
		}
		if err != nil {
			return bench.Run{}, h.explain(err)
		}
		sum = sum.plus(t)
	}
	run := sum.run(h.Workload)
	if early != nil {
		run.Void = "iperf3 had ended before the agent saw the window close: the processors are too busy for it, or too few"
	}
	return run, nil
}

// explain adds where the other end is.
func (h *iperf3Half) explain(err error) error {
	if h.server {
		return fmt.Errorf("iperf3 server on %s, ports %v: %w", h.To, h.is.Ports, err)
	}
	return fmt.Errorf("iperf3 to %s, ports %v: %w", h.To, h.is.Ports, err)
}

// begun reports whether all connections of all processes stand: the control connection
// and a stream each.
func (h *iperf3Half) begun() (bool, error) {
	protocol, control := "tcp", 1
	if h.Workload.Kind == bench.Datagram {
		protocol, control = "udp", 0
	}
	want := control * len(h.all)
	for _, streams := range h.shares {
		want += streams
	}
	n, err := countSockets(protocol, func(s socket) bool {
		return s.state == established && (h.server && slices.Contains(h.is.Ports, s.local) || !h.server && slices.Contains(h.is.Ports, s.remote))
	})
	return n >= want, err
}
