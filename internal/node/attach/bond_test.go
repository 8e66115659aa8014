package attach_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	holdpkg "github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// fullBond is a request for a bond that needs every kind of step.
func fullBond(t *testing.T) attach.Request {
	req := everything(t)
	req.Spec.Guard = vf.GuardIP
	req.Bond = &vf.Bond{Links: 2, Mode: vf.BondActiveBackup, AntiAffinity: vf.ApartPF, Primary: "enp2s0"}
	return req
}

// plainBond is a request for a bond without settings.
func plainBond(t *testing.T) attach.Request {
	req := fullBond(t)
	req.Bond.Primary, req.Spec = "", vf.Spec{Interface: "net1"}
	return req
}

func bonded(t *testing.T, n *node.Node, req attach.Request) attach.Bonded {
	t.Helper()
	got, err := n.Engine.AttachBond(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Members) != req.Bond.Links {
		t.Fatalf("%d members: %+v", len(got.Members), got)
	}
	return got
}

// memberState returns the state of a member in the pod.
func memberState(t *testing.T, k machine, rec journal.Record) vf.State {
	t.Helper()
	st, err := k.VF(t.Context(), rec.PCI, rec.Lease.Netns)
	if err != nil || st.Link == nil || st.Link.Bond == nil {
		t.Fatalf("VF %s is in no bond: %+v, %v", rec.PCI, st.Link, err)
	}
	return st
}

func TestBondGivesWhatWasAskedFor(t *testing.T) {
	k, n := newNode(t)
	req := fullBond(t)
	got := bonded(t, n, req)
	for i, rec := range got.Members {
		st := memberState(t, k, rec)
		if d := lease.Diff(rec, st); len(d) > 0 {
			t.Errorf("VF %s: %s", rec.PCI, vf.Differences(d))
		}
		if st.Link.Name != vf.MemberName("net1", i) || st.Link.MTU != 1400 || st.Admin.VLAN.ID != 100 || st.Link.Bond.Link.MTU != 1400 || len(st.Link.Addrs) != 0 {
			t.Errorf("VF %s: %+v in %+v", rec.PCI, *st.Link, *st.Link.Bond)
		}
	}
	first := memberState(t, k, got.Members[0])
	want := []netip.Prefix{netip.MustParsePrefix("10.1.0.2/24"), netip.MustParsePrefix("fd00::2/64")}
	if diff := cmp.Diff(want, first.Link.Bond.Link.Addrs, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if !first.Link.Bond.Primary || !first.Link.Bond.Active || got.MAC != *req.Spec.MAC || got.MTU != 1400 {
		t.Errorf("the first member, of the primary PF: %+v; MAC address %s, MTU %d", *first.Link.Bond, got.MAC, got.MTU)
	}
	if err := n.Engine.Check(t.Context(), req.Owner, attach.Request{}); err != nil {
		t.Error("check right after attach:", err)
	}
}

// I2, I3, I8: after the detach of a bond the machine is as it was before, with the netns alive and
// with it gone.
func TestI2DetachOfABondRestoresTheBaseline(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("netns gone %t", gone), func(t *testing.T) {
			k, n := newNode(t)
			before := k.String()
			req := fullBond(t)
			bonded(t, n, req)
			if gone {
				k.DelNetns(podNetns)
			}
			for range 2 { // I8: idempotent
				if err := n.Resets.Detach(t.Context(), req.Owner); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(before, k.String()); diff != "" {
				t.Error(diff)
			}
			clean(t, n, 14)
		})
	}
}

// I2: a bond that fails at step k, before or after its effect, leaves the machine as it was.
func TestI2BondFailingAtAnyStepRestoresTheStart(t *testing.T) {
	for _, moment := range []faulty.Moment{faulty.Before, faulty.After} {
		for failAt := 0; ; failAt++ {
			m, n := newNode(t)
			before := m.String()
			seen, hit := 0, step.Step(nil)
			m.faults.Fail(func(at faulty.Moment, s step.Step) error {
				if at != moment || hit != nil {
					return nil
				}
				if seen++; seen <= failAt {
					return nil
				}
				hit = s
				return errInjected
			})
			_, err := n.Engine.AttachBond(t.Context(), fullBond(t))
			n.VFs.Wait()
			if hit == nil || strings.HasPrefix(fmt.Sprint(hit), "announce") {
				break // the attach is over
			}
			if !errors.Is(err, errInjected) {
				t.Errorf("%s %s: %v", moment, hit, err)
			}
			if diff := cmp.Diff(before, m.String()); diff != "" {
				t.Errorf("%s %s:\n%s", moment, hit, diff)
			}
			clean(t, n, 14)
		}
	}
}

