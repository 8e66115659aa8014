package agent

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/evidence"
)

// agentVariable makes this test's program an agent.
const agentVariable = "CULVERT_TEST_AGENT"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == testpmdName {
		os.Exit(fakeTestpmd())
	}
	if os.Getenv(agentVariable) == "" {
		os.Exit(m.Run())
	}
	if err := serveAgent(); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func serveAgent() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return Run(ctx, os.Stdin, os.Stdout, Options{Version: "test", Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
}

// pair is two network namespaces of this test's own, joined by a veth pair.
type pair struct {
	netns [2]string
	addr  [2]netip.Addr
}

func newPair(t *testing.T) pair {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	p := pair{addr: [2]netip.Addr{netip.MustParseAddr("10.99.0.1"), netip.MustParseAddr("10.99.0.2")}}
	for i := range p.netns {
		p.netns[i] = fmt.Sprintf("cvbench%d-%d", os.Getpid(), i)
		runIP(t, "netns", "add", p.netns[i])
		t.Cleanup(func() { runIP(t, "netns", "del", p.netns[i]) })
	}
	runIP(t, "-n", p.netns[0], "link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", p.netns[1])
	for i := range p.netns {
		runIP(t, "-n", p.netns[i], "link", "set", "lo", "up")
		runIP(t, "-n", p.netns[i], "addr", "add", p.addr[i].String()+"/24", "dev", fmt.Sprint("v", i))
		runIP(t, "-n", p.netns[i], "link", "set", fmt.Sprint("v", i), "up")
	}
	return p
}

func runIP(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}

// process is an agent with its pipe.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	io.Reader
}

func (p *process) Write(b []byte) (int, error) { return p.in.Write(b) }
func (p *process) Close() error                { return p.in.Close() }

// startAgent runs an agent in a network namespace until the test ends.
func startAgent(t *testing.T, netns string, env ...string) (*Client, *process) {
	t.Helper()
	cmd := exec.Command("ip", "netns", "exec", netns, os.Args[0])
	cmd.Env = append(append(os.Environ(), agentVariable+"=1"), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, in, out}
	c, err := NewClient(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "signal") {
			t.Errorf("the agent: %v", err)
		}
	})
	return c, p
}

// needProgram skips a test whose program is not installed.
func needProgram(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed", program)
	}
}

// makeTask is a workload from the first end of a pair to the second.
func (p pair) makeTask(w bench.Workload, end int) Task {
	i := fmt.Sprint("v", end)
	return Task{Workload: w, From: p.addr[0], To: p.addr[1], Interface: i, Watch: []evidence.Watched{{Interface: i, Role: "path"}}}
}

// measureRun makes runs from the first end to the second until one is not void, since the agents
// may be woken late on a busy machine.
func measureRun(t *testing.T, p pair, w bench.Workload) bench.Run {
	t.Helper()
	from, _ := startAgent(t, p.netns[0])
	to, _ := startAgent(t, p.netns[1])
	const tries = 10
	late := 0
	for range tries {
		r := measureOnce(t, p, w, from, to)
		if r.Void == "" && hasWindow(r.From, w) && hasWindow(r.To, w) {
			return r
		}
		t.Logf("void: %q; sampled were %g s and %g s of %g", r.Void, r.From.CPU.Seconds, r.To.CPU.Seconds, w.Seconds)
		if strings.Contains(r.Void, " was woken ") {
			late++
		}
	}
	if late < tries {
		t.Fatalf("%d of %d runs are void or were sampled for another time, %d of them since an agent was woken late", tries, tries, late)
	}
	t.Skip("this machine is too busy to count a window")
	return bench.Run{}
}

// hasWindow reports whether an end sampled about the window of a workload, within the lateness that
// leaves a run valid. The engine culvert has no bound on lateness: the end that does not count
// samples when the other end's messages come, which is later on a busy machine.
func hasWindow(e bench.Evidence, w bench.Workload) bool {
	return e.CPU.Seconds >= 0.74*w.Seconds && e.CPU.Seconds <= 1.26*w.Seconds
}

