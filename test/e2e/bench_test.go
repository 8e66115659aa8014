//go:build lab

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/demo/node"
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

// measured runs presets from containers to one, from this host.
func measured(t *testing.T, from []end, to end, args ...string) bench.Result {
	t.Helper()
	file := filepath.Join(t.TempDir(), "result.json")
	place := func(e end) string { return "lab:" + e.node.Lab.Name() + "/" + e.node.Name + ",netns=" + e.Netns }
	args = append([]string{"bench", "run", "--to", place(to), "--out", file}, args...)
	for _, e := range from {
		args = append(args, "--from", place(e))
	}
	out, err := exec.CommandContext(t.Context(), os.Getenv("CULVERT"), args...).CombinedOutput()
	t.Logf("culvert %s\n%s", strings.Join(args, " "), out)
	if err != nil {
		t.Fatal(err)
	}
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
