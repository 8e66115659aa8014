package kernel_test

import (
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/inventory"
	"github.com/culvert-net/culvert/internal/vf"
)

// An igb loses its carrier each time that its number of VFs or its MTU changes, and Culvert does
// not count that as flapping.
func TestLabOwnWorkIsNoFlapping(t *testing.T) {
	n := bareNode(t)
	before, pf := n.pfs[0].CarrierLosses, n.pfs[0].PCI
	i := inventory.New(n, nil)
	check := func(when string) {
		pfs, err := i.Refresh(n.context())
		if err != nil || pfs[0].Flapping {
			t.Errorf("%s: flapping, %v", when, err)
		}
		n.pfs = pfs
	}
	check("at first")
	for _, s := range []step.Step{
		step.SetNumVFs{PF: pf, N: perPF}, step.SetPFMTU{PF: pf, MTU: 9000}, step.SetNumVFs{PF: pf}, step.SetNumVFs{PF: pf, N: 4}, step.SetPFMTU{PF: pf, MTU: 1500},
	} {
		n.do(s)
		check("after " + s.String())
		n.do(step.WaitCarrier{PF: pf})
		check("with carrier after " + s.String())
		t.Logf("%d losses after %s", n.pfs[0].CarrierLosses-before, s)
	}
	if lost := n.pfs[0].CarrierLosses - before; lost < vf.FlapLosses {
		t.Errorf("%d losses of carrier: the driver no longer resets the port, and the grace of package inventory is not needed", lost)
	}
}