func measureOnce(t *testing.T, p pair, w bench.Workload, from, to *Client) bench.Run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	receiver, err := to.Receive(ctx, p.makeTask(w, 1))
	if err != nil {
		t.Fatal(err)
	}
	sender, err := from.Send(ctx, p.makeTask(w, 0), receiver.Ready())
	if err != nil {
		t.Fatal(err)
	}
	sent, err := sender.Finish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	received, err := receiver.Finish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return Join(sent, received)
}

// checkProof fails unless the counters of both ends rose by about the claimed traffic. Its bounds
// are wide, since on a busy machine the windows of a second of two processes differ.
func checkProof(t *testing.T, r bench.Run) {
	t.Helper()
	if r.Bytes == 0 || len(r.From.Interfaces) != 1 || len(r.To.Interfaces) != 1 {
		t.Fatalf("no figure or no evidence: %+v", r)
	}
	for name, carried := range map[string]uint64{"sender": r.From.Interfaces[0].TxBytes, "receiver": r.To.Interfaces[0].RxBytes} {
		if ratio := float64(carried) / float64(r.Bytes); ratio < 0.2 || ratio > 5 {
			t.Errorf("%s: its interface carried %d bytes, and %d were claimed: %.2f", name, carried, r.Bytes, ratio)
		}
	}
	for name, e := range map[string]bench.Evidence{"sender": r.From, "receiver": r.To} {
		if e.CPU.Total() <= 0 {
			t.Errorf("%s: no processor was used: %+v", name, e.CPU)
		}
	}
}

// TestEngines makes a real run with each engine and kind.
func TestEngines(t *testing.T) {
	p := newPair(t)
	for _, c := range []struct {
		program string
		w       bench.Workload
	}{
		{"", bench.Workload{Kind: bench.Stream, Engine: "culvert", Streams: 2}},
		{"", bench.Workload{Kind: bench.Datagram, Engine: "culvert", Rate: 2e7}},
		{"", bench.Workload{Kind: bench.Request, Engine: "culvert"}},
		{"", bench.Workload{Kind: bench.Packets, Engine: "culvert", Rate: 10000}},
		{"iperf3", bench.Workload{Kind: bench.Stream, Engine: "iperf3", Streams: 3}},
		{"iperf", bench.Workload{Kind: bench.Stream, Engine: "iperf2", Streams: 2, Size: 8192, Window: 1 << 18}},
		{"ping", bench.Workload{Kind: bench.Echo, Engine: "ping", Rate: 20}},
	} {
		t.Run(c.w.Engine+" "+string(c.w.Kind), func(t *testing.T) {
			if c.program != "" {
				needProgram(t, c.program)
			}
			w := c.w
			w.Seconds, w.Warmup = 1, 0.5
			r := measureRun(t, p, w)
			checkProof(t, r)
			if r.Seconds < 0.9 || (r.Retransmits != nil) != (w.Kind == bench.Stream && w.Engine != "iperf2") || (r.Delays != nil) != (w.Kind == bench.Request || w.Kind == bench.Echo) {
				t.Errorf("got %+v", r)
			}
			if latency := r.Delays != nil; !latency && (r.Gbps <= 0 || len(r.Series) != 1) {
				t.Errorf("got %+v", r)
			}
			if (w.Kind == bench.Datagram || w.Kind == bench.Packets) && (r.Sent == 0 || r.Packets == 0 || r.PPS <= 0) {
				t.Errorf("got %+v", r)
			}
			if m := [2]bool{r.From.Mechanism.Name != "", r.To.Mechanism.Name != ""}; w.Kind == bench.Packets && m != [2]bool{true, true} {
				t.Errorf("by what its ends sent and counted is not kept: %+v, %+v", r.From.Mechanism, r.To.Mechanism)
			}
			if r.Totals.Sent == 0 || r.Totals.Arrived == 0 {
				t.Errorf("totals: %+v of %d bytes", r.Totals, r.Bytes)
			}
			name := map[string]string{"iperf2": "iperf", "iperf3": "iperf3"}[w.Engine]
			if name != "" && r.From.CPU.Tasks[name] <= 0 {
				t.Errorf("tasks: %v", r.From.CPU.Tasks)
			}
		})
	}
}

