package pod

import (
	"context"
	"fmt"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// A bond gets the pod's devices of different PFs, as far as there are such. Other networks get the
// rest in the kubelet's order.
func TestDevicesOfABond(t *testing.T) {
	at := func(bus, function uint8) vf.PCIAddr { return vf.PCIAddr{Bus: bus, Device: 0x10, Function: function} }
	findPF := func(a vf.PCIAddr) vf.PFID { return vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, a.Bus}} }
	for name, tt := range map[string]struct {
		given []vf.PCIAddr
		asks  []int
		want  string
	}{
		"one network":                   {[]vf.PCIAddr{at(2, 0), at(1, 0)}, []int{1, 1}, "[[0000:02:10.0] [0000:01:10.0]]"},
		"a bond":                        {[]vf.PCIAddr{at(1, 0), at(2, 0)}, []int{2}, "[[0000:01:10.0 0000:02:10.0]]"},
		"a bond, and two of one PF":     {[]vf.PCIAddr{at(1, 0), at(1, 1), at(2, 0)}, []int{2, 1}, "[[0000:01:10.0 0000:02:10.0] [0000:01:10.1]]"},
		"two bonds":                     {[]vf.PCIAddr{at(1, 0), at(1, 1), at(2, 0), at(2, 1)}, []int{2, 2}, "[[0000:01:10.0 0000:02:10.0] [0000:01:10.1 0000:02:10.1]]"},
		"one PF: the attach says no":    {[]vf.PCIAddr{at(1, 0), at(1, 1)}, []int{2}, "[[0000:01:10.0 0000:01:10.1]]"},
		"fewer than the bond has links": {[]vf.PCIAddr{at(1, 0)}, []int{2}, "a device of resource x/a: not found: the kubelet gave pod default/p 1 of them: request 2 in the pod's resources (the webhook does so for new pods)"},
		"a network before, and too few": {[]vf.PCIAddr{at(1, 0), at(2, 0)}, []int{1, 2}, "a device of resource x/a: not found: the kubelet gave pod default/p 2 of them: request 3 in the pod's resources (the webhook does so for new pods)"},
	} {
		d := devices{
			pod: api.Pod{Namespace: "default", Name: "p"}, left: map[string][]string{}, had: map[string]int{},
			ask: func(context.Context, string, string, string) (ids []string, err error) {
				for _, a := range tt.given {
					ids = append(ids, a.String())
				}
				return ids, nil
			},
		}
		var got [][]vf.PCIAddr
		var err error
		for _, n := range tt.asks {
			var one []vf.PCIAddr
			if one, err = d.nextVFs(t.Context(), "x/a", n, findPF); err != nil {
				break
			}
			got = append(got, one)
		}
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if text != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", name, text, tt.want)
		}
	}
}
