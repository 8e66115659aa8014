package desired

import (
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

// A pool with a range of VFs selects one of a PF without VFs if the PF gets that many.
func TestSelectsOneOf(t *testing.T) {
	for _, tc := range []struct {
		selectors string
		count     int
		want      bool
	}{
		{`{pfNames: [enp1s0]}`, 0, false},
		{`{pfNames: [enp1s0]}`, 1, true},
		{`{pfNames: [enp2s0]}`, 8, false},
		{`{pfNames: ["enp1s0#4-7"]}`, 4, false},
		{`{pfNames: ["enp1s0#4-7"]}`, 5, true},
		{`{pfNames: ["enp1s0#6,2-3"]}`, 3, true},
		{`{rootDevices: ["0000:01:00.0#2"]}`, 2, false},
		{`{rootDevices: ["0000:01:00.0#2"]}`, 1 << 40, true},
	} {
		spec, err := Parse("host.yaml", []byte("pools: [{name: a, selectors: ["+tc.selectors+"]}]"))
		if err != nil {
			t.Fatal(err)
		}
		pf := vf.PF{Name: "enp1s0", PCI: vf.PCIAddr{Bus: 1}, Driver: "igb"}
		if got := spec.Pools[0].SelectsOneOf(pf, tc.count); got != tc.want {
			t.Errorf("%s, %d VFs: %t", tc.selectors, tc.count, got)
		}
	}
}
