package preset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
)

// crossed are the paths of every sender to every receiver, over a network.
func crossed(network string, from, to []bench.End) []bench.Path {
	var all []bench.Path
	for _, f := range from {
		for _, t := range to {
			all = append(all, bench.Path{Ends: "pod-pod", Network: network, Place: "other node", From: f, To: t})
		}
	}
	return all
}

// pods are so many on a machine, with an interface each.
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

// m11 has three senders to one receiver where they are there, and m16 the VFs of a PF, each once; with one sender
// both measure what they can and say so.
func TestAtOnce(t *testing.T) {
	overlay := crossed("overlay", pods("n1", "eth0", "", "a", "b", "c", "d"), pods("n2", "eth0", "", "r"))
	vfs := crossed("VF", pods("n1", "net1", "p0", "a", "b", "c", "d"), pods("n2", "net1", "p0", "r"))
	pairs := crossed("VF", pods("n1", "net1", "p0", "a", "b", "c"), pods("n2", "net1", "p0", "r", "s", "u"))
	twoPFs := crossed("VF", append(pods("n1", "net1", "p0", "a", "b"), pods("n1", "net1", "p1", "c", "d", "e")...), pods("n2", "net1", "p0", "r", "s"))
	for _, c := range []struct {
		preset string
		paths  []bench.Path
		want   []string
		note   string
	}{
		{"m11", slices.Concat(overlay, vfs), []string{"overlay 3 senders: a>r b>r c>r", "VF 3 senders: a>r b>r c>r"}, "Culvert's own engine"},
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
