package attach_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

func guestWants(spec vf.Spec) attach.Request {
	return attach.Request{Owner: vf.Owner{Kind: vf.OwnerGuest, UID: "6695eb01", Name: "db1", Interface: "net1"}, Spec: spec}
}

// forGuests makes the pool's type vfio, so that its VFs are bound to vfio-pci.
func forGuests(t *testing.T, n *node.Node) {
	t.Helper()
	spec := n.VFs.Spec()
	spec.Pools = []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.VFIO}}
	n.SetSpec(spec)
	if err := n.Reconciler.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, n *node.Node, rec journal.Record) (st vf.State, left []vf.Difference) {
	t.Helper()
	st, err := n.VFs.Kernel.VF(t.Context(), rec.PCI, "")
	if err != nil {
		t.Fatal(err)
	}
	return st, lease.Diff(rec, st)
}

// P13: culvertd handles a guest's rate on every NIC that has rates. It refuses a rate that is out
// of range before it touches anything, and the lease has the rate that the hardware applies. A
// driver may drop the rate with the link's speed: culvertd sets it again when the link is back. The
// guest's end clears the rate.
func TestP13GuestsRateLivesThroughLinkChanges(t *testing.T) {
	for name, p := range fake.Profiles() {
		p.TotalVFs = 2
		for _, driver := range []string{"netdevice", "vfio-pci"} {
			t.Run(name+" "+driver, func(t *testing.T) {
				k, n := nodeOf(t, p)
				if driver == "vfio-pci" {
					forGuests(t, n)
				}
				before := k.String()
				if _, err := n.Engine.Attach(t.Context(), guestWants(vf.Spec{MaxTxRate: ptr(uint32(1000000))})); vf.DriverOf(p.Driver).UpToLink && !errors.Is(err, vf.ErrUnable) || k.String() != before && err != nil {
					t.Fatalf("a rate that the link has not: %v", err)
				} else if err == nil {
					if err := n.Resets.Detach(t.Context(), guestWants(vf.Spec{}).Owner); err != nil {
						t.Fatal(err)
					}
				}
				rec, err := n.Engine.Attach(t.Context(), guestWants(vf.Spec{MaxTxRate: ptr(uint32(170))}))
				if err != nil {
					t.Fatal(err)
				}
				if want := vf.DriverOf(p.Driver).Effective(vf.Admin{MaxTxRate: 170}).MaxTxRate; rec.Lease.Effective.MaxTxRate != want {
					t.Errorf("the lease says %d, the hardware keeps to %d", rec.Lease.Effective.MaxTxRate, want)
				}
				linkChanges(t, k, n, p, rec)
				if err := n.Resets.End(t.Context(), rec); err != nil {
					t.Fatal(err)
				}
				if after := k.String(); after != before {
					t.Errorf("after the guest's end:\n%s\nbefore its start:\n%s", after, before)
				}
			})
		}
	}
}

// failures is a log handler that calls told for each failure of Tend.
type failures struct {
	slog.Handler
	told func()
}

func (failures) Enabled(context.Context, slog.Level) bool { return true }

func (f failures) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "tend" {
		f.told()
	}
	return nil
}

// When a pass reports its failure on a VF, it has already unlocked the VF for the next pass. The
// change that makes the repair possible may come at that moment, and wakes only one pass.
func TestPassesOnTheHeelsOfEachOther(t *testing.T) {
	k, n := nodeOf(t, fake.IXGBE)
	rec, err := n.Engine.Attach(t.Context(), guestWants(vf.Spec{MaxTxRate: ptr(uint32(170))}))
	if err != nil {
		t.Fatal(err)
	}
	pf := pfOf(t, n, rec.ID.PF).PCI
	told := 0
	n.VFs.Log = slog.New(failures{slog.DiscardHandler, func() {
		told++
		if err := errors.Join(k.SetLinkSpeed(pf, fake.IXGBE.SpeedMbps), n.Reconciler.Pass(t.Context())); err != nil {
			t.Error(err)
		}
	}})
	if err := k.SetLinkSpeed(pf, 100); err != nil {
		t.Fatal(err)
	}
	if err := n.Reconciler.Pass(t.Context()); err == nil || told != 1 {
		t.Fatalf("at 100 Mb/s: %v, told %d times", err, told)
	}
	if _, left := check(t, n, rec); len(left) > 0 {
		t.Error(vf.Differences(left))
	}
}