// CHECK accepts that another member sends. The bond then has the MAC address of that member.
func TestCheckOfABond(t *testing.T) {
	k, n := newNode(t)
	req := plainBond(t)
	got := bonded(t, n, req)
	check := req
	check.LinkMAC = &got.MAC
	if err := n.Engine.Check(t.Context(), req.Owner, check); err != nil {
		t.Fatal(err)
	}
	if err := k.Activate(got.Members[1].PCI); err != nil {
		t.Fatal(err)
	}
	if mac := memberState(t, k, got.Members[0]).Link.Bond.Link.MAC; mac == got.MAC {
		t.Fatalf("the MAC address is still %s", mac)
	}
	if err := n.Engine.Check(t.Context(), req.Owner, check); err != nil {
		t.Errorf("another member sends: %v", err)
	}
	must := func(s step.Step) {
		t.Helper()
		if err := k.Do(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	must(step.SetUp{VF: got.Members[1].PCI, Netns: podNetns, Bond: "net1"})
	if err := n.Engine.Check(t.Context(), req.Owner, check); err == nil || !strings.Contains(err.Error(), "bond net1 of pod default/a: VF 0000:01:10.0: ") || !strings.Contains(err.Error(), "bond up is false, not true") {
		t.Errorf("the bond is down: %v", err)
	}
}

// If the network sets no MTU, the bond has the smallest MTU of its VFs.
func TestBondHasTheSmallestMTU(t *testing.T) {
	k, n := newNode(t)
	err := n.Ledger.Update(func(tx *journal.Tx) error {
		for _, r := range tx.Records() {
			if err := k.Meddle(r.PCI, func(st *vf.State) { st.Link.MTU = 9000 - 1000*int(r.ID.PF.MAC[5]) }); err != nil {
				return err
			}
			r.Baseline.MTU = 9000 - 1000*int(r.ID.PF.MAC[5])
			if err := tx.Put(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	before := k.String()
	got := bonded(t, n, plainBond(t))
	if got.MTU != 7000 {
		t.Errorf("MTU %d of VFs with 8000 and 7000", got.MTU)
	}
	if err := n.Resets.Detach(t.Context(), got.Members[0].Lease.Owner); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, k.String()); diff != "" {
		t.Error(diff)
	}
}

// I4: the first VF of a bond is unplugged. The bond still has the addresses, and its other VF holds
// them. CHECK says that a VF is missing.
func TestI4BondThatLosesAVFKeepsItsAddresses(t *testing.T) {
	k, n := newNode(t)
	req := plainBond(t)
	got := bonded(t, n, req)
	if err := k.RemoveVF(got.Members[0].PCI); err != nil {
		t.Fatal(err)
	}
	pfs, err := n.Inventory.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Upkeep.Tend(t.Context(), pfs); err != nil {
		t.Fatal(err)
	}
	_ = n.Ledger.View(func(tx *journal.Tx) error {
		held := tx.AddressesOf("blue")
		if len(held) != 2 || held[0].VF != got.Members[1].ID {
			t.Errorf("I4: the pod has the addresses, and the ledger has %v", held)
		}
		return nil
	})
	if err := n.Engine.Check(t.Context(), req.Owner, attach.Request{}); err == nil || !strings.Contains(err.Error(), "it has 1 of 2 VFs") {
		t.Errorf("CHECK: %v", err)
	}
	if err := n.Resets.Detach(t.Context(), req.Owner); err != nil {
		t.Fatal(err)
	}
	clean(t, n, 13)
}

// I4: a VF of an earlier bond of the same container is in quarantine when the first VF of the later
// bond is unplugged. The other VF of the later bond gets its addresses, and holds them when the
// quarantine ends.
func TestI4AddressesStayWithTheirBond(t *testing.T) {
	k, n := newNode(t)
	clock := time.Now()
	n.VFs.Now = func() time.Time { return clock }
	req := plainBond(t)
	earlier := bonded(t, n, req).Members[0]
	failBondRemoval(k)
	if err := n.Resets.Detach(t.Context(), req.Owner); err != nil {
		t.Fatal(err)
	}
	if rec := record(t, n, earlier.ID); rec.Phase != vf.PhaseQuarantined {
		t.Fatalf("VF %s is %s", rec.PCI, rec.Phase)
	}
	k.faults.Fail(nil)
	if err := k.Do(t.Context(), step.DelBond{Netns: podNetns, Name: "net1", Mark: earlier.Lease.BondMark}); err != nil {
		t.Fatal(err)
	}
	later := bonded(t, n, req)
	if err := k.RemoveVF(later.Members[0].PCI); err != nil {
		t.Fatal(err)
	}
	tend(t, n)
	clock = clock.Add(time.Hour)
	tend(t, n)
	if rec := record(t, n, earlier.ID); rec.Phase != vf.PhaseFree {
		t.Errorf("VF %s is %s: %s", rec.PCI, rec.Phase, rec.Reason)
	}
	_ = n.Ledger.View(func(tx *journal.Tx) error {
		held := tx.AddressesOf("blue")
		if len(held) != 2 || held[0].VF != later.Members[1].ID || held[1].VF != later.Members[1].ID {
			t.Errorf("I4: VF %s is left of the bond, and the ledger has %v", later.Members[1].ID, held)
		}
		return nil
	})
}

// failBondRemoval makes each removal of a bond fail.
func failBondRemoval(k machine) {
	k.faults.Fail(func(at faulty.Moment, s step.Step) error {
		if _, is := s.(step.DelBond); is && at == faulty.Before {
			return errInjected
		}
		return nil
	})
}

// While the bond cannot be removed, no owner gets its VFs or addresses. The retry removes that
// bond, and never a later bond of the same name.
func TestI3BondThatStaysKeepsItsVFs(t *testing.T) {
	k, n := newNode(t)
	req := plainBond(t)
	clock := time.Now()
	n.VFs.Now = func() time.Time { return clock }
	got := bonded(t, n, req)
	failBondRemoval(k)
	if err := n.Resets.Detach(t.Context(), req.Owner); err != nil {
		t.Fatal(err)
	}
	for _, m := range got.Members {
		if rec := record(t, n, m.ID); rec.Phase != vf.PhaseQuarantined || !strings.Contains(rec.Reason, "remove bond net1") {
			t.Errorf("VF %s is %s: %s", m.PCI, rec.Phase, rec.Reason)
		}
	}
	k.faults.Fail(nil)
	if err := k.Do(t.Context(), step.DelBond{Netns: podNetns, Name: "net1", Mark: got.Members[0].Lease.BondMark}); err != nil {
		t.Fatal(err)
	}
	later := bonded(t, n, req) // of the same container, before the retry
	clock = clock.Add(time.Hour)
	if err := n.Upkeep.Tend(t.Context(), n.Inventory.PFs()); err != nil {
		t.Fatal(err)
	}
	for _, m := range got.Members {
		if rec := record(t, n, m.ID); rec.Phase != vf.PhaseFree {
			t.Errorf("VF %s is %s: %s", m.PCI, rec.Phase, rec.Reason)
		}
	}
	if err := n.Engine.Check(t.Context(), later.Members[0].Lease.Owner, attach.Request{}); err != nil {
		t.Errorf("the retry took the later bond: %v", err)
	}
}

func record(t *testing.T, n *node.Node, id vf.ID) (rec journal.Record) {
	t.Helper()
	err := n.Ledger.View(func(tx *journal.Tx) (err error) {
		rec, err = tx.Record(id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// An IPAM plugin of another project gets its call when the bond is there and up.
func TestBondWithLateAddresses(t *testing.T) {
	k, n := newNode(t)
	req := plainBond(t)
	late, err := ipam.Parse([]byte(`{"type":"static","addresses":[{"address":"10.7.0.3/24"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.IPAM, req.Spec.Guard = ipam.Config{}, vf.GuardARP
	req.Late = func(context.Context) (ipam.Config, error) { return late, nil }
	var order []string
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if m == faulty.After {
			order = append(order, faulty.Kind(s))
		}
		return nil
	})
	got := bonded(t, n, req)
	n.VFs.Wait()
	if text := strings.Join(order, " "); !strings.Contains(text, "SetUp SetGuard SetGuard AddAddress") {
		t.Errorf("steps: %s", text)
	}
	for _, m := range got.Members {
		if g := memberGuard(t, k, m); !slices.Contains(g.Addresses, netip.MustParseAddr("10.7.0.3")) {
			t.Errorf("VF %s: guard %s", m.PCI, g)
		}
	}
	if st := memberState(t, k, got.Members[1]); fmt.Sprint(st.Link.Bond.Link.Addrs) != "[10.7.0.3/24]" {
		t.Errorf("addresses %v", st.Link.Bond.Link.Addrs)
	}
}

// If another machine has the IPv6 address of a bond, the attach is undone without a trace, and the
// next try gets another address. The kernel detects duplicates on the bond, since its members have
// no addresses.
func TestDuplicateOfABondIsReplaced(t *testing.T) {
	k, n := newNode(t)
	k.SetElsewhere(netip.MustParseAddr("fd00::2"), true)
	var waits []string
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if s, ok := s.(step.DetectDuplicates); ok && m == faulty.Before {
			waits = append(waits, fmt.Sprintf("%s of %s", s.Addresses, s.Bond))
		}
		return nil
	})
	req, reports := reported(t)
	req.Bond = fullBond(t).Bond
	got := bonded(t, n, req)
	if first := got.Members[0]; !has6(first, "fd00::3") {
		t.Errorf("the bond has %v, want fd00::3 in place of fd00::2", addressesOf(first))
	}
	if diff := cmp.Diff([]string{"[fd00::2/64] of net1", "[fd00::3/64] of net1"}, waits); diff != "" {
		t.Error(diff)
	}
	if len(*reports) != 1 || !strings.Contains((*reports)[0], "fd00::2") || len(duplicateEvents(t, n)) != 1 {
		t.Errorf("reports %q, events %q", *reports, duplicateEvents(t, n))
	}
	if err := n.Engine.Check(t.Context(), req.Owner, attach.Request{}); err != nil {
		t.Error(err)
	}
	if err := n.Resets.Detach(t.Context(), req.Owner); err != nil {
		t.Fatal(err)
	}
	clean(t, n, 14)
}

// The attach finds a duplicate on a bond as it reads the VFs back, even if the kernel finds it only
// after the wait. Without carrier, duplicate detection has no result: the attach succeeds, and
// CHECK reports the duplicate later.
func TestDuplicateOfABondIsFoundLater(t *testing.T) {
	k, n := newNode(t)
	k.SetElsewhere(netip.MustParseAddr("fd00::2"), true)
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if _, ok := s.(step.DetectDuplicates); ok && m == faulty.Before {
			_ = k.Do(t.Context(), s)
			return faulty.ErrIgnored
		}
		return nil
	})
	req := fullBond(t)
	if got := bonded(t, n, req); !has6(got.Members[0], "fd00::3") {
		t.Errorf("the bond has %v", addressesOf(got.Members[0]))
	}
	if err := n.Resets.Detach(t.Context(), req.Owner); err != nil {
		t.Fatal(err)
	}
	k.SetElsewhere(netip.MustParseAddr("fd00::2"), false)
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if _, ok := s.(step.DetectDuplicates); ok && m == faulty.Before {
			return vf.ErrTimeout // as without carrier
		}
		return nil
	})
	got := bonded(t, n, req)
	n.VFs.Wait()
	first := got.Members[0]
	address := first.Lease.Wanted.Addresses[len(first.Lease.Wanted.Addresses)-1].Prefix
	if st := memberState(t, k, first); !slices.Contains(st.Link.Bond.Link.Tentative, address) {
		t.Fatalf("%s is not tentative: %+v", address, st.Link.Bond.Link)
	}
	if err := n.Engine.Check(t.Context(), req.Owner, attach.Request{}); err != nil {
		t.Error("CHECK before detection has a result:", err)
	}
	k.faults.Fail(nil)
	k.SetElsewhere(address.Addr(), true)
	s := step.DetectDuplicates{VF: first.PCI, Netns: first.Lease.Netns, Bond: "net1", Addresses: []netip.Prefix{address}}
	if err := k.Do(t.Context(), s); !errors.Is(err, vf.ErrDuplicate) {
		t.Fatal(err)
	}
	if err := n.Engine.Check(t.Context(), req.Owner, attach.Request{}); err == nil || !strings.Contains(err.Error(), "a duplicate, which another machine on the segment has") {
		t.Errorf("CHECK: %v", err)
	}
}

// The VFs of all PFs of a bond are made anew by force: the bond does not stay in the pod without members.
// If only the VFs of one PF are made anew, the bond goes on with its other members.
func TestBondWhoseVFsAreTaken(t *testing.T) {
	k, n := newNode(t)
	got := bonded(t, n, fullBond(t))
	for i, rec := range got.Members {
		take := func() error {
			return n.Ledger.Update(func(tx *journal.Tx) error { return tx.Forget(rec.ID, "it is made anew") })
		}
		if err := n.Resets.TakeVFs(t.Context(), rec.ID.PF, take); err != nil {
			t.Fatal(err)
		}
		if has, last := strings.Contains(k.String(), "bond "), i == len(got.Members)-1; has == last {
			t.Errorf("after PF %d the bond is there: %t", i, has)
		}
	}
}

// A pod renames its bond, and may remove its mark. At the detach the VFs are reset and free, and not in
// quarantine.
func TestBondThatThePodRenames(t *testing.T) {
	for _, strip := range []bool{false, true} {
		k, n := newNode(t)
		before := k.String()
		got := bonded(t, n, fullBond(t))
		if err := k.RenameBond(got.Members[0].PCI, "mine", strip); err != nil {
			t.Fatal(err)
		}
		if err := n.Resets.Detach(t.Context(), got.Members[0].Lease.Owner); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, k.String()); diff != "" {
			t.Errorf("strip %t: %s", strip, diff)
		}
		clean(t, n, 14)
	}
}

// The VF that holds the addresses of a bond vanishes while another member is being released. The
// member that is released keeps all that it takes over meanwhile: culvertd still owes the DEL to
// the IPAM plugin, even if the member goes into quarantine.
func TestBondThatHandsOverDuringARelease(t *testing.T) {
	for name, fails := range map[string]error{"free": nil, "in quarantine": errInjected} {
		t.Run(name, func(t *testing.T) {
			k, n := newNode(t)
			req := plainBond(t)
			req.Delegation = &journal.Delegation{Plugin: "whereabouts", ContainerID: "c1", Interface: "net1"}
			got := bonded(t, n, req)
			n.VFs.Wait() // for the announcement
			first, second := got.Members[0], got.Members[1]
			vanished := false
			k.faults.Fail(func(_ faulty.Moment, s step.Step) error {
				if move, is := s.(step.Move); is && move.VF == second.PCI && !vanished {
					vanished = true
					if err := n.Ledger.Update(func(tx *journal.Tx) error { return tx.Forget(first.ID, "it vanished") }); err != nil {
						t.Error(err)
					}
				}
				if vanished {
					return fails
				}
				return nil
			})
			if err := n.Resets.End(t.Context(), second); err != nil || !vanished {
				t.Fatalf("%v; vanished %t", err, vanished)
			}
			_, owed, err := n.VFs.Delegations()
			if err != nil || len(owed) != 1 {
				t.Errorf("owed: %+v, %v", owed, err)
			}
		})
	}
}

// The same before the release writes anything: it was begun with a record that lacks what the member
// has taken over since.
func TestBondThatHandsOverBeforeARelease(t *testing.T) {
	_, n := newNode(t)
	req := plainBond(t)
	req.Raw = []byte(`{"type":"sriov"}`)
	req.Delegation = &journal.Delegation{Plugin: "whereabouts", ContainerID: "c1", Interface: "net1"}
	got := bonded(t, n, req)
	n.VFs.Wait() // for the announcement
	stale := recordOf(t, n, got.Members[1])
	if err := n.Ledger.Update(func(tx *journal.Tx) error { return tx.Forget(got.Members[0].ID, "it vanished") }); err != nil {
		t.Fatal(err)
	}
	at, err := n.VFs.FindSite(stale)
	if err := errors.Join(err, n.Resets.ReleaseVF(t.Context(), at, stale, "Detached", nil)); err != nil {
		t.Fatal(err)
	}
	_, owed, err := n.VFs.Delegations()
	if err != nil || len(owed) != 1 || string(owed[0].Config) != string(req.Raw) {
		t.Errorf("owed: %+v, %v", owed, err)
	}
}

// afterGuard calls a function after each reading of a guard.
type afterGuard struct {
	holdpkg.Kernel
	call func()
}

func (k afterGuard) Guard(ctx context.Context, pci vf.PCIAddr, netns string) (vf.Guard, error) {
	defer k.call()
	return k.Kernel.Guard(ctx, pci, netns)
}

// A caller that is gone when its bond is configured gets no bond: its DEL may have come and gone.
func TestBondOfACallerThatIsGone(t *testing.T) {
	k, n := newNode(t)
	before := k.String()
	ctx, cancel := context.WithCancel(t.Context())
	guards := 0
	n.VFs.Kernel = afterGuard{n.VFs.Kernel, func() {
		if guards++; guards == 2 { // the last of all readings
			cancel()
		}
	}}
	if _, err := n.Engine.AttachBond(ctx, fullBond(t)); err == nil || !strings.Contains(err.Error(), "the caller disconnected") {
		t.Errorf("%v", err)
	}
	n.VFs.Wait()
	records, err := journal.ReadRecords(n.Ledger)
	for _, r := range records {
		if r.Phase != vf.PhaseFree {
			t.Errorf("VF %s is %s", r.PCI, r.Phase)
		}
	}
	if err != nil || k.String() != before {
		t.Errorf("%v\n%s", err, k)
	}
}

// A bond whose last VF was unplugged is removed from its pod, which would else keep an interface with
// addresses that no lease holds.
func TestI4BondWhoseLastVFIsUnpluggedIsRemoved(t *testing.T) {
	k, n := newNode(t)
	got := bonded(t, n, plainBond(t))
	n.VFs.Wait() // for the announcement
	var removed []string
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if del, is := s.(step.DelBond); is && m == faulty.Before {
			removed = append(removed, del.Name)
		}
		return nil
	})
	for i, rec := range got.Members {
		if err := k.RemoveVF(rec.PCI); err != nil {
			t.Fatal(err)
		}
		pfs, err := n.Inventory.Refresh(t.Context())
		if err := errors.Join(err, n.Upkeep.Tend(t.Context(), pfs)); err != nil {
			t.Fatal(err)
		}
		if want := i; len(removed) != want {
			t.Errorf("%d of 2 VFs are unplugged: removed %v", i+1, removed)
		}
	}
	if left := heldAddresses(t, n); len(left) > 0 {
		t.Errorf("addresses are held: %v", left)
	}
}

// A member whose loan ends keeps what another member hands over meanwhile.
func TestBondThatHandsOverDuringALoan(t *testing.T) {
	k, n := newNode(t)
	req := plainBond(t)
	req.Delegation = &journal.Delegation{Plugin: "whereabouts", ContainerID: "c1", Interface: "net1"}
	got := bonded(t, n, req)
	n.VFs.Wait() // for the announcement
	first, second := got.Members[0], got.Members[1]
	lent, err := n.Loans.Lend(t.Context(), second.PCI, 170, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	vanished := false
	k.faults.Fail(func(_ faulty.Moment, s step.Step) error {
		if _, is := s.(step.SetVFRate); is && !vanished {
			vanished = true
			if err := n.Ledger.Update(func(tx *journal.Tx) error { return tx.Forget(first.ID, "it vanished") }); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	if err := n.Loans.GiveBack(t.Context(), lent); err != nil || !vanished {
		t.Fatalf("%v; vanished %t", err, vanished)
	}
	now := recordOf(t, n, second)
	if now.Lease.Lent != nil || now.Lease.Delegation == nil {
		t.Errorf("loan %v, delegation %v", now.Lease.Lent, now.Lease.Delegation)
	}
}

// I4: while the bond of a quarantined VF cannot be removed, a new baseline does not free the VF. The
// pod still answers for the bond's addresses.
func TestI4RebaseKeepsTheAddressesOfABond(t *testing.T) {
	k, n := newNode(t)
	req := plainBond(t)
	got := bonded(t, n, req)
	failBondRemoval(k)
	if err := n.Resets.Detach(t.Context(), req.Owner); err != nil {
		t.Fatal(err)
	}
	held := heldAddresses(t, n)
	if len(held) == 0 {
		t.Fatal("the bond holds no address")
	}
	for _, m := range got.Members {
		if _, err := n.Upkeep.Rebase(t.Context(), m.PCI, nil); err == nil || !strings.Contains(err.Error(), "remove bond net1") {
			t.Errorf("VF %s: %v", m.PCI, err)
		}
		if rec := record(t, n, m.ID); rec.Phase != vf.PhaseQuarantined {
			t.Errorf("VF %s is %s", m.PCI, rec.Phase)
		}
	}
	if now := heldAddresses(t, n); len(now) != len(held) {
		t.Errorf("the ledger holds %v, and %v before", now, held)
	}
	k.faults.Fail(nil)
	for _, m := range got.Members {
		if _, err := n.Upkeep.Rebase(t.Context(), m.PCI, nil); err != nil {
			t.Errorf("VF %s: %v", m.PCI, err)
		}
	}
	if now := heldAddresses(t, n); len(now) > 0 {
		t.Errorf("the ledger still holds %v", now)
	}
}

func heldAddresses(t *testing.T, n *node.Node) (all []journal.Address) {
	t.Helper()
	err := n.Ledger.View(func(tx *journal.Tx) error {
		all = tx.AddressesOf("")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
