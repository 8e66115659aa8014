package reconcile_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// fullDisk is a ledger that takes no writes of the Reconciler, as if the disk were full after the
// guards were withdrawn.
type fullDisk struct{ *journal.Ledger }

var errDiskFull = errors.New("no space left on device")

func (fullDisk) Update(func(*journal.Tx) error) error { return errDiskFull }

// P12: if VFs are made anew by force, their guards end with them, and the pods never send without a
// guard. If culvertd cannot end their leases, it sets the guards again, even in a pool with drift:
// report.
func TestForcedRemakeAndGuards(t *testing.T) {
	const pools = "pools: [{name: a, drift: report}]\n"
	h := boot(t, "pfs: [{name: enp1s0, vfs: 4}]\n"+pools)
	h.pass(t)
	h.k.AddNetns("/run/netns/a")
	config, err := ipam.Parse([]byte(`{"type":"host-local","scope":"node","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]]}`))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := h.Engine.Attach(t.Context(), attach.Request{Owner: vf.Owner{Kind: vf.OwnerPod, UID: "c", Interface: "net1"}, Network: "blue", Netns: "/run/netns/a",
		Spec: vf.Spec{Interface: "net1", Guard: vf.GuardIP}, IPAM: config})
	if err != nil {
		t.Fatal(err)
	}
	h.VFs.Wait()
	h.want(t, "pfs: [{name: enp1s0, vfs: 2}]\n"+pools)
	var order []string
	unguarded := func() bool {
		st, err := h.k.VF(t.Context(), rec.PCI, rec.Lease.Netns)
		g, _ := h.k.Guard(t.Context(), rec.PCI, rec.Lease.Netns)
		return err == nil && st.Link != nil && st.Link.Up && g.Mode == ""
	}
	h.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if m == faulty.After {
			order = append(order, faulty.Kind(s))
		}
		if unguarded() {
			t.Errorf("the pod can send without its guard: %s", order)
		}
		return nil
	})
	before, good := h.k.String(), h.Reconciler.Ledger
	h.Reconciler.Ledger = fullDisk{h.ledger}
	if err := h.Reconciler.Apply(t.Context(), true); !errors.Is(err, errDiskFull) {
		t.Errorf("a full disk: %v", err)
	}
	if after := h.k.String(); after != before {
		t.Errorf("after a remake that failed:\n%s\nnot:\n%s", after, before)
	}
	if got := strings.Join(order, " "); !strings.Contains(got, "SetUp DelGuard SetGuard SetUp") || slices.Contains(order, "SetNumVFs") {
		t.Errorf("steps: %s", got)
	}
	h.Reconciler.Ledger = good
	if err := h.Reconciler.Apply(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if left, err := h.k.Guard(t.Context(), rec.PCI, rec.Lease.Netns); err != nil || left.Mode != "" {
		t.Errorf("the guard is left: %s, %v", left, err)
	}
}
