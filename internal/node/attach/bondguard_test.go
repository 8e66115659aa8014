package attach_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// guardedBond requests a bond with a guard, whose members have MAC addresses of their own.
func guardedBond(t *testing.T) attach.Request {
	req := plainBond(t)
	req.Spec.Guard = vf.GuardIP
	return req
}

func memberGuard(t *testing.T, k machine, rec journal.Record) vf.Guard {
	t.Helper()
	g, err := k.Guard(t.Context(), rec.PCI, rec.Lease.Netns)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// memberGuards returns the guards that the members of a bond must have. The bond keeps the link-local
// address that it made of one member's MAC address when another member sends.
func memberGuards(got attach.Bonded) (out []vf.Guard) {
	for _, m := range got.Members {
		g := vf.Guard{Mode: vf.GuardIP, MAC: m.Lease.LinkMAC, Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("fd00::2")}}
		for _, other := range got.Members {
			if other.ID != m.ID {
				g.Addresses = append(g.Addresses, other.Lease.LinkMAC.LinkLocal())
			}
		}
		slices.SortFunc(g.Addresses, netip.Addr.Compare)
		out = append(out, g)
	}
	return out
}

func expectGuards(t *testing.T, k machine, got attach.Bonded) {
	t.Helper()
	for i, want := range memberGuards(got) {
		if g := memberGuard(t, k, got.Members[i]); g.String() != want.String() {
			t.Errorf("VF %s: guard %s, want %s", got.Members[i].PCI, g, want)
		}
	}
}

// P12: each member of a bond has the guard before the bond brings it up, with its own MAC address and the
// addresses of the bond. The guards go with the bond.
func TestGuardIsAtEachMember(t *testing.T) {
	k, n := newNode(t)
	before := k.String()
	var order []string
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if kind := faulty.Kind(s); m == faulty.After {
			order = append(order, kind)
		}
		return nil
	})
	req := guardedBond(t)
	got := bonded(t, n, req)
	n.VFs.Wait()
	if text := strings.Join(order, " "); strings.Count(text, "Move SetGuard Enslave") != 2 {
		t.Errorf("steps: %s", text)
	}
	expectGuards(t, k, got)
	if err := k.Activate(got.Members[1].PCI); err != nil {
		t.Fatal(err)
	}
	check := req
	check.LinkMAC = &got.MAC
	if err := n.Engine.Check(t.Context(), req.Owner, check); err != nil {
		t.Errorf("another member sends: %v", err)
	}
	if err := n.Resets.Detach(t.Context(), req.Owner); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, k.String()); diff != "" {
		t.Error(diff)
	}
}

func tend(t *testing.T, n *node.Node) {
	t.Helper()
	pfs, err := n.Inventory.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Upkeep.Tend(t.Context(), pfs); err != nil {
		t.Fatal(err)
	}
}

// P12: CHECK reports a guard that is missing at any member, and the next look at drift sets it again.
func TestMissingGuardOfAMember(t *testing.T) {
	for i := range 2 {
		k, n := newNode(t)
		req := guardedBond(t)
		got := bonded(t, n, req)
		k.MeddleGuard(got.Members[i].PCI, podNetns, nil)
		want := fmt.Sprintf("VF %s: guard is none, not ip of", got.Members[i].PCI)
		if err := n.Engine.Check(t.Context(), req.Owner, req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		tend(t, n)
		expectGuards(t, k, got)
		if err := n.Engine.Check(t.Context(), req.Owner, req); err != nil {
			t.Error(err)
		}
	}
}

// P12 I4: a bond that has lost its first VF sends by the other one from the same addresses. The
// guard of the remaining VF stays as it is, even when that VF's lease now holds the addresses.
func TestGuardOfABondThatLosesAVF(t *testing.T) {
	k, n := newNode(t)
	req := guardedBond(t)
	got := bonded(t, n, req)
	want := memberGuard(t, k, got.Members[1]).String()
	if err := k.RemoveVF(got.Members[0].PCI); err != nil {
		t.Fatal(err)
	}
	tend(t, n)
	tend(t, n)
	if g := memberGuard(t, k, got.Members[1]); g.String() != want {
		t.Errorf("guard %s, want %s", g, want)
	}
	if g := memberGuard(t, k, got.Members[0]); g.String() != (vf.Guard{}).String() {
		t.Errorf("the VF is gone, and its guard is %s", g)
	}
	if rec := record(t, n, got.Members[1].ID); len(rec.Lease.Wanted.Addresses) != 2 || len(lease.Diff(rec, memberState(t, k, rec))) > 0 {
		t.Errorf("lease %+v", rec.Lease)
	}
	events := n.Ledger.View(func(tx *journal.Tx) error {
		for _, e := range tx.Events(0) {
			if strings.HasPrefix(e.Reason, "Drift") {
				t.Errorf("%s: %s", e.Reason, e.Text)
			}
		}
		return nil
	})
	if events != nil {
		t.Fatal(events)
	}
}
