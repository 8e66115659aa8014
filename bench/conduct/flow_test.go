package conduct

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
)

// newStar is four network namespaces of the test's own that a bridge in a fifth joins: e0 is
// 10.95.0.1 in the first, and so on. Its arms are of small packets, few enough for any machine: from the first three
// to the last, and in two pairs.
func newStar(t *testing.T) *world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	w := &world{}
	name := func(what string) string { return fmt.Sprintf("cvstar%d-%s", os.Getpid(), what) }
	add := func(name string) {
		run(t, "ip", "netns", "add", name)
		t.Cleanup(func() { run(t, "ip", "netns", "del", name) })
	}
	bridge := name("switch")
	add(bridge)
	run(t, "ip", "-n", bridge, "link", "add", "br0", "type", "bridge")
	run(t, "ip", "-n", bridge, "link", "set", "br0", "up")
	for i := range 4 {
		end, port := name(fmt.Sprint(i)), fmt.Sprint("p", i)
		add(end)
		w.netns = append(w.netns, end)
		w.runIn(t, i, "link", "set", "lo", "up")
		w.runIn(t, i, "link", "add", "name", "e0", "type", "veth", "peer", "name", port, "netns", bridge)
		w.runIn(t, i, "addr", "add", fmt.Sprintf("10.95.0.%d/24", i+1), "dev", "e0")
		w.runIn(t, i, "link", "set", "e0", "up")
		run(t, "ip", "-n", bridge, "link", "set", port, "master", "br0", "up")
	}
	w.openAll(t)
	load := bench.Workload{Kind: bench.Packets, Engine: "culvert", Seconds: 1.5, Streams: 1, Size: 64, Rate: 3000}
	path := func(from, to int) bench.Path { return Between(w.stations[from:from+1], w.stations[to:to+1])[0] }
	load.Senders = 3
	three := bench.Arm{Name: "three", Path: path(0, 3), Also: []bench.Path{path(1, 3), path(2, 3)}, Workload: load}
	load.Senders = 2
	pairs := bench.Arm{Name: "pairs", Path: path(0, 1), Also: []bench.Path{path(2, 3)}, Workload: load}
	w.exchange.Arms = []bench.Arm{three, pairs}
	return w
}

// Several paths carry their traffic at once: the figure is the total, each path has its share and
// its own evidence, and an interface that they share has counted them all.
func TestSeveralPathsAtOnce(t *testing.T) {
	w := newStar(t)
	for arm, a := range w.exchange.Arms {
		for _, reverse := range []bool{false, true} {
			w.exchange.Arms[arm].Workload.Reverse = reverse
			n := len(a.Paths())
			run := w.goodRun(t, arm)
			if len(run.Shares) != n || len(run.From.Interfaces)+len(run.To.Interfaces) != 0 {
				t.Fatalf("%s: %d shares, %+v", a.Name, len(run.Shares), run)
			}
			var packets uint64
			for i, one := range run.Each() {
				packets += one.Packets
				sent, got := one.From.Interfaces[0], one.To.Interfaces[0]
				if reverse {
					sent, got = got, sent
				}
				// A sender makes 3000 packets a second for 1.5 s, fewer on a slow machine, and never more.
				if float64(one.Packets) > 3300*max(1.5, one.Seconds) || one.Packets < 500 || sent.TxPackets < one.Packets/2 || sent.Interface != "e0" {
					t.Errorf("%s, reverse %v: path %d carried %d, %+v", a.Name, reverse, i, one.Packets, sent)
				}
				if shared := a.Name == "three" && !reverse; shared && got.RxPackets < 2*one.Packets {
					t.Errorf("%s: all went to one interface, and it counted %+v", a.Name, got)
				}
			}
			if run.Packets != packets || run.PPS > 3300*float64(n) || run.PPS < 1000*float64(n) {
				t.Errorf("%s, reverse %v: %d packets, %g a second; the shares have %d", a.Name, reverse, run.Packets, run.PPS, packets)
			}
			if fair := a.Fairness(run); !(fair > 0.1 && fair <= 1) {
				t.Errorf("%s: fairness %g", a.Name, fair)
			}
		}
	}
}

// When one of several flows fails the run is void and says which one; nothing of the others stays in the
// way of the next run.
func TestOneOfSeveralFails(t *testing.T) {
	w := newStar(t)
	w.runIn(t, 1, "addr", "del", "10.95.0.2/24", "dev", "e0")
	run, err := w.runOnce(t, 0)
	if want := w.netns[1] + " e0 to " + w.netns[3] + " e0: "; err != nil || !strings.Contains(run.Void, want) {
		t.Errorf("%v, %q; want %q in it", err, run.Void, want)
	}
	w.runIn(t, 1, "addr", "add", "10.95.0.2/24", "dev", "e0")
	w.goodRun(t, 0)

	w.exchange.Arms[0].Workload.Engine, w.exchange.Arms[0].Workload.Kind = "iperf3", bench.Stream
	if run, err = w.runOnce(t, 0); err != nil || run.Void == "" {
		t.Errorf("an engine that cannot wait for others: %v, %+v", err, run)
	}
	w.exchange.Arms[0].Workload.Engine, w.exchange.Arms[0].Workload.Kind = "culvert", bench.Packets
	w.goodRun(t, 0)
}

// A sender that dies ends all flows. A run that is interrupted leaves the agents ready for the next
// one.
func TestSeveralEnd(t *testing.T) {
	w := newStar(t)
	w.exchange.Arms[0].Workload.Seconds = 30
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := w.exchange.RunArm(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("interrupted: %v", err)
	}
	w.exchange.Arms[0].Workload.Seconds = 2
	w.goodRun(t, 0)

	w.exchange.Arms[0].Workload.Seconds = 50
	time.AfterFunc(time.Second, func() { _ = w.pipes[2].Close() })
	began := time.Now()
	var err error
	for range 2 { // the first may only be void
		if _, err = w.runOnce(t, 0); err != nil {
			break
		}
	}
	if !errors.Is(err, agent.ErrGone) || !strings.Contains(err.Error(), w.netns[2]) || time.Since(began) > 45*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// Windows are compared only if they have one clock.
func TestApart(t *testing.T) {
	on := func(machine string) *side {
		return &side{Station: &Station{Site: Site{Name: "a", Machine: bench.Machine{Name: machine}}}}
	}
	window := func(opens time.Duration) agent.Window {
		return agent.Window{Opens: opens, Closes: opens + 10*time.Second}
	}
	for name, c := range map[string]struct {
		to     string // the machine of the second receiver
		late   time.Duration
		broken bool
	}{
		"together":       {"n2", 900 * time.Millisecond, false},
		"late":           {"n2", 1100 * time.Millisecond, true},
		"early":          {"n2", -1100 * time.Millisecond, true},
		"another clock":  {"n3", time.Hour, false},
		"without window": {"n2", -5 * time.Second, false},
	} {
		flows := []*flow{{sender: on("n0"), receiver: on("n2"), beside: true}, {sender: on("n1"), receiver: on(c.to), beside: true}}
		windows := [][2]agent.Window{{window(0), window(5 * time.Second)}, {window(time.Hour), window(5*time.Second + c.late)}}
		if name == "without window" {
			windows[1][1] = agent.Window{}
		}
		if err := checkTogether(flows, windows); (err != nil) != c.broken {
			t.Errorf("%s: %v", name, err)
		}
	}
}
