package preset

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
)

// crossed returns the paths of every sender to every receiver, over a network.
func crossed(network string, from, to []bench.End) []bench.Path {
	var all []bench.Path
	for _, f := range from {
		for _, t := range to {
			all = append(all, bench.Path{Ends: "pod-pod", Network: network, Place: "other node", From: f, To: t})
		}
	}
	return all
}

// pods returns the ends of pods on a machine, with an interface each.
func pods(machine, iface, pf string, names ...string) []bench.End {
	var all []bench.End
	for i, n := range names {
		e := bench.End{Machine: machine, Name: n, Interface: iface, PF: pf}
		if pf != "" {
			e.VF = &i
		}
		all = append(all, e)
	}
	return all
}

func armsOf(p Plan) []string {
	var all []string
	for _, a := range p.Arms {
		var ways []string
		for _, p := range a.Paths() {
			ways = append(ways, p.From.Name+">"+p.To.Name)
		}
		all = append(all, fmt.Sprintf("%s %s: %s", a.Path.Network, a.Name, strings.Join(ways, " ")))
	}
	return all
}

// With enough pods m11 has three senders to one receiver, and m16 has each VF of a PF once. With
// one sender both measure with that one, and add a note.
func TestAtOnce(t *testing.T) {
	overlay := crossed("overlay", pods("n1", "eth0", "", "a", "b", "c", "d"), pods("n2", "eth0", "", "r"))
	vfs := crossed("VF", pods("n1", "net1", "p0", "a", "b", "c", "d"), pods("n2", "net1", "p0", "r"))
	pairs := crossed("VF", pods("n1", "net1", "p0", "a", "b", "c"), pods("n2", "net1", "p0", "r", "s", "u"))
	twoPFs := crossed("VF", append(pods("n1", "net1", "p0", "a", "b"), pods("n1", "net1", "p1", "c", "d", "e")...), pods("n2", "net1", "p0", "r", "s"))
	var vlans []bench.Path // a VLAN for each sender
	for i, name := range []string{"a", "b", "c"} {
		vlan := fmt.Sprintf("vlan%d", 97+i)
		vlans = append(vlans, crossed("VLAN", pods("n1", vlan, "", name), pods("n2", vlan, "", "r"))...)
	}
	for _, c := range []struct {
		preset string
		paths  []bench.Path
		want   []string
		note   string
	}{
		{"m11", slices.Concat(overlay, vfs), []string{"overlay 3 senders: a>r b>r c>r", "VF 3 senders: a>r b>r c>r"}, "Culvert's own engine"},
		{"m11", slices.Concat(vfs, vlans), []string{"VF 3 senders: a>r b>r c>r", "VLAN 3 senders: a>r b>r c>r"}, "Culvert's own engine"},
		{"m11", vfs[:2], []string{"VF 2 senders: a>r b>r"}, "the report had 3 senders; here there are 2"},
		{"m11", vfs[:1], []string{"VF : a>r"}, "--from may be given three times"},
		{"m11", pairs, []string{"VF 3 senders: a>r b>r c>r", "VF 3 senders: a>s b>s c>s", "VF 3 senders: a>u b>u c>u"}, "Culvert's own engine"},
		{"m16", slices.Concat(overlay, vfs), []string{"VF 4 at once: a>r b>r c>r d>r"}, "Culvert's own engine"},
		{"m16", pairs, []string{"VF 3 at once: a>r b>s c>u"}, "Culvert's own engine"},
		{"m16", twoPFs, []string{"VF 2 at once: a>r b>s", "VF 3 at once: c>r d>s e>r"}, "Culvert's own engine"},
		{"m16", vfs[:1], []string{"VF : a>r"}, "N is 1"},
	} {
		plan, err := find(t, c.preset).Plan(Here{Paths: c.paths, Lacks: func(string) string { return "" }}, false)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, armsOf(plan)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.preset, diff)
		}
		if !strings.Contains(strings.Join(plan.Notes, "\n"), c.note) {
			t.Errorf("%s: %q; want %q", c.preset, plan.Notes, c.note)
		}
		for _, a := range plan.Arms {
			w := a.Workload
			if n := len(a.Also); n > 0 && (w.Senders != n+1 || w.Engine != "culvert" || w.Streams != 1 || w.Size != 64) || n == 0 && w.Senders != 0 {
				t.Errorf("%s %s: %+v", c.preset, a.Name, w)
			}
		}
	}
}

