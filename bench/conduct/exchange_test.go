package conduct

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/place"
)

// TestMain is an agent when it is called as one.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "agent" {
		flag.Parse()
		if err := flag.Set("test.parallel", fmt.Sprint(waiters)); err != nil {
			panic(err)
		}
		os.Exit(m.Run())
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	out := os.Stdout
	os.Stdout = nil // the ethtool library warns there
	if err := agent.Run(context.Background(), os.Stdin, out, agent.Options{Version: "test", Log: log, Culvertd: os.Getenv(culvertdVariable)}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runIn runs ip in one of the network namespaces.
func (w *world) runIn(t *testing.T, i int, argv ...string) {
	t.Helper()
	run(t, append([]string{"ip", "-n", w.netns[i]}, argv...)...)
}

// world is two network namespaces of the test's own, joined twice: a0 to a1 is
// 10.98.0.1 to 10.98.0.2, and b0 to b1 is 10.97.0.1 to 10.97.0.2.
type world struct {
	netns    []string
	pipes    []*place.Pipe
	stations []*Station
	exchange Exchange
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Skip("iperf3 is not installed")
	}
	w := newNamespaces(t)
	for link, subnet := range map[string]string{"a": "10.98.0.", "b": "10.97.0."} {
		w.runIn(t, 0, "link", "add", "name", link+"0", "type", "veth", "peer", "name", link+"1", "netns", w.netns[1])
		w.setUp(t, link, subnet)
	}
	w.openAll(t)
	for _, p := range Between(w.stations[:1], w.stations[1:]) {
		w.exchange.Arms = append(w.exchange.Arms, bench.Arm{Path: p, Workload: bench.Workload{Kind: bench.Stream, Engine: "iperf3", Seconds: 1}})
	}
	slices.SortFunc(w.exchange.Arms, func(a, b bench.Arm) int { return strings.Compare(a.Path.From.Interface, b.Path.From.Interface) })
	NameArms(w.exchange.Arms)
	return w
}

// newNamespaces makes the network namespaces of a world, without a link between them.
func newNamespaces(t *testing.T) *world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	w := &world{netns: make([]string, 2)}
	name := nameNamespaces("conduct")
	for i := range w.netns {
		w.netns[i] = fmt.Sprintf("%s-%d", name, i)
		run(t, "ip", "netns", "add", w.netns[i])
		t.Cleanup(func() { run(t, "ip", "netns", "del", w.netns[i]) })
		w.runIn(t, i, "link", "set", "lo", "up")
	}
	return w
}

// setUp gives both ends of a link their addresses.
func (w *world) setUp(t *testing.T, link, subnet string) {
	t.Helper()
	for i := range w.netns {
		w.runIn(t, i, "addr", "add", fmt.Sprintf("%s%d/24", subnet, i+1), "dev", fmt.Sprint(link, i))
		w.runIn(t, i, "link", "set", fmt.Sprint(link, i), "up")
	}
}

func (w *world) openAll(t *testing.T) {
	t.Helper()
	for i := range w.netns {
		w.stations = append(w.stations, w.openStation(t, i))
	}
	if err := DescribeStations(t.Context(), w.stations); err != nil {
		t.Fatal(err)
	}
	w.exchange.Stations = w.stations
}

