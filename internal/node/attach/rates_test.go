package attach_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// nodeOf is a node with NICs of one kind.
func nodeOf(t *testing.T, p fake.Profile) (machine, *node.Node) {
	t.Helper()
	k := fake.New(p, 2)
	k.AddNetns(podNetns)
	m := machine{k, faulty.New(k)}
	return m, start(t, m)
}

func limited(spec vf.Spec) attach.Request {
	spec.Interface = "net1"
	return attach.Request{Owner: vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: "net1"}, Netns: podNetns, Spec: spec}
}

// P13, I6: i40e floors rates to steps of 50 while the kernel reports the requested
// rate. The lease has the rate of the hardware. The read-back, CHECK and the look at
// drift do not take the rounding for a change; they see a real change.
func TestI6RoundedRateIsShownAndNoDrift(t *testing.T) {
	k, n := nodeOf(t, fake.I40E)
	rec, err := n.Engine.Attach(t.Context(), limited(vf.Spec{MaxTxRate: ptr(uint32(170))}))
	if err != nil {
		t.Fatal(err)
	}
	if got := rec.Lease.Effective.MaxTxRate; got != 150 {
		t.Errorf("effective %d Mb/s", got)
	}
	if !strings.Contains(k.String(), "rates 0-170 (150)") {
		t.Error(k.String())
	}
	before := k.String()
	if err := n.Engine.Check(t.Context(), rec.Lease.Owner, limited(vf.Spec{MaxTxRate: ptr(uint32(170))})); err != nil {
		t.Error(err)
	}
	if err := n.Reconciler.Pass(t.Context()); err != nil || k.String() != before {
		t.Errorf("a pass changed something: %v\n%s", err, k)
	}
	if err := k.Do(t.Context(), step.SetVFRate{PF: pfOf(t, n, rec.ID.PF).PCI, Index: rec.ID.Index, Max: 300}); err != nil {
		t.Fatal(err)
	}
	if err := n.Engine.Check(t.Context(), rec.Lease.Owner, attach.Request{}); err == nil || !strings.Contains(err.Error(), "max_tx_rate is 300, not 150") {
		t.Error("a rate that somebody else set:", err)
	}
	if err := n.Reconciler.Pass(t.Context()); err != nil || !strings.Contains(k.String(), "(150)") && !strings.Contains(k.String(), "0-150") {
		t.Errorf("not mended: %v\n%s", err, k)
	}
}

func pfOf(t *testing.T, n *node.Node, id vf.PFID) vf.PF {
	t.Helper()
	for _, pf := range n.Inventory.PFs() {
		if pf.ID == id {
			return pf
		}
	}
	t.Fatal("no PF", id)
	return vf.PF{}
}

// P13: Attach refuses a rate that the driver would refuse, before it touches anything. The error
// names the PF, the driver and the range.
func TestRatesOutsideAreRefusedUntouched(t *testing.T) {
	for _, tt := range []struct {
		p    fake.Profile
		spec vf.Spec
		want string
	}{
		{fake.IXGBE, vf.Spec{MaxTxRate: ptr(uint32(10))}, "PF enp1s0 (driver ixgbe) takes 11 to 10000 Mb/s"},
		{fake.IGB, vf.Spec{MaxTxRate: ptr(uint32(2000))}, "PF enp1s0 (driver igb) takes 1 to 1000 Mb/s"},
		{fake.IGB, vf.Spec{MinTxRate: ptr(uint32(20))}, "PF enp1s0 (driver igb)"},
		{fake.BNXT, vf.Spec{MinTxRate: ptr(uint32(26000))}, "PF enp1s0 (driver bnxt_en)"},
		{fake.CXGB4, vf.Spec{VLAN: &vf.VLAN{ID: 5, QoS: 2}}, "PF 0000:01:00.0 (driver cxgb4) takes a VLAN without priority only"},
		{fake.CXGB4, vf.Spec{Trust: ptr(true)}, "PF 0000:01:00.0 (driver cxgb4) can set"},
		{fake.MLX5Switchdev, vf.Spec{VLAN: &vf.VLAN{ID: 5}}, "PF enp1s0 (driver mlx5_core) can set"},
	} {
		k, n := nodeOf(t, tt.p)
		k.faults.Fail(func(_ faulty.Moment, s step.Step) error { t.Errorf("%s: touched: %s", tt.p.Driver, s); return nil })
		_, err := n.Engine.Attach(t.Context(), limited(tt.spec))
		if !errors.Is(err, vf.ErrUnable) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.p.Driver, err)
		}
	}
}