// With one receiver m11 and m16 are one experiment: it is measured once, for both.
func TestOneExperimentIsMeasuredOnce(t *testing.T) {
	var paths []bench.Path
	for i := range 3 {
		vf := i
		paths = append(paths, bench.Path{
			Ends: "pod-pod", Network: "VF", Place: "other node",
			From: bench.End{Machine: "n1", Name: "pod" + string(rune('a'+i)), Interface: "net1", PF: "p0", VF: &vf},
			To:   bench.End{Machine: "n2", Name: "r", Interface: "net1", PF: "p0", VF: &vf},
		})
	}
	m11, err := Find("m11")
	if err != nil {
		t.Fatal(err)
	}
	m16, err := Find("m16")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := Together([]Preset{m11, m16}, Here{Paths: paths, Lacks: func(string) string { return "" }}, false)
	if err != nil || len(plan.Arms) != 1 || plan.Arms[0].Name != "m11 m16 3 senders" {
		t.Errorf("%+v, %v", plan.Arms, err)
	}
}

// A figure stands beside the arms that are most like the report's. The order of the arms does not
// matter.
func TestFiguresStandBesideTheirLike(t *testing.T) {
	arm := func(name, ends, place, network string) bench.Arm {
		return bench.Arm{Name: name, Path: bench.Path{Ends: ends, Place: place, Network: network}}
	}
	arms := []bench.Arm{
		arm("node", "node-node", "other node", "overlay"), arm("near", "pod-pod", "same node", "overlay"),
		arm("pod", "pod-pod", "other node", "overlay"), arm("pod again", "pod-pod", "other node", "overlay"),
	}
	for range 2 {
		var got []string
		for _, f := range placeFigures([]bench.Figure{figureGbps("R0", 4.59), standFor("node-node", figureGbps("R3", 6.31)), standFor("pod-node,VF", figureGbps("none", 1))}, arms) {
			got = append(got, f.Name+" "+f.Arm)
		}
		slices.Sort(got)
		if want := []string{"R0 pod", "R0 pod again", "R3 node", "none "}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		slices.Reverse(arms)
	}
}

// Frames of 64 bytes do not fit over IPv6: such paths are left out, and not planned to be void three times.
func TestSmallFramesOverIPv6AreNotPlanned(t *testing.T) {
	path := func(address string) bench.Path {
		return bench.Path{Ends: "pod-pod", Network: "VF", Place: "other node", From: bench.End{Machine: "n1", Name: address, Address: netip.MustParseAddr(address)}, To: bench.End{Machine: "n2"}}
	}
	m10, err := Find("m10")
	if err != nil {
		t.Fatal(err)
	}
	own := func(string) string { return "it is not here" }
	plan, err := m10.Plan(Here{Paths: []bench.Path{path("10.0.0.1"), path("fd00::1")}, Lacks: own}, false)
	if err != nil || len(plan.Arms) != 1 || !strings.Contains(strings.Join(plan.Notes, ";"), "1 paths of IPv6 are left out") {
		t.Errorf("%+v, %v", plan, err)
	}
	if _, err := m10.Plan(Here{Paths: []bench.Path{path("fd00::1")}, Lacks: own}, false); err == nil || !strings.Contains(err.Error(), "paths of IPv6 are left out") {
		t.Errorf("%v", err)
	}
	if _, err := m10.Plan(Here{Paths: []bench.Path{path("fd00::1")}, Lacks: func(string) string { return "" }}, false); err == nil || !strings.Contains(err.Error(), "pktgen sends 78 at least") {
		t.Errorf("pktgen would send larger ones: %v", err)
	}
}