// linkChanges changes the speed of the PF's link and changes it back.
func linkChanges(t *testing.T, k machine, n *node.Node, p fake.Profile, rec journal.Record) {
	t.Helper()
	pf := pfOf(t, n, rec.ID.PF).PCI
	if err := k.SetLinkSpeed(pf, 100); err != nil {
		t.Fatal(err)
	}
	_, dropped := check(t, n, rec)
	if vf.DriverOf(p.Driver).DropsRates != (len(dropped) > 0) {
		t.Errorf("at 100 Mb/s: %s", vf.Differences(dropped))
	}
	if err := n.Reconciler.Pass(t.Context()); len(dropped) > 0 && !errors.Is(err, vf.ErrUnable) {
		t.Errorf("it cannot be set at 100 Mb/s, and nobody is told: %v", err)
	}
	if err := k.SetLinkSpeed(pf, p.SpeedMbps); err != nil {
		t.Fatal(err)
	}
	if err := n.Reconciler.Pass(t.Context()); err != nil { // kernel.Watch would cause it
		t.Error(err)
	}
	if _, left := check(t, n, rec); len(left) > 0 {
		t.Errorf("with the link back: %s", vf.Differences(left))
	}
	if dropped == nil {
		return
	}
	told := ""
	err := n.Ledger.View(func(tx *journal.Tx) error {
		all := tx.Events(0)
		for _, e := range all {
			told += e.Reason + " " + e.Text + "\n"
		}
		return nil
	})
	if err != nil || !strings.Contains(told, "DriftMended") || !strings.Contains(told, "max_tx_rate is 0, not 170") {
		t.Errorf("%v\n%s", err, told)
	}
}

// P12: ixgbe answers ENOMEM when a MAC that is clear is cleared. culvertd does not ask it to,
// regardless of the changes of libvirt and the guest to the address. If the driver returns the
// error all the same, the VF ends clean, or in quarantine until it is clean.
func TestP12ClearingAMACThatIsClear(t *testing.T) {
	for name, meddle := range map[string]func(*vf.State){
		"as Culvert set it":    func(*vf.State) {},
		"libvirt cleared it":   func(s *vf.State) { s.Admin.MAC = vf.MAC{} },
		"somebody set another": func(s *vf.State) { s.Admin.MAC = vf.MAC{2, 0, 0, 0, 0, 9} },
	} {
		for _, broken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, every MAC fails %t", name, broken), func(t *testing.T) {
				k, n := nodeOf(t, fake.IXGBE)
				before := k.String()
				rec, err := n.Engine.Attach(t.Context(), guestWants(vf.Spec{MAC: &vf.MAC{2, 0xaa, 0, 0, 0, 1}}))
				if err != nil {
					t.Fatal(err)
				}
				if err := k.Meddle(rec.PCI, meddle); err != nil {
					t.Fatal(err)
				}
				k.faults.Fail(func(m faulty.Moment, s step.Step) error {
					mac, ok := s.(step.SetVFMAC)
					if ok && mac.MAC.IsZero() {
						t.Errorf("asked to %s", s)
					}
					if ok && broken && m == faulty.Before {
						return syscall.ENOMEM
					}
					return nil
				})
				if err := n.Resets.End(t.Context(), rec); err != nil {
					t.Fatal(err)
				}
				now := recordOf(t, n, rec)
				if !broken && (now.Phase != vf.PhaseFree || k.String() != before) {
					t.Errorf("it is %s: %s\n%s", now.Phase, now.Reason, k)
				}
				if broken && (now.Phase != vf.PhaseQuarantined || !strings.Contains(now.Reason, "cannot allocate memory")) {
					t.Errorf("it is %s: %s", now.Phase, now.Reason)
				}
			})
		}
	}
}