// I2, I3: the reset of a rate works again after the link came back at another speed.
// Meanwhile the driver had dropped the rate, or refused to clear it.
func TestI2RateIsGoneAfterTheLinkChanged(t *testing.T) {
	for name, p := range fake.Profiles() {
		k, n := nodeOf(t, p)
		before := k.String()
		rec, err := n.Engine.Attach(t.Context(), limited(vf.Spec{MaxTxRate: ptr(uint32(100))}))
		if err != nil {
			t.Fatal(name, err)
		}
		pf := pfOf(t, n, rec.ID.PF).PCI
		k.Cable(pf, false)
		if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
			t.Error(name, err)
		}
		k.Cable(pf, true)
		if err := k.SetLinkSpeed(pf, 100); err != nil {
			t.Fatal(err)
		}
		if err := k.SetLinkSpeed(pf, p.SpeedMbps); err != nil {
			t.Fatal(err)
		}
		_ = n.Reconciler.Pass(t.Context())
		if after := k.String(); after != before {
			t.Errorf("%s:\n%s", name, after)
		}
	}
}

// A rate that the driver dropped with the link's speed is seen as drift and set
// again as soon as the driver takes it.
func TestDroppedRateIsSetAgain(t *testing.T) {
	k, n := nodeOf(t, fake.IXGBE)
	rec, err := n.Engine.Attach(t.Context(), limited(vf.Spec{MaxTxRate: ptr(uint32(500))}))
	if err != nil {
		t.Fatal(err)
	}
	pf := pfOf(t, n, rec.ID.PF).PCI
	if err := k.SetLinkSpeed(pf, 1000); err != nil {
		t.Fatal(err)
	}
	if err := n.Engine.Check(t.Context(), rec.Lease.Owner, attach.Request{}); err == nil || !strings.Contains(err.Error(), "max_tx_rate is 0, not 500") {
		t.Error(err)
	}
	if err := n.Reconciler.Pass(t.Context()); !errors.Is(err, vf.ErrUnable) {
		t.Error("at 1 Gb/s it cannot be set, and somebody is told:", err)
	}
	if err := k.SetLinkSpeed(pf, 10000); err != nil {
		t.Fatal(err)
	}
	if err := n.Reconciler.Pass(t.Context()); err != nil {
		t.Error(err)
	}
	if err := n.Engine.Check(t.Context(), rec.Lease.Owner, attach.Request{}); err != nil {
		t.Error(err)
	}
}

// I9: allow bounds the effective rate of the hardware, not the requested one: i40e
// raises a rate below 50 Mb/s.
func TestI9RaisedRateIsBounded(t *testing.T) {
	_, n := nodeOf(t, fake.I40E)
	setAllow(n, &desired.Allow{MaxTxRate: 20})
	asked := limited(vf.Spec{MaxTxRate: ptr(uint32(20))})
	if _, err := n.Engine.Attach(t.Context(), asked); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), "max_tx_rate 50 is not allowed: allow.maxTxRate has 1 to 20") {
		t.Errorf("20 Mb/s, which count as 50: %v", err)
	}
	setAllow(n, &desired.Allow{MaxTxRate: 50})
	if _, err := n.Engine.Attach(t.Context(), asked); err != nil {
		t.Error(err)
	}
}
