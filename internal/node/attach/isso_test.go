package attach_test

import (
	"errors"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/vf"
)

// P13: a request for what the VF has already is served, even where the driver has no call that sets
// it. A request for anything else is refused before the VF is touched.
func TestP13AskingForWhatIsSo(t *testing.T) {
	on, off, auto, enable := ptr(true), ptr(false), ptr(vf.LinkAuto), ptr(vf.LinkEnable)
	for _, tt := range []struct {
		nic        fake.Profile
		isSo, isNo vf.Spec
	}{
		{fake.MLX5Switchdev, vf.Spec{VLAN: &vf.VLAN{}}, vf.Spec{VLAN: &vf.VLAN{ID: 5}}},
		{fake.CXGB4, vf.Spec{Trust: off, SpoofChk: off}, vf.Spec{Trust: on}},
		{fake.CXGB4, vf.Spec{SpoofChk: off}, vf.Spec{SpoofChk: on}},
		{fake.IGB, vf.Spec{LinkState: auto}, vf.Spec{LinkState: enable}},
		{fake.BNX2X, vf.Spec{MaxTxRate: ptr(uint32(10000))}, vf.Spec{MaxTxRate: ptr(uint32(1000))}},
	} {
		k, n := nodeOf(t, tt.nic)
		before := k.String()
		if _, err := n.Engine.Attach(t.Context(), limited(tt.isNo)); !errors.Is(err, vf.ErrUnable) || k.String() != before {
			t.Errorf("%s: what it cannot set: %v\n%s", tt.nic.Driver, err, k)
		}
		rec, err := n.Engine.Attach(t.Context(), limited(tt.isSo))
		if err != nil {
			t.Errorf("%s: what is so: %v", tt.nic.Driver, err)
			continue
		}
		if err := n.Engine.Check(t.Context(), rec.Lease.Owner, limited(tt.isSo)); err != nil {
			t.Errorf("%s: CHECK: %v", tt.nic.Driver, err)
		}
		if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil || k.String() != before {
			t.Errorf("%s: detached: %v\n%s", tt.nic.Driver, err, k)
		}
	}
}