func recordOf(t *testing.T, n *node.Node, of journal.Record) (rec journal.Record) {
	t.Helper()
	err := n.Ledger.View(func(tx *journal.Tx) (err error) {
		rec, err = tx.Record(of.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// P12: culvertd resets the PCI function of a guest's VF, once no process has it open, before
// another owner gets it. A VF whose reset fails or hangs is quarantined with the reason. A VF whose
// NIC has no function reset is not quarantined for that.
func TestP12FunctionIsReset(t *testing.T) {
	for name, tc := range map[string]struct {
		fails error
		phase vf.Phase
		says  string
	}{
		"it works":                  {nil, vf.PhaseFree, ""},
		"the function has no reset": {fmt.Errorf("%w: the function has no reset", vf.ErrUnable), vf.PhaseFree, ""},
		"it fails":                  {syscall.ENOTTY, vf.PhaseQuarantined, "reset the function of VF"},
		"it hangs":                  {fmt.Errorf("%w, and the call is still stuck in the kernel", vf.ErrTimeout), vf.PhaseQuarantined, "stuck in the kernel"},
	} {
		for _, driver := range []string{"netdevice", "vfio-pci"} {
			t.Run(name+" "+driver, func(t *testing.T) {
				k, n := nodeOf(t, fake.IGB)
				if driver == "vfio-pci" {
					forGuests(t, n)
				}
				rec, err := n.Engine.Attach(t.Context(), guestWants(vf.Spec{MaxTxRate: ptr(uint32(100))}))
				if err != nil {
					t.Fatal(err)
				}
				resets, others := 0, 0
				k.faults.Fail(func(m faulty.Moment, s step.Step) error {
					if _, reset := s.(step.Reset); !reset {
						others++
						return nil
					}
					if others > 0 {
						t.Errorf("%d steps came before it", others)
					}
					if m == faulty.Before {
						resets++
						return tc.fails
					}
					return nil
				})
				if err := n.Resets.End(t.Context(), rec); err != nil {
					t.Fatal(err)
				}
				if now := recordOf(t, n, rec); now.Phase != tc.phase || !strings.Contains(now.Reason, tc.says) || resets != 1 {
					t.Errorf("after %d resets it is %s: %s", resets, now.Phase, now.Reason)
				}
			})
		}
	}
}

// P12: culvertd does not reset a PCI function that a process has open.
func TestP12NoResetUnderAGuest(t *testing.T) {
	k, n := nodeOf(t, fake.IGB)
	rec, err := n.Engine.Attach(t.Context(), guestWants(vf.Spec{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Open(rec.PCI, vf.Process{PID: 4711, Name: "qemu"}); err != nil {
		t.Fatal(err)
	}
	k.faults.Fail(func(_ faulty.Moment, s step.Step) error { t.Errorf("touched: %s", s); return nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the caller disconnected: the work that was begun is finished all the same
	if err := n.Resets.End(ctx, rec); err != nil {
		t.Fatal(err)
	}
	if now := recordOf(t, n, rec); now.Phase != vf.PhaseQuarantined || !strings.Contains(now.Reason, "open by qemu (process 4711)") {
		t.Errorf("it is %s: %s", now.Phase, now.Reason)
	}
}

// P10: a refusal describes the pool as far as the ledger shows, even while the kubelet does not
// answer.
func TestP10RoomWithoutTheKubelet(t *testing.T) {
	_, n := newNode(t)
	rec, err := n.Engine.Attach(t.Context(), guestWants(vf.Spec{}))
	if err != nil {
		t.Fatal(err)
	}
	n.VFs.Given = func(ctx context.Context) (func(vf.PCIAddr) string, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("a refusal may wait for ever")
		}
		return nil, vf.ErrNotReady
	}
	if got, want := n.Engine.Room(t.Context(), rec.PCI), "pool x/a: 1 of 14 VFs on enp1s0, enp2s0 are held (vm db1)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// P12, I2: culvertd reads the PF's settings back after the VF's reset, since the PF's
// driver may change them with it.
func TestP12ReadBackAfterTheReset(t *testing.T) {
	k, n := nodeOf(t, fake.IGB)
	forGuests(t, n)
	before := k.String()
	rec, err := n.Engine.Attach(t.Context(), guestWants(vf.Spec{}))
	if err != nil {
		t.Fatal(err)
	}
	k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if _, reset := s.(step.Reset); reset && m == faulty.After {
			return k.Meddle(rec.PCI, func(st *vf.State) { st.Admin.Trust, st.Admin.VLAN.ID = vf.Yes, 7 })
		}
		return nil
	})
	if err := n.Resets.End(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if now := recordOf(t, n, rec); now.Phase != vf.PhaseFree || k.String() != before {
		t.Errorf("it is %s: %s\n%s", now.Phase, now.Reason, k)
	}
}

// An IPAM plugin that is owed a DEL keeps it when a guest turns out to run with the VF.
func TestAdoptionKeepsWhatIsOwed(t *testing.T) {
	for _, phase := range []vf.Phase{vf.PhaseFree, vf.PhaseQuarantined} {
		t.Run(string(phase), func(t *testing.T) { adoptOwing(t, phase) })
	}
}

func adoptOwing(t *testing.T, phase vf.Phase) {
	k, n := newNode(t)
	forGuests(t, n)
	req := guestWants(vf.Spec{})
	req.VF = n.Inventory.PFs()[1].VFs[2].PCI
	rec := recordAt(t, n, req.VF)
	owed := journal.Delegation{ContainerID: "c1", Interface: "net1", Network: "blue", Config: []byte(`{"ipam":{"type":"x"}}`)}
	err := n.Ledger.Update(func(tx *journal.Tx) error {
		now, err := tx.Record(rec.ID)
		if err != nil {
			return err
		}
		now.Owed, now.Phase = []journal.Delegation{owed}, phase
		return tx.Put(now)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Open(req.VF, vf.Process{PID: 4711, Name: "qemu"}); err != nil {
		t.Fatal(err)
	}
	if err := n.Upkeep.Adopt(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if now := recordOf(t, n, rec); now.Phase != vf.PhaseAttached || len(now.Owed) != 1 {
		t.Errorf("the VF is %s and owes %v", now.Phase, now.Owed)
	}
}