// iperf 2 reports no retransmits, so the kernel's count bounds what the path's counters may show.
func TestRetransmitsOfIperf2(t *testing.T) {
	needProgram(t, "iperf")
	needProgram(t, "tc")
	p := newPair(t)
	// A queue as short as this drops what comes in a burst.
	if out, err := exec.Command("tc", "-n", p.netns[0], "qdisc", "add", "dev", "v0", "root", "tbf", "rate", "100mbit", "burst", "16kb", "limit", "24kb").CombinedOutput(); err != nil {
		t.Skipf("no token bucket filter here: %v: %s", err, out)
	}
	r := measureRun(t, p, bench.Workload{Kind: bench.Stream, Engine: "iperf2", Streams: 4, Seconds: 1, Warmup: 0.5})
	text, err := exec.Command("ip", "netns", "exec", p.netns[0], "cat", "/proc/net/snmp").Output()
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseProtocol(string(text), "Tcp", "RetransSegs")
	if err != nil {
		t.Fatal(err)
	}
	if r.Retransmits != nil || r.Totals.Retransmits == 0 || r.Totals.Retransmits > all[0] {
		t.Errorf("%v in the window, %+v, and the namespace sent %d again", r.Retransmits, r.Totals, all[0])
	}
	checkProof(t, r)
}

// Package evidence reads the rate limit of a VF. Here there is no VF, so that the agent returns an
// error.
func TestRate(t *testing.T) {
	p := newPair(t)
	c, _ := startAgent(t, p.netns[0])
	_, err := c.OfVF(t.Context(), "0000:ff:1f.7")
	checkRefusal(t, "no VF", err, `"0000:ff:1f.7" is no VF`)
}

// Behind a Service a receiver listens on the Service's ports, and on no others.
func TestPortsOfAService(t *testing.T) {
	task := Task{To: netip.MustParseAddr("127.0.0.1"), Service: netip.MustParseAddr("10.96.0.7")}
	taken := map[uint16]bool{}
	for range 2 {
		h, err := ownReceive(t.Context(), task, "")
		if err != nil {
			t.Fatal(err)
		}
		defer h.close()
		port := h.describeReady().Ports[0]
		if !slices.Contains(bench.ServicePorts, port) || taken[port] {
			t.Errorf("it listens on %d", port)
		}
		taken[port] = true
	}
	if port, err := freePort(t.Context(), task.To, task.listenPorts()); err != nil || taken[port] || !slices.Contains(bench.ServicePorts, port) {
		t.Errorf("%d is free, %v", port, err)
	}
	if _, err := freePort(t.Context(), task.To, slices.Collect(maps.Keys(taken))); err == nil {
		t.Error("a port that is taken is free")
	}
}

// A Service passes on what comes to its ports, and neither raw frames nor ICMP.
func TestNoFramesToAService(t *testing.T) {
	for _, engine := range []string{"culvert", "ping"} {
		kind := map[string]bench.Kind{"culvert": bench.Packets, "ping": bench.Echo}[engine]
		task := Task{Workload: bench.Workload{Kind: kind, Engine: engine, Seconds: 1}, Service: netip.MustParseAddr("10.96.0.7")}
		if _, err := (&agent{}).startHalf(t.Context(), request{Do: receive, Task: &task}); err == nil || !strings.Contains(err.Error(), "measure the path to its pod") {
			t.Errorf("%s: %v", engine, err)
		}
	}
}
