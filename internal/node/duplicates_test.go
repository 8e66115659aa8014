package node_test

import (
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// sharedRequest requests a VF with an address of the range fd00::/64, or with a named address of
// it.
func sharedRequest(t *testing.T, pod, network, named string) attach.Request {
	t.Helper()
	config, err := ipam.Parse([]byte(`{"type":"host-local","ranges":[[{"subnet":"fd00::/64"}]]}`))
	if err != nil {
		t.Fatal(err)
	}
	req := attach.Request{
		Owner:   vf.Owner{Kind: vf.OwnerPod, UID: pod, Name: "default/" + pod, Interface: "net1"},
		Network: network, Netns: "/run/netns/" + pod, IPAM: config, Spec: vf.Spec{Interface: "net1"},
	}
	if named != "" {
		req.Addresses = []netip.Prefix{netip.MustParsePrefix(named + "/128")}
	}
	return req
}

// The status has one problem for each network with duplicates. It names the addresses, their owner
// and the time until which culvertd does not choose them. The addresses that a pod named itself are
// problems too, but the node does not set them aside.
func TestDuplicatesAreProblemsOfTheirNetworks(t *testing.T) {
	m := &machine{Kernel: fake.New(fake.IGB, 1), path: filepath.Join(t.TempDir(), "ledger.db")}
	m.start(t, 7)
	t.Cleanup(func() { m.stop(t) })
	start := time.Date(2026, 11, 26, 18, 0, 0, 0, time.UTC)
	now := start
	m.node.VFs.Now = func() time.Time { return now }
	for _, tt := range []struct {
		name      string
		after     time.Duration
		pod       string // the pod that attaches at that time; empty: no pod attaches
		network   string
		named     string
		isRefused bool
		duplicate string // the address that another machine has
		problems  []string
		since     time.Duration // of the first problem
		aside     []string
	}{
		{name: "no duplicates"},
		{
			name: "an address that culvertd chose", pod: "a", network: "blue", duplicate: "fd00::2",
			problems: []string{"network blue: [fd00::2] when pod default/a, before 2026-11-26 18:10:00 UTC"},
			aside:    []string{"blue fd00::2 pod default/a"},
		},
		{
			name: "another one later", after: 4 * time.Minute, pod: "b", network: "blue", duplicate: "fd00::4",
			problems: []string{"network blue: [fd00::2 fd00::4] when pod default/b, before 2026-11-26 18:14:00 UTC"},
			aside:    []string{"blue fd00::2 pod default/a", "blue fd00::4 pod default/b"},
		},
		{
			name: "an address that the pod named", after: 5 * time.Minute, pod: "c", network: "green", named: "fd00::9", isRefused: true, duplicate: "fd00::9",
			problems: []string{
				"network blue: [fd00::2 fd00::4] when pod default/b, before 2026-11-26 18:14:00 UTC",
				"network green: [fd00::9] when pod default/c, before 2026-11-26 18:15:00 UTC",
			},
			aside: []string{"blue fd00::2 pod default/a", "blue fd00::4 pod default/b"},
		},
		{
			name: "the time of the first is over", after: 10 * time.Minute, since: 4 * time.Minute,
			problems: []string{
				"network blue: [fd00::4] when pod default/b, before 2026-11-26 18:14:00 UTC",
				"network green: [fd00::9] when pod default/c, before 2026-11-26 18:15:00 UTC",
			},
			aside: []string{"blue fd00::4 pod default/b"},
		},
		{name: "the time of all is over", after: 15 * time.Minute},
	} {
		now = start.Add(tt.after)
		if tt.pod != "" {
			m.SetElsewhere(netip.MustParseAddr(tt.duplicate), true)
			m.AddNetns("/run/netns/" + tt.pod)
			if _, err := m.node.Engine.Attach(t.Context(), sharedRequest(t, tt.pod, tt.network, tt.named)); (err != nil) != tt.isRefused {
				t.Fatalf("%s: %v", tt.name, err)
			}
		}
		if diff := cmp.Diff(tt.problems, describeProblems(m)); diff != "" {
			t.Errorf("%s: problems (-want +got):\n%s", tt.name, diff)
		}
		if p := m.node.AddressProblems(); len(p) > 0 && !p[0].Since.Equal(start.Add(tt.since)) {
			t.Errorf("%s: since %s, want %s", tt.name, p[0].Since, start.Add(tt.since))
		}
		var aside []string
		for _, h := range m.node.AddressesAside() {
			aside = append(aside, h.Network+" "+h.Addr.String()+" "+h.Owner.String())
		}
		if diff := cmp.Diff(tt.aside, aside); diff != "" {
			t.Errorf("%s: addresses aside (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A node that shares its networks with a cluster does not give out an address in the block of
// another node. A node outside a cluster gives such an address out.
func TestBlocksOfOtherNodesAreNotGivenOut(t *testing.T) {
	book := blocks.NewBook("worker01", func() {})
	first := netip.MustParseAddr("fd00::8")
	book.SetPools([]blocks.View{{Pool: blocks.Pool{Network: "blue", Blocks: []blocks.Block{
		{Run: ipam.Run{First: first, Last: first.Next()}, Node: "worker02", UID: "2"},
	}}}})
	for _, tt := range []struct {
		name string
		book *blocks.NodeBlocks
		want error
	}{{"alone", nil, nil}, {"in a cluster", book, vf.ErrHeld}} {
		k := fake.New(fake.IGB, 1)
		k.AddNetns("/run/netns/a")
		n := node.New(node.Config{Kernel: k, Ledger: openLedger(t), BootID: "boot 1", Blocks: tt.book})
		n.SetSpec(desired.Spec{
			PFs:   []desired.PFRule{{Name: "enp*", Want: desired.PFSpec{VFs: 1, Autoprobe: true}}},
			Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice}},
		})
		if err := errors.Join(n.Start(t.Context()), n.Reconciler.Pass(t.Context())); err != nil {
			t.Fatal(err)
		}
		_, err := n.Engine.Attach(t.Context(), sharedRequest(t, "a", "blue", "fd00::9"))
		if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), "node worker02") {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
		n.VFs.Wait()
	}
}

// describeProblems returns the object of each address problem, its addresses, their last owner and
// the time of the next step.
func describeProblems(m *machine) (out []string) {
	for _, p := range m.node.AddressProblems() {
		_, rest, _ := strings.Cut(p.Reason, "on the segment had ")
		what, _, _ := strings.Cut(rest, " was to get it")
		_, until, _ := strings.Cut(p.Next, "chooses them no more before ")
		out = append(out, p.Object+": "+what+", before "+until)
	}
	return out
}
