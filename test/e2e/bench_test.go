//go:build lab

package e2e

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/demo"
	"github.com/culvert-net/culvert/demo/node"
	"github.com/culvert-net/culvert/lab"
)

// The presets that a lab can run, in their short form, over a VF and an overlay: each
// says what it ran over, by the interfaces' own counters, a cable that is pulled stops
// what goes over it, and nothing is left.
func TestBench(t *testing.T) {
	leavesNothing(t, nodes...)
	for _, n := range nodes {
		if err := n.JoinOverlay(t.Context(), len(nodes)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := n.Script(context.Background(), "leave the overlay", "ip link delete flannel.1; ip link delete cni0; ip address flush dev "+node.UplinkPF); err != nil {
				t.Error(err)
			}
		})
	}
	from, to := plug(t, nodes[0], 0, 21), plug(t, nodes[1], 0, 22)
	for _, e := range []end{from, to} {
		add(t, e.node, node.Attachment{Network: node.OverlayNetwork, Dir: node.OverlayDir, Netns: e.Netns, Interface: "eth0"})
	}
	before := [2]string{traces(t, nodes[0]), traces(t, nodes[1])}
	r := measured(t, []end{from}, to, "m1", "m3", "m4", "m5", "m6", "m9", "m10", "m14", "m17", "m18", "--quick", "--repeats", "1")
	ran := map[string]bool{}
	for i, a := range r.Arms {
		words := strings.Fields(a.Name)
		for _, w := range words {
			ran[w] = true
		}
		if p := a.Path; p.Place != "other node" || p.Network == "VF" && (p.From.Driver != "igbvf" || p.To.Driver != "igbvf") || p.Network != "VF" && p.Network != "overlay" {
			t.Errorf("arm %s has the path %+v", a.Name, a.Path)
		}
		if counted(r, i) == 0 {
			t.Errorf("arm %s has no run that counts", a.Name)
		}
	}
	for _, preset := range []string{"m1", "m3", "m4", "m5", "m6", "m9", "m10", "m14", "m17", "m18"} {
		if !ran[preset] {
			t.Errorf("%s has no arm: %q", preset, r.Notes)
		}
	}
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, " 0 while it was,") }) {
		t.Errorf("a pulled cable did not stop the traffic: %q", r.Notes)
	}
	for i, n := range nodes {
		if after := traces(t, n); after != before[i] {
			t.Errorf("%s has\n%s\nand had\n%s", n.Name, after, before[i])
		}
	}
}

// Two VFs of one PF are joined by the NIC's own switch, and so says the result.
func TestBenchOnOnePF(t *testing.T) {
	leavesNothing(t, nodes[0])
	r := measured(t, []end{plug(t, nodes[0], 0, 23)}, plug(t, nodes[0], 0, 24), "m8", "--quick", "--repeats", "1")
	if len(r.Arms) != 1 || r.Arms[0].Path.Place != "same PF" || counted(r, 0) == 0 {
		t.Errorf("%+v", r.Arms)
	}
}

// Three VFs of a PF send to one VF at the same time, and each has a share of what arrives.
func TestBenchOfSeveralSenders(t *testing.T) {
	leavesNothing(t, nodes...)
	senders := []end{plug(t, nodes[0], 0, 25), plug(t, nodes[0], 0, 26), plug(t, nodes[0], 0, 27)}
	r := measured(t, senders, plug(t, nodes[1], 0, 28), "m11", "m16", "--quick", "--repeats", "1")
	if len(r.Arms) != 2 {
		t.Errorf("%+v", r.Arms)
	}
	for i, a := range r.Arms {
		if len(a.Paths()) != 3 || counted(r, i) == 0 {
			t.Errorf("arm %s: %d paths, %d runs count", a.Name, len(a.Paths()), counted(r, i))
		}
	}
}

// With --lab everything is made for the measurement, and nothing of it is there afterwards.
func TestBenchInALabOfItsOwn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "result.json")
	out, err := exec.CommandContext(t.Context(), os.Getenv("CULVERT"), "bench", "run", "m3", "m4", "--lab", "--quick", "--repeats", "1", "--path", "pod-pod", "--out", file).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	r := read(t, file)
	for i, a := range r.Arms {
		if counted(r, i) == 0 {
			t.Errorf("arm %s has no run that counts", a.Name)
		}
	}
	if len(r.Arms) != 2 {
		t.Errorf("%d arms, want the overlay and the VF", len(r.Arms))
	}
	if l, err := lab.Open(demo.BenchName); err == nil {
		l.Close()
		t.Error("the lab is still up")
	}
}

