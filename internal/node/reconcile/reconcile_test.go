package reconcile_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

const isWanted = `
pfs:
- name: enp*
  vfs: max
  mtu: 9000
pools:
- name: blue
  selectors: {pfNames: ["enp1s0#0-3"]}
- name: red
  deviceType: vfio-pci
  selectors: {pfNames: ["enp1s0#4-6", enp2s0]}
`

type host struct {
	*node.Node
	k      *fake.Kernel
	faults *faulty.Kernel
	path   string
	ledger *journal.Ledger
}

func boot(t *testing.T, text string) *host {
	t.Helper()
	k := fake.New(fake.IGB, 2)
	h := &host{k: k, faults: faulty.New(k), path: filepath.Join(t.TempDir(), "ledger.db")}
	h.start(t, "boot 1", text)
	return h
}

func (h *host) start(t *testing.T, bootID, text string) {
	t.Helper()
	l, err := journal.Open(h.path, journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	h.ledger = l
	h.Node = node.New(node.Config{Kernel: h.faults, Ledger: l, BootID: bootID})
	h.want(t, text)
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (h *host) want(t *testing.T, text string) {
	t.Helper()
	spec, err := desired.Parse("host.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	h.SetSpec(spec)
}

func (h *host) pass(t *testing.T) {
	t.Helper()
	if err := h.Reconciler.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (h *host) phases(t *testing.T) string {
	t.Helper()
	count := map[vf.Phase]int{}
	err := h.Ledger.View(func(tx *journal.Tx) error {
		records := tx.Records()
		for _, r := range records {
			count[r.Phase]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(count)
}

// P1 P17: the first pass on a bare machine brings the PFs up, sets their MTU, and makes VFs with
// their MACs and drivers. The second pass changes nothing.
func TestMakesWhatIsWantedAndThenRests(t *testing.T) {
	h := boot(t, isWanted)
	h.pass(t)
	pfs, err := h.k.PFs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pf := range pfs {
		if !pf.Up || pf.MTU != 9000 || len(pf.VFs) != 7 || pf.Autoprobe != vf.Yes {
			t.Errorf("PF %s: up %t mtu %d, %d VFs, autoprobe %s", pf.Name, pf.Up, pf.MTU, len(pf.VFs), pf.Autoprobe)
		}
		for _, v := range pf.VFs {
			driver := "vfio-pci"
			if pf.Name == "enp1s0" && v.ID.Index < 4 {
				driver = "igbvf"
			}
			mac := vf.StableMAC(pf.ID, v.ID.Index)
			if v.Driver != driver || v.Admin.MAC != mac || v.Link != nil && v.Link.MAC != mac {
				t.Errorf("VF %s: driver %s mac %s link %+v", v.ID, v.Driver, v.Admin.MAC, v.Link)
			}
		}
	}
	h.faults.Fail(func(_ faulty.Moment, s step.Step) error { t.Errorf("second pass: %s", s); return nil })
	h.pass(t)
	if got := h.phases(t); got != "map[free:14]" {
		t.Error(got)
	}
}

// For every Spec, the plan is empty after it was carried out.
func TestPlanAfterApplyIsEmpty(t *testing.T) {
	h := boot(t, isWanted)
	h.pass(t)
	plans, err := h.Reconciler.PlanFor(t.Context(), h.Spec())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plans {
		if len(p.Changes) > 0 || p.Err != nil {
			t.Errorf("PF %s: %v %v", p.PF.Label(), p.Changes, p.Err)
		}
	}
}

// I2: when any step of making VFs fails, before or after its effect, no owner gets a VF that is not
// in its wanted state. The next pass finishes the work.
func TestI2MakingThatFailsAtAnyStepIsFinishedLater(t *testing.T) {
	whole := boot(t, isWanted)
	whole.pass(t)
	for _, moment := range []faulty.Moment{faulty.Before, faulty.After} {
		for failAt := 0; ; failAt++ {
			h := boot(t, isWanted)
			count, failed := make(chan int, 1), make(chan step.Step, 1)
			count <- 0
			h.faults.Fail(func(m faulty.Moment, s step.Step) error {
				if m != moment {
					return nil
				}
				n := <-count
				count <- n + 1
				if n != failAt {
					return nil
				}
				failed <- s
				return errors.New("injected")
			})
			err := h.Reconciler.Pass(t.Context())
			if len(failed) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%s: %d steps", moment, failAt)
				break
			}
			s := <-failed
			if err == nil || len(h.Reconciler.Problems()) == 0 {
				t.Errorf("%s %s: nobody was told", moment, s)
			}
			h.start2(t)
			h.pass(t)
			if got := h.phases(t); got != "map[free:14]" {
				t.Errorf("%s %s: %s", moment, s, got)
			}
			if diff := cmp.Diff(lines(whole.k.String()), lines(h.k.String())); diff != "" {
				t.Errorf("%s %s: %s", moment, s, diff)
			}
		}
	}
}

// start2 starts culvertd again in the same boot.
func (h *host) start2(t *testing.T) {
	t.Helper()
	h.faults.Fail(nil)
	spec := h.Spec()
	if err := h.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	h.start(t, "boot 1", "")
	h.SetSpec(spec)
}

func lines(s string) []string { return strings.Split(s, "\n") }

// P1: a reboot ends all VFs, netns and leases. culvertd makes the same VFs with the same MACs
// again, and accepts the DEL of an earlier lease.
func TestRebootBringsTheSameVFs(t *testing.T) {
	h := boot(t, isWanted)
	h.pass(t)
	before := h.k.String()
	h.k.AddNetns("/run/netns/a")
	_, err := h.Engine.Attach(t.Context(), attach.Request{
		Owner: vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: "net1"},
		Pool:  "blue", Netns: "/run/netns/a", Spec: vf.Spec{Interface: "net1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.VFs.Wait()
	if err := h.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	h.k.Reboot()
	h.start(t, "boot 2", isWanted)
	h.pass(t)
	if diff := cmp.Diff(lines(before), lines(h.k.String())); diff != "" {
		t.Error(diff)
	}
	if got := h.phases(t); got != "map[free:14]" {
		t.Error(got)
	}
	if err := h.Resets.Detach(t.Context(), vf.Owner{UID: "c1", Interface: "net1"}); err != nil {
		t.Error("the DEL that kubelet sends after the reboot:", err)
	}
}

func problems(h *host) string { return fmt.Sprint(h.Reconciler.Problems()) }

// Trap 2 of lab-facts: culvertd makes no VFs on a PF without carrier, unless host.yaml has
// needCarrier: false. It makes them as soon as the cable is in. I7: the other PF is not delayed.
func TestWaitsForCarrier(t *testing.T) {
	h := boot(t, isWanted)
	first := h.Inventory.PFs()[0]
	h.k.Cable(first.PCI, false)
	if err := h.Reconciler.Pass(t.Context()); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("got %v", err)
	}
	if got := problems(h); !strings.Contains(got, "PF enp1s0 no carrier, so its 7 VFs are not made: plug in the cable") {
		t.Error(got)
	}
	if got := h.phases(t); got != "map[free:7]" {
		t.Errorf("I7: %s", got)
	}
	h.k.Cable(first.PCI, true)
	h.pass(t)
	if got := h.phases(t); got != "map[free:14]" {
		t.Error(got)
	}
	h = boot(t, strings.Replace(isWanted, "vfs: max", "vfs: max\n  needCarrier: false", 1))
	h.k.Cable(first.PCI, false)
	h.pass(t)
}

// bootBesideOthers returns a host without a wanted Spec, and its first PF with 7 VFs that another
// program made.
func bootBesideOthers(t *testing.T) (*host, vf.PF) {
	t.Helper()
	h := boot(t, "")
	h.k.AddNetns("/run/netns/other")
	pf := h.Inventory.PFs()[0]
	for _, s := range []step.Step{step.SetPFUp{PF: pf.PCI}, step.SetNumVFs{PF: pf.PCI, N: 7}} {
		if err := h.k.Do(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	pf, err := h.k.PF(t.Context(), pf.PCI)
	if err != nil {
		t.Fatal(err)
	}
	return h, pf
}

// culvertd takes over VFs of another program if they are unused. It leaves used ones alone, and
// reports the reason.
func TestTakesOverOnlyWhatNobodyUses(t *testing.T) {
	h, pf := bootBesideOthers(t)
	for _, s := range []step.Step{
		step.SetUp{VF: pf.VFs[0].PCI, Up: true},
		step.Move{VF: pf.VFs[1].PCI, To: "/run/netns/other", Name: "x"},
		step.Unbind{VF: pf.VFs[2].PCI}, step.Bind{VF: pf.VFs[2].PCI, Driver: vf.DriverVFIO},
	} {
		if err := h.k.Do(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	h.want(t, isWanted)
	if err := h.Reconciler.Pass(t.Context()); err == nil {
		t.Error("nobody was told")
	}
	for _, want := range []string{"its interface is in another network namespace", "bound to vfio-pci by another program, and pool culvert.dev/blue gives out interfaces"} {
		if !strings.Contains(problems(h), want) {
			t.Errorf("no %q in %s", want, problems(h))
		}
	}
	if got := h.phases(t); got != "map[free:12]" {
		t.Error(got)
	}
}

// I5: culvertd does not remove used VFs that the ledger does not know, because it was
// lost or because another program made them.
func TestI5StrangersKeepTheirVFs(t *testing.T) {
	h := boot(t, "pfs:\n- {name: enp1s0, vfs: 5}\n")
	pfs, err := h.k.PFs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.k.WriteNumVFs(pfs[0].PCI, 3); err != nil {
		t.Fatal(err)
	}
	pf, err := h.k.PF(t.Context(), pfs[0].PCI)
	if err != nil {
		t.Fatal(err)
	}
	h.k.AddNetns("/run/netns/x")
	use := map[int]func(*vf.State){
		0: func(st *vf.State) { st.Driver, st.Link = vf.DriverVFIO, nil },
		1: func(st *vf.State) { st.Link.Netns = "/run/netns/x" },
		2: func(st *vf.State) { st.Link.Up = true },
	}
	for i, change := range use {
		if err := h.k.Meddle(pf.VFs[i].PCI, change); err != nil {
			t.Fatal(err)
		}
	}
	err = h.Reconciler.Pass(t.Context())
	for _, who := range []string{"vf 0: bound to vfio-pci", "vf 1: its interface is in another network namespace", "vf 2: set up as", "--force"} {
		if err == nil || !strings.Contains(err.Error(), who) {
			t.Errorf("no %q in %v", who, err)
		}
	}
	if pf, err = h.k.PF(t.Context(), pf.PCI); err != nil || pf.NumVFs != 3 {
		t.Errorf("%d VFs are left of 3 (%v)", pf.NumVFs, err)
	}
}
