package attach_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// quarantined returns a VF that came back from a pod after the host began to set up new
// interfaces otherwise: it is in quarantine.
func quarantined(t *testing.T) (*fake.Kernel, *node.Node, journal.Record) {
	t.Helper()
	k := fake.New(fake.IGB, 1)
	k.AddNetns(podNetns)
	n := start(t, machine{k, faulty.New(k)})
	req := everything(t)
	rec, err := n.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	k.SetNewAttribute("rings", "4096")
	if err := n.Resets.Detach(t.Context(), req.Owner); err != nil {
		t.Fatal(err)
	}
	rec = recordAt(t, n, rec.PCI)
	if rec.Phase != vf.PhaseQuarantined || !strings.Contains(rec.Reason, "rings is 4096, not 256") {
		t.Fatalf("it is %s: %s", rec.Phase, rec.Reason)
	}
	return k, n, rec
}

func recordAt(t *testing.T, n *node.Node, pci vf.PCIAddr) (found journal.Record) {
	t.Helper()
	records, err := n.Records()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.PCI == pci {
			found = r
		}
	}
	return found
}

// I2, I3: a VF whose new interface differs from its baseline is free again when an administrator
// has seen the difference and accepted it.
func TestRebase(t *testing.T) {
	k, n, rec := quarantined(t)
	seen, err := n.Upkeep.RebaseDiff(t.Context(), rec.PCI)
	if err != nil || vf.Differences(seen) != "rings is 4096, not 256" {
		t.Fatalf("%v (%v)", seen, err)
	}
	changed, err := n.Upkeep.Rebase(t.Context(), rec.PCI, seen)
	if err != nil || vf.Differences(changed) != vf.Differences(seen) {
		t.Fatalf("%v (%v)", changed, err)
	}
	now := recordAt(t, n, rec.PCI)
	if now.Phase != vf.PhaseFree || now.Reason != "" || !now.Lease.Owner.IsZero() {
		t.Errorf("it is %+v", now)
	}
	// The VF can be attached as before, and the release finds and undoes the owner's changes.
	req := everything(t)
	req.VF = rec.PCI
	if _, err := n.Engine.Attach(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if err := k.SetAttribute(rec.PCI, "rings", "17"); err != nil {
		t.Fatal(err)
	}
	if err := n.Resets.Detach(t.Context(), req.Owner); err != nil {
		t.Fatal(err)
	}
	if left := k.ChangedAttributes(rec.PCI); left != "" || recordAt(t, n, rec.PCI).Phase != vf.PhaseFree {
		t.Errorf("left is%s, %+v", left, recordAt(t, n, rec.PCI))
	}
}

// I2: Rebase binds the driver anew first, so it takes no setting of an owner into the
// new baseline. It refuses differences that were not shown.
func TestI2RebaseTakesNothingOfAnOwner(t *testing.T) {
	k, n, rec := quarantined(t)
	if err := k.SetAttribute(rec.PCI, "altnames", "left"); err != nil {
		t.Fatal(err)
	}
	seen, err := n.Upkeep.RebaseDiff(t.Context(), rec.PCI)
	if err != nil || len(seen) != 2 {
		t.Fatalf("%v (%v)", seen, err)
	}
	k.SetNewAttribute("channels", "2")
	if changed, err := n.Upkeep.Rebase(t.Context(), rec.PCI, seen); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), "channels is 2, not 1") {
		t.Errorf("%v (%v)", changed, err)
	}
	if now := recordAt(t, n, rec.PCI); now.Phase != vf.PhaseQuarantined || !strings.Contains(string(now.Baseline.Attributes), "rings 256\n") {
		t.Errorf("it is %+v", now)
	}
	seen, _ = n.Upkeep.RebaseDiff(t.Context(), rec.PCI)
	changed, err := n.Upkeep.Rebase(t.Context(), rec.PCI, seen)
	if err != nil || vf.Differences(changed) != "channels is 2, not 1; rings is 4096, not 256" {
		t.Errorf("%v (%v)", changed, err)
	}
	if left := k.ChangedAttributes(rec.PCI); left != "" {
		t.Errorf("free, and left is%s", left)
	}
}

// A VF that is in use, or that Culvert does not manage, gets no new baseline.
func TestRebaseOfAVFInUse(t *testing.T) {
	k, n, rec := quarantined(t)
	req := everything(t)
	other, err := n.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Upkeep.Rebase(t.Context(), other.PCI, nil); !errors.Is(err, vf.ErrHeld) {
		t.Errorf("a VF that a pod has: %v", err)
	}
	if _, err := n.Upkeep.Rebase(t.Context(), vf.PCIAddr{Bus: 99}, nil); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("a VF that is not there: %v", err)
	}
	n.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
		return func(vf.PCIAddr) string { return "default/b" }, nil
	}
	if _, err := n.Upkeep.RebaseDiff(t.Context(), rec.PCI); !errors.Is(err, vf.ErrHeld) || !strings.Contains(err.Error(), "to pod default/b") {
		t.Errorf("a VF that the kubelet gave to a pod: %v", err)
	}
	n.VFs.Given = nil
	// The reset mends this difference, so the baseline stays.
	k.SetNewAttribute("rings", "256")
	if changed, err := n.Upkeep.Rebase(t.Context(), rec.PCI, nil); err != nil || len(changed) > 0 {
		t.Errorf("%v (%v)", changed, err)
	}
	if now := recordAt(t, n, rec.PCI); now.Phase != vf.PhaseFree || now.Baseline.Name != rec.Baseline.Name {
		t.Errorf("it is %+v", now)
	}
}
