package offer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// A problem of a PF is a taint of its VFs, also of those that claims hold, with the effect that the pool
// wants. It keeps its time while it lasts.
func TestTaints(t *testing.T) {
	healthy := func(*vf.PF) {}
	for _, tt := range []struct {
		name, want string
		sick       func(*vf.PF)
	}{
		{"healthy", "[]", healthy},
		{"no link", "[{culvert.dev/link down NoSchedule}]", func(pf *vf.PF) { pf.Carrier = false }},
		{"down", "[{culvert.dev/link down NoSchedule}]", func(pf *vf.PF) { pf.Up = false }},
		{"flapping", "[{culvert.dev/link flapping NoSchedule}]", func(pf *vf.PF) { pf.Flapping = true }},
		{"errors", "[{culvert.dev/errors PCIe.TransmitQueue NoSchedule}]", func(pf *vf.PF) { pf.Faults = vf.Faults() }},
		{"both", "[{culvert.dev/link flapping NoSchedule} {culvert.dev/errors PCIe NoSchedule}]", func(pf *vf.PF) { pf.Flapping, pf.Faults = true, []vf.Fault{vf.FaultPCIe} }},
	} {
		for _, effect := range []string{"", "NoExecute"} {
			host, want := hostYAML, tt.want
			if effect != "" {
				host, want = strings.Replace(host, "offer: claims", "offer: claims, faultTaint: "+effect, 1), strings.ReplaceAll(want, "NoSchedule", effect)
			}
			pf := newPF(2)
			tt.sick(&pf)
			view := viewOf(parse(t, host), &pf)
			view.VFs[1].IsFree, view.VFs[1].IsClaimed, view.VFs[1].ClaimPool = false, true, "example.com/fast"
			first := mustPools(t, view, nil)
			later, err := Pools("node1", view, first, time.Unix(9000, 0))
			if err != nil || asJSON(t, later) != asJSON(t, first) {
				t.Errorf("%s: later %s, at first %s, %v", tt.name, asJSON(t, later), asJSON(t, first), err)
			}
			if len(first[0].Slices[0]) != 2 {
				t.Fatalf("%s: %q", tt.name, describe(first))
			}
			for _, d := range first[0].Slices[0] {
				got := []string{}
				for _, taint := range d.Taints {
					got = append(got, fmt.Sprintf("{%s %s %s}", taint.Key, taint.Value, taint.Effect))
					if taint.TimeAdded.Unix() != 1000 {
						t.Errorf("%s: since %s", tt.name, taint.TimeAdded)
					}
				}
				if fmt.Sprint(got) != want {
					t.Errorf("%s: device %s: %s, want %s", tt.name, d.Name, got, want)
				}
			}
		}
	}
}

// While a link flaps, the attributes of its VFs do not change with it.
func TestFlappingChangesNoAttribute(t *testing.T) {
	pf := newPF(1)
	pf.Flapping = true
	off := pf
	off.Carrier, off.SpeedMbps = false, -1
	spec := parse(t, hostYAML)
	if on, off := asJSON(t, Attributes(spec, pf, pf.VFs[0])), asJSON(t, Attributes(spec, off, pf.VFs[0])); on != off {
		t.Errorf("%s with carrier, %s without", on, off)
	}
}
