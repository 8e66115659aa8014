package filter

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// view has one Frontend of each protocol and family with a backend, and one without.
func view(affinity time.Duration) balance.View {
	v := balance.View{}
	for i, p := range []balance.Protocol{balance.TCP, balance.UDP, balance.SCTP} {
		for service, backend := range map[string]string{"10.96.0.1": "172.16.91.1:80", "fd96::1": "[fd00::1]:80"} {
			at := netip.MustParseAddr(service)
			v[balance.Frontend{Addr: at, Port: 80, Protocol: p}] = &balance.Rule{Backends: []netip.AddrPort{netip.MustParseAddrPort(backend)}, Affinity: affinity}
			v[balance.Frontend{Addr: at, Port: uint16(90 + i), Protocol: p}] = &balance.Rule{}
		}
	}
	return v
}

// chains returns the names of the chains of Culvert's tables. Afterwards it adds a chain named
// marker to each table, which shows whether Culvert replaces the table later.
func chains(t *testing.T, path string) (out []string) {
	t.Helper()
	err := netns.Run(path, func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		tables, err := c.ListTables()
		if err != nil {
			return err
		}
		all, err := c.ListChains()
		if err != nil {
			return err
		}
		for _, chain := range all {
			out = append(out, chain.Name)
		}
		for _, table := range tables {
			c.AddChain(&nftables.Chain{Name: "marker", Table: table})
		}
		return c.Flush()
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// skipOutsideLab skips a test where the kernel lacks something. In a fast node of the lab, whose
// kernel has everything, the test fails instead.
func skipOutsideLab(t *testing.T, lacks error) {
	t.Helper()
	if os.Getenv("CULVERT_LAB_NODE") != "" {
		t.Fatal(lacks)
	}
	t.Skip(lacks)
}

// newPod makes a network namespace for a pod, and removes it after the test.
func newPod(t *testing.T) balance.Pod {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	pod := balance.Pod{ID: "a", Netns: filepath.Join(t.TempDir(), "a"), View: 1}
	if err := netns.New(pod.Netns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Delete(pod.Netns); err != nil {
			t.Error(err)
		}
	})
	return pod
}

// TestApply: the kernel takes the rules of all protocols and both families; a second Balancer, as
// after a restart, replaces none of them until the table changes. A pod that is no longer in the
// table, or that sees no Frontends, has no rules left.
func TestApply(t *testing.T) {
	pod := newPod(t)
	apply := func(b *Balancer, pods []balance.Pod, v balance.View) []string {
		t.Helper()
		err := b.Apply(balance.Table{Pods: pods, Views: map[balance.ViewID]balance.View{1: v}})
		if errors.Is(err, unix.ENOENT) {
			skipOutsideLab(t, err) // a module is missing
		}
		if err != nil {
			t.Fatal(err)
		}
		return chains(t, pod.Netns)
	}
	open := func() *Balancer {
		b, err := Open()
		if err != nil {
			skipOutsideLab(t, err)
		}
		return b
	}
	gone := balance.Pod{ID: "gone", Netns: "/run/netns/gone", View: 1}
	isMarked := func(chains []string) bool { return slices.Contains(chains, "marker") }
	if first := apply(open(), []balance.Pod{gone, pod}, view(0)); len(first) != 14 {
		t.Fatalf("chains are %q, want 7 for each family", first)
	}
	second := open()
	if !isMarked(apply(second, []balance.Pod{pod}, view(0))) {
		t.Error("the tables were replaced after a restart")
	}
	if isMarked(apply(second, []balance.Pod{pod}, view(time.Minute))) {
		t.Error("the tables were not replaced after a change")
	}
	if left := apply(second, nil, nil); len(left) != 0 {
		t.Errorf("left of a pod that is gone from the table are %q", left)
	}
	apply(second, []balance.Pod{pod}, view(0))
	if left := apply(open(), []balance.Pod{pod}, nil); len(left) != 0 {
		t.Errorf("left without Frontends are %q", left)
	}
}
