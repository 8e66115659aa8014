package blocks

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// showKept lists the grants in words; those that the node has just opened have no known ID.
func showKept(all []Kept, known ...string) (out []string) {
	for _, k := range all {
		id := k.ID
		if !strings.Contains(strings.Join(known, " "), id) {
			id = "new"
		}
		s := k.Network + " " + id
		for _, r := range k.Runs {
			s += " " + r.String()
		}
		out = append(out, s)
	}
	slices.Sort(out) // a new ID is random
	return out
}

func kept(id string, all ...string) Kept { return Kept{"n", ipam.Grant{ID: id, Runs: runs(all...)}} }

func granted(id, s string) Block { return Block{Run: run(s), Node: "here", Grant: id} }

func TestKeep(t *testing.T) {
	for name, tc := range map[string]struct {
		requested bool
		pool      Pool
		ledger    Ledger
		want      []string
		released  string
	}{
		"a network is requested": {true, Pool{}, Ledger{}, []string{"n new"}, ""},
		"an open grant stays":    {true, Pool{}, Ledger{Grants: []Kept{kept("1")}}, []string{"n 1"}, ""},
		"nothing is requested":   {false, Pool{}, Ledger{Grants: []Kept{kept("1"), kept("2", "10.0.0.2")}}, nil, ""},
		"its blocks are there":   {false, Pool{Blocks: []Block{granted("1", "10.0.0.2")}}, Ledger{Grants: []Kept{kept("1")}}, []string{"n 1"}, ""},
		"a grant that it does not know": {true, Pool{Blocks: []Block{granted("x", "10.0.0.2-10.0.0.3")}}, Ledger{Held: []Held{{Network: "n", Addr: addr("10.0.0.3")}}},
			[]string{"n new"}, "[{x 10.0.0.2}]"},
		"an address is wanted": {true, Pool{Wanted: runAddrs("10.0.0.3"), Blocks: []Block{granted("1", "10.0.0.2-10.0.0.5")}}, Ledger{Grants: []Kept{kept("1")}},
			[]string{"n 1 10.0.0.2 10.0.0.4-10.0.0.5", "n new"}, "[{1 10.0.0.3}]"},
		"a wanted address is held": {true, Pool{Wanted: runAddrs("10.0.0.3"), Blocks: []Block{granted("1", "10.0.0.2-10.0.0.5")}},
			Ledger{Grants: []Kept{kept("1")}, Held: []Held{{Network: "n", Addr: addr("10.0.0.3")}}}, []string{"n 1"}, ""},
		"an address is wanted while the ledger is damaged": {true, Pool{Wanted: runAddrs("10.0.0.3"), Blocks: []Block{granted("1", "10.0.0.2-10.0.0.5"), granted("x", "10.0.0.9")}},
			Ledger{Grants: []Kept{kept("1")}, Partial: true}, []string{"n 1"}, ""},
		"VFs may be in use that the ledger does not know": {true, Pool{Blocks: []Block{granted("x", "10.0.0.2-10.0.0.3")}}, Ledger{Strangers: true}, []string{"n new"}, ""},
		"all of a grant is wanted": {true, Pool{Wanted: runAddrs("10.0.0.3"), Blocks: []Block{granted("1", "10.0.0.3")}}, Ledger{Grants: []Kept{kept("1"), kept("2")}},
			[]string{"n 2"}, "[{1 10.0.0.3}]"},
		"the controller has taken it back": {true, Pool{Blocks: []Block{granted("1", "10.0.0.2")}}, Ledger{Grants: []Kept{kept("1", "10.0.0.2", "10.0.0.4-10.0.0.5"), kept("2")}},
			[]string{"n 1 10.0.0.2", "n 2"}, ""},
	} {
		b := NewBook("here", func() {})
		if tc.requested {
			b.SetNetworks(map[string]ipam.Config{"n": netConfig()})
		}
		tc.pool.Network = "n"
		b.SetPools([]View{{Pool: tc.pool}})
		l := tc.ledger
		l.Grants = b.Keep(l, time.Now())
		if diff := cmp.Diff(tc.want, showKept(l.Grants, "1", "2")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		requests, _ := b.Requests(func() (Ledger, error) { return l, nil })
		got := ""
		for _, r := range requests {
			if len(r.Released) > 0 {
				got += fmt.Sprint(r.Released)
			}
		}
		if got != tc.released {
			t.Errorf("%s: released %s, want %s", name, got, tc.released)
		}
	}
}

// A node gives back all but a block and a half of the addresses that it did not need for idleTime.
// If a node of the cluster has none left, it gives back all but half a block, after starvedTime.
// Addresses that it needed in between stay, and so do blocks of earlier versions. The grant's ID
// comes before any new one.
func TestIdleAddressesGoBack(t *testing.T) {
	wide := netOf("10.0.0.0/24") // for two nodes: blocks of 16
	pool := Pool{Network: "n", Blocks: []Block{granted("0", "10.0.0.2-10.0.0.65"), {Run: run("10.0.0.66-10.0.0.67"), Node: "here"}}}
	start := time.Now()
	for name, tc := range map[string]struct {
		exhausted, unused, old bool
		held                   string
		after                  time.Duration
		want                   string
	}{
		"at first":                   {after: idleTime - time.Second, want: "0"},
		"after a while":              {after: idleTime, want: "0 10.0.0.33-10.0.0.65"},
		"a pod has one behind them":  {held: "10.0.0.40", after: idleTime, want: "0 10.0.0.32-10.0.0.65"},
		"others starve":              {exhausted: true, after: starvedTime, want: "0 10.0.0.49-10.0.0.65"},
		"the network is not in use":  {unused: true, after: idleTime, want: ""},
		"an earlier controller":      {old: true, after: 2 * idleTime, want: "0"},
		"the clock was set back far": {after: -time.Hour, want: "0"},
	} {
		b := NewBook("here", func() {})
		if !tc.unused {
			b.SetNetworks(map[string]ipam.Config{"n": wide})
		}
		view := View{Pool: pool, Exhausted: tc.exhausted, ClusterNodes: 2}
		if tc.old {
			view.ClusterNodes = 0
		}
		b.SetPools([]View{view})
		l := Ledger{Grants: []Kept{kept("0")}}
		if tc.held != "" {
			l.Held = []Held{{Network: "n", Addr: addr(tc.held), Owner: podA}}
		}
		b.Keep(l, start)
		if !tc.unused { // a burst that needs 11 at a time
			for i := range 11 {
				defer b.Need("n", wide, nil, podA)()
				_ = i
			}
			b.Keep(l, start.Add(time.Second))
			clear(b.waiting)
		}
		got := strings.TrimPrefix(strings.Join(showKept(b.Keep(l, start.Add(tc.after)), "0"), "|"), "n ")
		got, _, _ = strings.Cut(got, "|n new")
		if got != tc.want {
			t.Errorf("%s: the node keeps %q, want %q", name, got, tc.want)
		}
	}
}

// A node reads its ledger at once when a pool wants an address of the node's blocks, and only
// then: a pod of another node waits for it.
func TestWantsAny(t *testing.T) {
	blocks := []Block{
		{Run: run("10.0.0.2-10.0.0.5"), Node: "here", UID: "now", Grant: "1"}, {Run: run("10.0.0.6"), Node: "there", UID: "there", Grant: "2"},
		{Run: run("10.0.0.7"), Node: "here", UID: "earlier", Grant: "3"},
	}
	for name, tc := range map[string]struct {
		wanted []string
		want   bool
	}{
		"none":                            {nil, false},
		"of this node":                    {[]string{"10.0.0.5"}, true},
		"of another node":                 {[]string{"10.0.0.6"}, false},
		"of an earlier node of that name": {[]string{"10.0.0.7"}, false},
		"of no node":                      {[]string{"10.0.0.9"}, false},
		"of another node, and this one":   {[]string{"10.0.0.6", "10.0.0.2"}, true},
	} {
		b := NewBook("here", func() {})
		b.SetNode("now")
		b.SetPools([]View{{Pool: Pool{Network: "m"}}, {Pool: Pool{Network: "n", Blocks: blocks, Wanted: runAddrs(tc.wanted...)}}})
		if got := b.WantsAny(); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

func TestTakeBack(t *testing.T) {
	blocks := func() []Block {
		return []Block{
			{Run: run("10.0.0.2-10.0.0.5"), Node: "a", UID: "a", Grant: "1"}, {Run: run("10.0.0.6-10.0.0.7"), Node: "a", UID: "a"},
			{Run: run("10.0.0.8"), Node: "a", UID: "a", Claim: "1"}, {Run: run("10.0.0.9"), Node: "b", UID: "b", Grant: "1"},
			{Run: run("10.0.0.10"), Node: "a", UID: "earlier", Grant: "1"},
		}
	}
	for _, tc := range []struct {
		released Released
		want     string
	}{
		{Released{"1", run("10.0.0.3")}, "a 10.0.0.2 a 10.0.0.4-10.0.0.5 a 10.0.0.6-10.0.0.7 a 10.0.0.8 claim 1 b 10.0.0.9 a 10.0.0.10"},
		{Released{"1", run("10.0.0.0-10.0.0.14")}, "a 10.0.0.6-10.0.0.7 a 10.0.0.8 claim 1 b 10.0.0.9 a 10.0.0.10"},
		{Released{"", run("10.0.0.0-10.0.0.14")}, strings.Join(show(Pool{Blocks: blocks()}), " ")},
		{Released{"2", run("10.0.0.0-10.0.0.14")}, strings.Join(show(Pool{Blocks: blocks()}), " ")},
	} {
		got, _ := Grant(Pool{Blocks: blocks()}, []Demand{{"a", "a", Request{Network: "n", Released: []Released{tc.released}}}}, 2)
		if s := strings.Join(show(got), " "); s != tc.want {
			t.Errorf("released %v: %s\nwant %s", tc.released, s, tc.want)
		}
	}
}

// An address in a node's block that another node claims is wanted, unless the block is of an
// earlier version or of a claim.
func TestGrantWants(t *testing.T) {
	p := Pool{Blocks: []Block{
		{Run: run("10.0.0.2-10.0.0.5"), Node: "b", UID: "b", Grant: "1"}, {Run: run("10.0.0.6"), Node: "b", UID: "b"}, {Run: run("10.0.0.7"), Node: "b", UID: "b", Claim: "c"},
	}}
	claims := func(all ...string) (out []Claim) {
		for i, a := range all {
			out = append(out, Claim{addr(a), fmt.Sprint(i), false})
		}
		return out
	}
	got, out := Grant(p, []Demand{
		{"a", "a", Request{Network: "n", Claims: claims("10.0.0.7", "10.0.0.4", "10.0.0.6", "10.0.0.3")}},
		{"c", "c", Request{Network: "n", Claims: claims("10.0.0.4")}},
	}, 3)
	if s := fmt.Sprint(got.WantedAddresses()); s != "[10.0.0.3 10.0.0.4]" || len(out.Disputed) != 2 {
		t.Errorf("wanted %s, disputed %q", s, out.Disputed)
	}
	if got, _ = Grant(got, nil, 3); len(got.Wanted) != 0 {
		t.Errorf("wanted %v, and nothing claims it any more", got.Wanted)
	}
}