// openBy is open with an agent that a script starts.
func (w *world) openBy(t *testing.T, i int, script string) *Station {
	t.Helper()
	file := filepath.Join(t.TempDir(), "culvert")
	if err := os.WriteFile(file, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return w.openProgram(t, i, file)
}

func (w *world) openStation(t *testing.T, i int) *Station { return w.openProgram(t, i, os.Args[0]) }

func (w *world) openProgram(t *testing.T, i int, program string) *Station {
	t.Helper()
	spec := place.Spec{Kind: place.Host, Netns: "/run/netns/" + w.netns[i]}
	pipe, err := place.Open(t.Context(), spec, place.Program{Path: program})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pipe.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := agent.NewClient(t.Context(), pipe)
	if err != nil {
		t.Fatal(err, pipe.Said())
	}
	w.pipes = append(w.pipes, pipe)
	return &Station{Site: Site{Name: w.netns[i], Pod: true}, Agent: client, Said: pipe.Said}
}

// runOnce makes one run of an arm, which has to end.
func (w *world) runOnce(t *testing.T, arm int) (bench.Run, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	return w.exchange.RunArm(ctx, arm)
}

// goodRun makes runs of an arm until one is not void: on a machine with much else to do
// an engine may come late.
func (w *world) goodRun(t *testing.T, arm int) bench.Run {
	t.Helper()
	for range 8 {
		run, err := w.runOnce(t, arm)
		if err != nil {
			t.Fatal(err)
		}
		if run.Void == "" {
			return run
		}
		t.Log(run.Void)
	}
	t.Fatal("all runs are void")
	return bench.Run{}
}

// checkVoid makes runs of an arm, each of them spoiled, until one is void for one of the reasons.
// Each is void; on a machine with much else to do another reason may come first.
func (w *world) checkVoid(t *testing.T, arm int, spoil func(ctx context.Context), reasons ...string) {
	t.Helper()
	for range 8 {
		ctx, cancel := context.WithCancel(t.Context())
		spoiled := make(chan struct{})
		go func() {
			defer close(spoiled)
			spoil(ctx)
		}()
		run, err := w.runOnce(t, arm)
		cancel()
		<-spoiled
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(reasons, func(reason string) bool { return strings.Contains(run.Void, reason) }) {
			return
		}
		if run.Void == "" {
			t.Errorf("a run is not void: %+v, %+v, %+v", run.Totals, run.From.Whole, run.To.Whole)
			return
		}
		t.Log(run.Void)
	}
	t.Errorf("no run is void for %q", reasons)
}

// awaitTraffic waits until an interface receives the traffic of a run. It returns false if ctx ends
// before.
func (w *world) awaitTraffic(ctx context.Context, i int, name string) bool {
	received := func() uint64 {
		var links []struct {
			Stats64 struct{ RX struct{ Bytes uint64 } }
		}
		out, _ := exec.CommandContext(ctx, "ip", "-n", w.netns[i], "-j", "-s", "link", "show", "dev", name).Output()
		if json.Unmarshal(out, &links) != nil || len(links) == 0 {
			return 0
		}
		return links[0].Stats64.RX.Bytes
	}
	const much = 1 << 20
	for before := received(); ctx.Err() == nil; _ = pauseFor(ctx, 10*time.Millisecond) {
		if received() > before+much {
			return true
		}
	}
	return false
}

func TestMeetFindsBothPaths(t *testing.T) {
	w := newWorld(t)
	var got []string
	for _, a := range w.exchange.Arms {
		got = append(got, fmt.Sprintf("%s: %s %s to %s %s", a.Name, a.Path.From.Interface, a.Path.From.Address, a.Path.To.Interface, a.Path.To.Address))
	}
	want := []string{
		"veth a0-a1: a0 10.98.0.1 to a1 10.98.0.2",
		"veth b0-b1: b0 10.97.0.1 to b1 10.97.0.2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if m := Machines(w.stations, w.exchange.Arms); len(m) != 1 || len(m[0].Interfaces) != 4 {
		t.Errorf("%+v", m)
	}
	if why := WhyNoEngine(w.stations, "iperf3"); why != "" {
		t.Error(why)
	}
	if why := WhyNoEngine(w.stations, "nosuch"); !strings.Contains(why, w.netns[0]) {
		t.Errorf("an engine that nobody has: %q", why)
	}
	other := *w.stations[1]
	other.Machine.Tools = []bench.Setting{{Name: "iperf3", Value: "3.99"}, {Name: "ping", Value: "of another age"}}
	if why := WhyNoEngine([]*Station{w.stations[0], &other}, "iperf3"); !strings.Contains(why, w.netns[1]+" 3.99, and figures of two versions say little") {
		t.Errorf("two versions: %q", why)
	}
	if why := WhyNoEngine([]*Station{w.stations[0], &other}, "ping"); why != "" {
		t.Errorf("an engine that one end needs: %q", why)
	}
}

// A run is proven on the path that its traffic took. In the reverse direction its evidence is at
// the other end. A run whose traffic took another way than its path is void.
func TestOnce(t *testing.T) {
	w := newWorld(t)
	for arm := range w.exchange.Arms {
		for _, reverse := range []bool{false, true} {
			w.exchange.Arms[arm].Workload.Reverse = reverse
			run := w.goodRun(t, arm)
			if run.Gbps <= 0 || len(run.Limits) == 0 {
				t.Errorf("arm %d, reverse %v: %g Gb/s, %v", arm, reverse, run.Gbps, run.Limits)
			}
			sent, got := run.From.Interfaces[0], run.To.Interfaces[0]
			if reverse {
				sent, got = got, sent
			}
			if sent.TxBytes < run.Bytes/2 || got.RxBytes < run.Bytes/2 { // the windows are of a second: they begin some milliseconds apart
				t.Errorf("arm %d, reverse %v: %+v, %+v for %d bytes", arm, reverse, sent, got, run.Bytes)
			}
		}
	}
	// The path over b has a's addresses, so that its traffic goes over a.
	wrong := w.exchange.Arms[1]
	wrong.Path.From.Address, wrong.Path.To.Address = w.exchange.Arms[0].Path.From.Address, w.exchange.Arms[0].Path.To.Address
	wrong.Workload.Reverse = false
	w.exchange.Arms[1] = wrong
	w.checkVoid(t, 1, func(context.Context) {}, "took another way", "route")
}

// A failure between the ends makes a run void, with the reason. Afterwards runs are made as before.
func TestBadDaysOfAPath(t *testing.T) {
	w := newWorld(t)
	w.askNeighboursOften(t)
	for _, c := range []struct {
		name        string
		spoil, mend []string // of the second end
		want        string
	}{
		// A rule that drops TCP without an answer, as a firewall does.
		{"a firewall", []string{"rule", "add", "pref", "1", "iif", "a1", "ipproto", "tcp", "blackhole"}, []string{"rule", "del", "pref", "1"}, "unable to connect"},
		{"no address", []string{"addr", "del", "10.98.0.2/24", "dev", "a1"}, []string{"addr", "add", "10.98.0.2/24", "dev", "a1"}, "cannot assign requested address"},
		{"no link", []string{"link", "set", "a1", "down"}, []string{"link", "set", "a1", "up"}, "unable to connect"},
	} {
		if c.name == "a firewall" { // the kernel's rule for local addresses comes first by default
			w.runIn(t, 1, "rule", "add", "pref", "10", "lookup", "local")
			w.runIn(t, 1, "rule", "del", "pref", "0")
		}
		w.runIn(t, 1, c.spoil...)
		began := time.Now()
		run, err := w.runOnce(t, 0)
		t.Logf("%s: after %.1f s: %s", c.name, time.Since(began).Seconds(), run.Void)
		if err != nil || !strings.Contains(run.Void, c.want) || run.Gbps != 0 || run.Bytes != 0 {
			t.Errorf("%s: %v, %+v", c.name, err, run)
		}
		w.runIn(t, 1, c.mend...)
		w.goodRun(t, 0)
	}
}

// askNeighboursOften makes the first end find in 0.3 s, and not in three, that no neighbour answers.
func (w *world) askNeighboursOften(t *testing.T) {
	t.Helper()
	run(t, "ip", "netns", "exec", w.netns[0], "sysctl", "-qw", "net.ipv4.neigh.a0.retrans_time_ms=100")
}

// An MTU that differs is named when a run fails.
func TestMTUMismatchIsNamed(t *testing.T) {
	w := newWorld(t)
	w.askNeighboursOften(t)
	w.runIn(t, 0, "link", "set", "a0", "mtu", "9000")
	w.runIn(t, 1, "link", "set", "a1", "down")
	if err := DescribeStations(t.Context(), w.stations[:1]); err != nil {
		t.Fatal(err)
	}
	w.exchange.Arms[0].Path.From.MTU = 9000
	run, err := w.runOnce(t, 0)
	if err != nil || !strings.Contains(run.Void, "the MTU is 9000 on a0") {
		t.Errorf("%v, %q", err, run.Void)
	}
}

// A run in which a link goes down and up again is void: its other seconds make no figure.
func TestLinkFlaps(t *testing.T) {
	w := newWorld(t)
	w.exchange.Arms[0].Workload.Seconds = 2
	w.checkVoid(t, 0, func(ctx context.Context) {
		w.awaitTraffic(ctx, 1, "a1") // iperf3 does not connect over a link that is down
		for ctx.Err() == nil {
			w.runIn(t, 1, "link", "set", "a1", "down")
			w.runIn(t, 1, "link", "set", "a1", "up")
			_ = pauseFor(ctx, 800*time.Millisecond)
		}
	}, "went down in the run")
	w.exchange.Arms[0].Workload.Seconds = 1
	w.goodRun(t, 0)
}

// If a route leads another way for a part of a run, the path's counters lack bytes, and the run is
// void.
func TestRouteFlaps(t *testing.T) {
	w := newWorld(t)
	for i := range w.netns { // the receiver does not drop frames that come over the other link
		for _, name := range []string{"all", "default", fmt.Sprint("a", i), fmt.Sprint("b", i)} {
			run(t, "ip", "netns", "exec", w.netns[i], "sysctl", "-qw", "net.ipv4.conf."+name+".rp_filter=0")
		}
	}
	w.exchange.Arms[0].Workload.Seconds = 2
	w.checkVoid(t, 0, func(ctx context.Context) {
		if !w.awaitTraffic(ctx, 1, "a1") {
			return
		}
		w.runIn(t, 0, "route", "add", "10.98.0.2/32", "via", "10.97.0.2", "dev", "b0", "src", "10.98.0.1")
		_ = pauseFor(ctx, 700*time.Millisecond)
		w.runIn(t, 0, "route", "del", "10.98.0.2/32")
	}, "took another way", "which is not on the path")
	w.exchange.Arms[0].Workload.Seconds = 1
	w.goodRun(t, 0)
}

// Foreign traffic over the path's own interfaces is in their counters, and in no figure: beside the
// run's, or only in the direction in which nothing of the run goes.
func TestForeignTraffic(t *testing.T) {
	w := newWorld(t)
	w.exchange.Arms[0].Workload = bench.Workload{Kind: bench.Datagram, Engine: "culvert", Size: 1000, Rate: 8e6, Seconds: 2}
	w.goodRun(t, 0)
	for name, argv := range map[string][]string{
		"both ways": {w.netns[0], "ping", "-q", "-f", "-s", "1400", "-l", "100", "10.98.0.2"},
		"back":      {w.netns[1], "bash", "-c", "exec 3>/dev/udp/10.98.0.1/9; while :; do printf %01400d 0 >&3; done 2>/dev/null"},
	} {
		t.Run(name, func(t *testing.T) {
			w.checkVoid(t, 0, func(ctx context.Context) {
				// It is killed when the run has ended.
				_ = exec.CommandContext(ctx, "ip", append([]string{"netns", "exec"}, argv...)...).Run()
			}, "other traffic was on the path")
		})
	}
}

// A CPU quota stops the engine in each period. The figure is the quota's, and says so.
func TestThrottledEnd(t *testing.T) {
	w := newWorld(t)
	group := newQuota(t, 0.05)
	w.exchange.Arms[0].Workload = bench.Workload{Kind: bench.Stream, Engine: "culvert", Seconds: 2, Streams: 1}
	w.pipes, w.stations = nil, w.stations[:1]
	throttled := w.openBy(t, 1, "#!/bin/sh\necho $$ >"+group+"/cgroup.procs\nexec "+os.Args[0]+" \"$@\"\n")
	w.stations = append(w.stations, throttled)
	if err := DescribeStations(t.Context(), w.stations); err != nil {
		t.Fatal(err)
	}
	w.exchange.Stations = w.stations
	var got bench.Run
	for range 8 { // an agent that the quota stops may also be late
		var err error
		if got, err = w.runOnce(t, 0); err != nil {
			t.Fatal(err)
		}
		if got.Void == "" {
			break
		}
		t.Log(got.Void)
	}
	if got.Void == "" && (got.To.Throttled.Times == 0 || got.Limits[0].What != "quota") {
		t.Errorf("%+v, %+v", got.To.Throttled, got.Limits)
	}
}

// newQuota makes a cgroup that has so many processors, until the test ends.
func newQuota(t *testing.T, processors float64) (folder string) {
	t.Helper()
	const period = 100_000
	name := fmt.Sprintf("cvquota%d", os.Getpid())
	for root, file := range map[string]string{"/sys/fs/cgroup/cpu": "cpu.cfs_quota_us", "/sys/fs/cgroup": "cpu.max"} {
		folder = filepath.Join(root, name)
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue
		}
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Skip("cgroups cannot be made here: ", err)
		}
		t.Cleanup(func() {
			for range 600 {
				if os.Remove(folder) == nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
			t.Errorf("%s is left", folder)
		})
		text := fmt.Sprintf("%d", int(processors*period))
		if file == "cpu.max" {
			text += fmt.Sprintf(" %d", period)
		}
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
			t.Skip("cgroups have no CPU quota here: ", err)
		}
		return folder
	}
	t.Skip("there is no cgroup with the controller cpu")
	return ""
}

