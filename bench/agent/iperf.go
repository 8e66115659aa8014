package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/bench/evidence"
)

// iperf is one end's half with iperf 2 or 3: a process for each port.
type iperf struct {
	Task
	is      Ready
	server  bool
	control int    // connections of each process beside its streams
	shares  []int  // streams of each process
	resent  uint64 // segments that the network namespace had sent again before the clients began
	parse   func([]byte, bench.Workload) (tally, error)
	all     []*child
}

// iperfSeconds returns how long a client sends. Spare traffic follows the window, for an end that saw
// the beginning late, and for processes that began one after the other. The run of an end that is late
// by more than a quarter of the window is void, so that a short window needs less.
func iperfSeconds(w bench.Workload) string {
	const least, most = 1, 2
	spare := min(max(w.Seconds/2, least), most)
	return fmt.Sprint(int(math.Ceil(w.Warmup + w.Seconds + spare)))
}

// shareStreams spreads streams over processes.
func shareStreams(streams, processes int) []int {
	streams = max(streams, processes)
	all := make([]int, processes)
	for i := range all {
		all[i] = streams/processes + min(1, max(0, streams%processes-i))
	}
	return all
}

// startServers starts a server for each share of the streams. arguments returns the arguments of a
// server at a port.
func (h *iperf) startServers(ctx context.Context, program string, arguments func(port uint16, streams int) []string) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	for _, streams := range h.shares {
		port, c, err := h.listenOnce(ctx, program, streams, arguments)
		if err != nil {
			return err
		}
		h.is.Ports, h.all = append(h.is.Ports, port), append(h.all, c)
	}
	return nil
}

// listenOnce starts a server on a free port, or on another one if a process took that port
// meanwhile.
func (h *iperf) listenOnce(ctx context.Context, program string, streams int, arguments func(port uint16, streams int) []string) (uint16, *child, error) {
	const tries = 5
	var last error
	for range tries {
		port, err := freePort(ctx, h.To, h.listenPorts())
		if err != nil {
			return 0, nil, err
		}
		c, err := startChild(program, arguments(port, streams)...)
		if err != nil {
			return 0, nil, err
		}
		if last = h.waitForListener(ctx, c, port); last == nil {
			return port, c, nil
		}
		c.stopGroup()
		if ctx.Err() != nil {
			break
		}
	}
	return 0, nil, last
}

// waitForListener waits until a child listens on a port.
func (h *iperf) waitForListener(ctx context.Context, c *child, port uint16) error {
	const long = 10 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, long, fmt.Errorf("%s does not listen on port %d after %s", c.name, port, long))
	defer cancel()
	return pollUntil(ctx, 5*time.Millisecond, func() (bool, error) {
		select {
		case <-c.ended:
			return false, c.explainFailure(errors.New("it ended when it should listen"))
		default:
		}
		n, err := countSockets(func(s socket) bool { return s.local == port && s.state == listening })
		return n > 0, err
	})
}

// startClients starts a client for each of the servers.
func (h *iperf) startClients(program string, arguments func(port uint16, streams int) []string) error {
	if len(h.is.Ports) == 0 {
		return errors.New("the receiver listens on no port")
	}
	var err error
	if h.resent, err = countResent(); err != nil {
		return err
	}
	for i, port := range h.is.Ports {
		c, err := startChild(program, arguments(port, h.shares[i])...)
		if err != nil {
			return errors.Join(err, h.close())
		}
		h.all = append(h.all, c)
	}
	return nil
}

func (h *iperf) describeReady() Ready { return h.is }

func (h *iperf) close() error {
	for _, c := range h.all {
		c.stopGroup()
	}
	return nil
}

func (h *iperf) carryTraffic(ctx context.Context, m marks) (bench.Run, error) {
	none := fmt.Errorf("nothing came in %s: is a firewall between the ends, or no route?", patience)
	buffer, end := 0, m.end
	m.end = func() { end(); buffer = h.leastBuffer() }
	void, err := callTimed(ctx, h.Workload, failAfter(patience, none, h.hasBegun), h.all[0].ended, m)
	if err != nil {
		return bench.Run{}, h.explainError(err)
	}
	var sum tally
	for _, c := range h.all {
		text, err := c.waitForEnd(ctx)
		// iperf3 --json prints its error on standard output, and may end with status 0.
		t, wrong := h.parse(text, h.Workload)
		var said iperfError
		switch {
		case errors.As(wrong, &said):
			return bench.Run{}, h.explainError(wrong)
		case err != nil:
			return bench.Run{}, h.explainError(err)
		case wrong != nil:
			return bench.Run{}, h.explainError(c.explainFailure(wrong))
		}
		sum = sum.addTally(t)
	}
	run := sum.makeRun(h.Workload, !h.server)
	if again := wholeNumber(sum.again); sum.resent && !h.server && h.is.Engine == engine.Iperf3 && h.Workload.Kind == bench.Stream {
		run.Retransmits = &again
	}
	if !sum.resent && !h.server && h.Workload.Kind == bench.Stream { // iperf 2 reports none
		now, err := countResent()
		if err != nil {
			return bench.Run{}, err
		}
		run.Totals.Retransmits = now - min(now, h.resent)
	}
	run.Void = void
	if h.server {
		run.To.Buffer = buffer
	} else {
		run.From.Buffer = buffer
	}
	return run, nil
}

// countResent returns how many segments all TCP connections of this network namespace have sent again.
func countResent() (uint64, error) {
	text, err := os.ReadFile("/proc/net/snmp")
	if err != nil {
		return 0, err
	}
	all, err := parseProtocol(string(text), "Tcp", "RetransSegs")
	if err != nil {
		return 0, err
	}
	return all[0], nil
}

// leastBuffer returns the smallest buffer of the streams that have a window, in the direction of
// their traffic; 0 means unknown.
func (h *iperf) leastBuffer() (least int) {
	if h.Workload.Window == 0 || h.Workload.Kind != bench.Stream {
		return 0
	}
	all, _ := evidence.ReadBuffers(h.To) // a buffer that is not known is 0
	for _, b := range all {
		size := b.Send
		if h.server {
			size = b.Receive
		}
		own := h.server && slices.Contains(h.is.Ports, b.Local) || !h.server && slices.Contains(h.is.Ports, b.Remote)
		if own && size > 0 && (least == 0 || size < least) {
			least = size
		}
	}
	return least
}

// explainError adds the engine, the receiver's address and its ports to an error.
func (h *iperf) explainError(err error) error {
	if h.server {
		return fmt.Errorf("%s server on %s, ports %v: %w", h.is.Engine, h.To, h.is.Ports, err)
	}
	return fmt.Errorf("%s to %s, ports %v: %w", h.is.Engine, h.sendAddress(), h.is.Ports, err)
}

// hasBegun reports whether all connections of all processes are established.
func (h *iperf) hasBegun() (bool, error) {
	want := h.control * len(h.shares)
	for _, streams := range h.shares {
		want += streams
	}
	n, err := countSockets(func(s socket) bool {
		return s.state == established && (h.server && slices.Contains(h.is.Ports, s.local) || !h.server && slices.Contains(h.is.Ports, s.remote))
	})
	return n >= want, err
}
