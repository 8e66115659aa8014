package attach_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// guardedRequest requests a VF with a guard and one address.
func guardedRequest(t *testing.T) attach.Request {
	t.Helper()
	req := limited(vf.Spec{Guard: vf.GuardIP})
	config, err := ipam.Parse([]byte(`{"type":"host-local","scope":"node","ranges":[[{"subnet":"10.1.0.0/24"}]]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Network, req.IPAM = "blue", config
	return req
}

// P12: the guard pins the VF's MAC address and the addresses from IPAM before the pod can send. It
// is gone when the VF is back.
func TestGuardIsSetBeforeThePodSends(t *testing.T) {
	k, n := nodeOf(t, fake.IGB)
	var order []string
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if kind := faulty.Kind(s); m == faulty.After {
			order = append(order, kind)
		}
		return nil
	})
	before := k.String()
	rec, err := n.Engine.Attach(t.Context(), guardedRequest(t))
	if err != nil {
		t.Fatal(err)
	}
	n.VFs.Wait() // for the announcement, which is a step as well
	if got := strings.Join(order, " "); !strings.Contains(got, "Move SetGuard SetUp AddAddress") {
		t.Errorf("steps: %s", got)
	}
	want := vf.Guard{Mode: vf.GuardIP, MAC: rec.Lease.LinkMAC, Addresses: []netip.Addr{rec.Lease.Wanted.Addresses[0].Prefix.Addr()}}
	if got, err := k.Guard(t.Context(), rec.PCI, podNetns); err != nil || got.String() != want.String() {
		t.Errorf("guard is %s, not %s (%v)", got, want, err)
	}
	order = nil
	if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, " "); !strings.Contains(got, "Move") || !strings.HasSuffix(got, "DelGuard") {
		t.Errorf("the guard goes while the pod has the VF: %s", got)
	}
	if after := k.String(); after != before {
		t.Errorf("after the detach:\n%s", after)
	}
}

// The addresses of another project's plugin come when the interface is up. culvertd then adds them
// to the guard.
func TestGuardGetsLateAddresses(t *testing.T) {
	k, n := nodeOf(t, fake.IGB)
	req := guardedRequest(t)
	config := req.IPAM
	req.IPAM = ipam.Config{}
	req.Late = func(context.Context) (ipam.Config, error) { return config, nil }
	rec, err := n.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := k.Guard(t.Context(), rec.PCI, podNetns); len(got.Addresses) != 1 {
		t.Errorf("guard is %s", got)
	}
}

// Attach refuses a guard that would pin nothing: on a VF of vfio-pci, and on a kernel without the
// hook. The VF stays as it was.
func TestGuardThatCannotHoldIsRefused(t *testing.T) {
	k, n := nodeOf(t, fake.IGB)
	before := k.String()
	user := guardedRequest(t)
	user.Owner.Kind, user.IPAM = vf.OwnerGuest, ipam.Config{}
	k.faults.Fail(func(_ faulty.Moment, s step.Step) error { t.Errorf("touched: %s", s); return nil })
	if _, err := n.Engine.Attach(t.Context(), user); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), "sends past the kernel: take guard out and set spoofchk") {
		t.Errorf("a guest: %v", err)
	}
	k.faults.Fail(nil)
	k.RefuseGuards()
	if _, err := n.Engine.Attach(t.Context(), guardedRequest(t)); !errors.Is(err, vf.ErrUnable) || !strings.Contains(err.Error(), "no hook at the egress") {
		t.Errorf("an old kernel: %v", err)
	}
	if after := k.String(); after != before {
		t.Errorf("after the refusals:\n%s", after)
	}
}

// CHECK compares the guard with the lease: a later plugin's address in prevResult is no
// difference of the guard.
func TestCheckIgnoresAddressesOfLaterPlugins(t *testing.T) {
	_, n := nodeOf(t, fake.IGB)
	req := guardedRequest(t)
	rec, err := n.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	req.Spec.Addresses = append(slices.Clone(rec.Lease.Wanted.Addresses), vf.Address{Prefix: netip.MustParsePrefix("10.1.0.99/24")})
	err = n.Engine.Check(t.Context(), rec.Lease.Owner, req)
	if err == nil || strings.Contains(err.Error(), "guard") || !strings.Contains(err.Error(), "10.1.0.99") {
		t.Error(err)
	}
}

// guardless is a kernel whose guards cannot be read while broken is true.
type guardless struct {
	*fake.Kernel
	broken atomic.Bool
}

func (u *guardless) Guard(ctx context.Context, pci vf.PCIAddr, netns string) (vf.Guard, error) {
	if u.broken.Load() {
		return vf.Guard{}, errors.New("no answer")
	}
	return u.Kernel.Guard(ctx, pci, netns)
}

// I3, I8: a DEL takes a VF from its pod and resets it, even if culvertd cannot read the guard. The
// VF then stays in quarantine.
func TestI8GuardThatCannotBeRead(t *testing.T) {
	k := &guardless{Kernel: fake.New(fake.IGB, 1)}
	k.AddNetns(podNetns)
	n := start(t, machine{k.Kernel, faulty.New(k)})
	before := k.String()
	rec, err := n.Engine.Attach(t.Context(), guardedRequest(t))
	if err != nil {
		t.Fatal(err)
	}
	k.broken.Store(true)
	if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
		t.Fatal(err)
	}
	if now := recordAt(t, n, rec.PCI); now.Phase != vf.PhaseQuarantined || !strings.Contains(now.Reason, "no answer") {
		t.Errorf("it is %s: %s", now.Phase, now.Reason)
	}
	if after := k.String(); after != before {
		t.Errorf("after the detach:\n%s", after)
	}
}

// A VF that an administrator takes out of quarantine leaves no guard in the netns of its last pod.
func TestRebaseRemovesTheGuard(t *testing.T) {
	k, n := nodeOf(t, fake.IGB)
	req := guardedRequest(t)
	req.Spec.MAC = &vf.MAC{2, 0xaa, 0, 0, 0, 1} // its reset binds the driver anew
	rec, err := n.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	k.SetNewAttribute("rings", "4096")
	if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
		t.Fatal(err)
	}
	if now := recordAt(t, n, rec.PCI); now.Phase != vf.PhaseQuarantined {
		t.Fatalf("it is %s", now.Phase)
	}
	seen, err := n.Upkeep.RebaseDiff(t.Context(), rec.PCI)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Upkeep.Rebase(t.Context(), rec.PCI, seen); err != nil {
		t.Fatal(err)
	}
	if left, err := k.Guard(t.Context(), rec.PCI, podNetns); err != nil || left.String() != "none" {
		t.Errorf("the guard is %s (%v)", left, err)
	}
}

// withdrawing starts a TakeVFs of the PF of a record, and holds it up after it has withdrawn the
// guards. The returned end makes take fail.
func withdrawing(t *testing.T, n *node.Node, rec journal.Record) (end func() error) {
	t.Helper()
	begun, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- n.Resets.TakeVFs(t.Context(), rec.ID.PF, func() error {
			close(begun)
			<-release
			return errInjected
		})
	}()
	<-begun
	end = sync.OnceValue(func() error { close(release); return <-done })
	t.Cleanup(func() { _ = end() })
	return end
}

// startAgain returns the node of the culvertd that starts after that of n was killed.
func startAgain(t *testing.T, k machine, n *node.Node) *node.Node {
	t.Helper()
	next := node.New(node.Config{Kernel: k.faults, Ledger: n.Ledger, BootID: "boot 1"})
	next.SetSpec(n.VFs.Spec())
	if err := next.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return next
}

// culvertd is killed after it has withdrawn the guard of a VF, and before it has taken the VF. The
// next culvertd sets the guard again, and brings the interface up with its addresses and routes. An
// interface that the pod itself had set down stays down.
func TestWithdrawnGuardComesBackWithTheInterface(t *testing.T) {
	for _, wasUp := range []bool{true, false} {
		k, n := nodeOf(t, fake.IGB)
		req := everything(t)
		req.Spec.Guard = vf.GuardIP
		rec, err := n.Engine.Attach(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Do(t.Context(), step.SetUp{VF: rec.PCI, Netns: podNetns, Up: wasUp}); err != nil {
			t.Fatal(err)
		}
		before := k.String()
		withdrawing(t, n, rec)
		if k.String() == before {
			t.Fatal("it withdrew nothing")
		}
		next := startAgain(t, k, n)
		pass(t, next)
		if d := cmp.Diff(before, k.String()); d != "" {
			t.Errorf("was up %t: -before +after:\n%s", wasUp, d)
		}
		if now := recordOf(t, next, rec); now.Lease.Withdrawn != nil {
			t.Errorf("the ledger says %+v", *now.Lease.Withdrawn)
		}
	}
}

// culvertd is killed after it has withdrawn the guard of a VF. The pod then ends and its DEL is lost, or
// the VF's driver is bound anew, which moves the interface to the host. The lease ends all the same.
func TestWithdrawnGuardOfALostPod(t *testing.T) {
	for name, lose := range map[string]func(machine, journal.Record) error{
		"netns is gone": func(k machine, _ journal.Record) error { k.DelNetns(podNetns); return nil },
		"driver is bound anew": func(k machine, rec journal.Record) error {
			return errors.Join(k.Do(t.Context(), step.Unbind{VF: rec.PCI}), k.Do(t.Context(), step.Bind{VF: rec.PCI}))
		},
	} {
		k, n := nodeOf(t, fake.IGB)
		req := everything(t)
		req.Spec.Guard = vf.GuardIP
		rec, err := n.Engine.Attach(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		withdrawing(t, n, rec)
		if err := lose(k, rec); err != nil {
			t.Fatal(err)
		}
		next := startAgain(t, k, n)
		a := &answers{}
		a.serve(next)
		for range 14 {
			_ = next.Reconciler.Pass(t.Context()) // an error would be a problem in status
			a.now = a.now.Add(30 * time.Second)
		}
		if now := recordOf(t, next, rec); now.Phase != vf.PhaseFree {
			t.Errorf("%s: the VF is %s: %+v", name, now.Phase, now.Lease.Withdrawn)
		}
	}
}

// If the owner prevents culvertd from adding an address again, the record is marked as withdrawn no
// longer, so upkeep of the VF goes on.
func TestWithdrawnGuardEndsWithoutAnAddress(t *testing.T) {
	k, n := nodeOf(t, fake.IGB)
	req := everything(t)
	req.Spec.Guard = vf.GuardIP
	rec, err := n.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	withdrawing(t, n, rec)
	next := startAgain(t, k, n)
	refused := 0
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		switch s.(type) {
		case step.AddAddress, step.AddRoute:
			if m == faulty.Before {
				refused++
				return errInjected
			}
		}
		return nil
	})
	_ = next.Upkeep.Tend(t.Context(), next.Inventory.PFs())
	if now := recordOf(t, next, rec); now.Lease.Withdrawn != nil || refused == 0 {
		t.Errorf("the ledger says %+v after %d refused steps", now.Lease.Withdrawn, refused)
	}
}

// While culvertd makes VFs anew by force, upkeep does not restore the withdrawn guards. If the VFs
// stay after all, their guards are restored.
func TestUpkeepLeavesAWithdrawnGuard(t *testing.T) {
	k, n := nodeOf(t, fake.IGB)
	now := time.Now()
	n.VFs.Now = func() time.Time { return now }
	rec, err := n.Engine.Attach(t.Context(), guardedRequest(t))
	if err != nil {
		t.Fatal(err)
	}
	before := k.String()
	end := withdrawing(t, n, rec)
	withdrawn := k.String()
	for range 3 {
		now = now.Add(time.Minute)
		pass(t, n)
	}
	if d := cmp.Diff(withdrawn, k.String()); d != "" {
		t.Errorf("upkeep has changed what was withdrawn: -before +after:\n%s", d)
	}
	if now := recordOf(t, n, rec); now.Lease.Withdrawn == nil {
		t.Error("the ledger does not say that the guard is withdrawn")
	}
	if err := end(); !errors.Is(err, errInjected) {
		t.Errorf("the end: %v", err)
	}
	if d := cmp.Diff(before, k.String()); d != "" {
		t.Errorf("the VF stays: -before +after:\n%s", d)
	}
}

// An attach that is under way on a VF ends before the VF is taken, and writes no record afterwards.
func TestVFsAreTakenAfterAnAttach(t *testing.T) {
	k, n := nodeOf(t, fake.IGB)
	begun, release := make(chan vf.PCIAddr, 1), make(chan struct{})
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if up, is := s.(step.SetUp); is && m == faulty.Before {
			select {
			case begun <- up.VF:
				<-release
			default:
			}
		}
		return nil
	})
	attached := make(chan error, 1)
	go func() {
		_, err := n.Engine.Attach(t.Context(), everything(t))
		attached <- err
	}()
	rec := recordAt(t, n, <-begun)
	var taken atomic.Bool
	took := make(chan error, 1)
	go func() {
		took <- n.Resets.TakeVFs(t.Context(), rec.ID.PF, func() error {
			taken.Store(true)
			return n.Ledger.Update(func(tx *journal.Tx) error { return tx.Forget(rec.ID, "it is made anew") })
		})
	}()
	time.Sleep(50 * time.Millisecond)
	if taken.Load() {
		t.Error("a VF was taken while an attach changed it")
	}
	close(release)
	if err := errors.Join(<-attached, <-took); err != nil {
		t.Error(err)
	}
	if err := n.Ledger.View(func(tx *journal.Tx) error { _, err := tx.Record(rec.ID); return err }); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("the record of the VF that was taken: %v", err)
	}
}

// listing is the hardware as it was listed.
type listing []vf.PF

func (l listing) PFs() []vf.PF { return l }

// A bond sends by RDMA if one of its VFs does.
func TestHasRDMA(t *testing.T) {
	_, n := nodeOf(t, fake.IGB)
	id := vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}
	pf := vf.PF{ID: id, VFs: []vf.State{{ID: vf.ID{PF: id}}, {ID: vf.ID{PF: id, Index: 1}, RDMA: &vf.RDMA{Device: "mlx5_2"}}}}
	n.VFs.Hardware = listing{pf}
	without, with := journal.Record{ID: pf.VFs[0].ID}, journal.Record{ID: pf.VFs[1].ID}
	gone := journal.Record{ID: vf.ID{PF: vf.PFID{Port: "gone"}}}
	for i, tt := range []struct {
		vfs  []journal.Record
		want bool
	}{
		{[]journal.Record{without}, false},
		{[]journal.Record{with}, true},
		{[]journal.Record{gone}, false},
		{[]journal.Record{without, with}, true},
	} {
		if got := n.Engine.HasRDMA(tt.vfs...); got != tt.want {
			t.Errorf("%d: %t", i, got)
		}
	}
}