// An end that dies ends the measurement.
func TestEndDies(t *testing.T) {
	w := newWorld(t)
	for i := range w.exchange.Arms {
		w.exchange.Arms[i].Workload.Seconds = 5
	}
	r := &Rounds{Arms: w.exchange.Arms, Limits: Limits{Repeats: 6, MaxTime: time.Hour}, Once: w.exchange.RunArm, Now: time.Now}
	time.AfterFunc(2*time.Second, func() { _ = w.pipes[1].Close() })
	began := time.Now()
	runs, unfinished := r.Run(t.Context())
	counts := func(r bench.Run) bool { return !r.Discard && r.Void == "" }
	if slices.ContainsFunc(runs, counts) || !strings.Contains(unfinished, w.netns[1]) || !strings.Contains(unfinished, "gone") {
		t.Errorf("%d runs, %q", len(runs), unfinished)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s to notice", took)
	}
}

func TestInterrupted(t *testing.T) {
	w := newWorld(t)
	w.exchange.Arms[0].Workload.Seconds = 120
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	began := time.Now()
	if _, err := w.exchange.RunArm(ctx, 0); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Minute {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	w.exchange.Arms[0].Workload.Seconds = 1
	w.goodRun(t, 0) // nothing of the former runs disturbs it
}

// A run whose counted time is wrong, as after a jump of the clock, is void.
func TestCounted(t *testing.T) {
	w := bench.Workload{Seconds: 10}
	for seconds, good := range map[float64]bool{10: true, 9.5: true, 11: true, 3600: false, 0.1: false, -50: false} {
		if why := checkCounted(w, bench.Run{Seconds: seconds}); (why == "") != good {
			t.Errorf("%g s: %q", seconds, why)
		}
	}
}