// What goes wrong before a run or in it is told, and makes no figure; a clock that is set
// changes none.
func TestBenchOnBadDays(t *testing.T) {
	leavesNothing(t, nodes...)
	from, to := plug(t, nodes[0], 0, 29), plug(t, nodes[1], 0, 30)
	// meanwhile runs a script on the receiver's node while something is measured, once
	// 2 MB more have come; "$1" is the receiver's netns, and $going says to go on.
	const going = `[ -e /tmp/going ]`
	meanwhile := func(t *testing.T, script string) (end func()) {
		t.Helper()
		must(t, to.node, "touch", "/tmp/going")
		done := make(chan error, 1)
		go func() {
			_, err := to.node.Script(context.WithoutCancel(t.Context()), "spoil a run",
				`come() { ip netns exec "$1" awk '/net1:/ { print int($2 / 2e6) }' /proc/net/dev; }
				was=$(come "$1"); while `+going+` && [ "$(come "$1")" -le "$was" ]; do sleep 0.2; done; `+script, to.Netns)
			done <- err
		}()
		return func() {
			must(t, to.node, "rm", "/tmp/going")
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	run := func(t *testing.T) (bench.Result, string, error) {
		t.Helper()
		return tryToMeasure(t, []end{from}, to, "m4", "--quick", "--repeats", "1")
	}
	fails := func(t *testing.T, words ...string) {
		t.Helper()
		r, out, err := run(t)
		if err == nil {
			t.Error("the exit status is 0")
		}
		for i, a := range r.Arms {
			if n := counted(r, i); n > 0 {
				t.Errorf("arm %s has %d runs that count", a.Name, n)
			}
		}
		mentions(t, out, words...)
	}

	t.Run("there is no receiver", func(t *testing.T) {
		gone := to
		gone.Netns = "/run/netns/gone"
		_, out, err := tryToMeasure(t, []end{from}, gone, "m4", "--quick")
		if err == nil {
			t.Error("the exit status is 0")
		}
		mentions(t, out, "/run/netns/gone", to.node.Name)
	})
	t.Run("a firewall", func(t *testing.T) {
		// A rule that drops TCP without a word. Local addresses are found before other
		// rules, unless told otherwise.
		must(t, to.node, "bash", "-c", `for r in "add pref 10 lookup local" "del pref 0" "add pref 1 iif net1 ipproto tcp blackhole"; do ip -n "$1" rule $r || exit; done`, "-", filepath.Base(to.Netns))
		fails(t, to.node.Name)
		must(t, to.node, "ip", "-n", filepath.Base(to.Netns), "rule", "del", "pref", "1")
	})
	t.Run("a link that flaps", func(t *testing.T) {
		end := meanwhile(t, `while `+going+`; do ip -n "$(basename "$1")" link set net1 down; ip -n "$(basename "$1")" link set net1 up; sleep 1; done`)
		fails(t, "net1", "went down in the run")
		end()
	})
	t.Run("a clock that is set", func(t *testing.T) {
		end := meanwhile(t, `date -s '+1 hour'; while `+going+`; do sleep 0.2; done; date -s '-1 hour'`)
		r, out, err := run(t)
		end()
		if err != nil || len(r.Runs) == 0 {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, run := range r.Runs {
			if run.Void != "" || run.Seconds < 1.5 || run.Seconds > 3 || run.Gbps <= 0 {
				t.Errorf("%g s, %g Gb/s, %q", run.Seconds, run.Gbps, run.Void)
			}
		}
	})
}

// measured runs presets from containers to one, from this host.
func measured(t *testing.T, from []end, to end, args ...string) bench.Result {
	t.Helper()
	r, _, err := tryToMeasure(t, from, to, args...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tryToMeasure returns what culvert bench run wrote, if anything, what it said and its
// exit status.
func tryToMeasure(t *testing.T, from []end, to end, args ...string) (r bench.Result, said string, failed error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "result.json")
	place := func(e end) string { return "lab:" + e.node.Lab.Name() + "/" + e.node.Name + ",netns=" + e.Netns }
	args = append([]string{"bench", "run", "--to", place(to), "--out", file}, args...)
	for _, e := range from {
		args = append(args, "--from", place(e))
	}
	out, failed := exec.CommandContext(t.Context(), os.Getenv("CULVERT"), args...).CombinedOutput()
	t.Logf("culvert %s\n%s", strings.Join(args, " "), out)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) && failed != nil {
		return r, string(out), failed
	}
	return read(t, file), string(out), failed
}

func read(t *testing.T, file string) bench.Result {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := bench.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// counted are the runs of an arm that are neither void nor to warm up.
func counted(r bench.Result, arm int) (n int) {
	for _, run := range r.Runs {
		if run.Arm == arm && !run.Discard && run.Void == "" {
			n++
		}
	}
	return n
}

// traces are what a measurement could leave on a node.
func traces(t *testing.T, n node.Node) string {
	t.Helper()
	out, err := n.Script(t.Context(), "look for what is left", `ls -A /tmp /run/netns; ls -d /run/culvert-bench* || true; pgrep -ax 'iperf|iperf3|ping|culvert' || true`)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
