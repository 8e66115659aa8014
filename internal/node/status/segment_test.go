package status

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/vf"
)

const twoSegments = `pfs:
- {name: enp1s0f0, vfs: 2, segment: storage}
- {name: enp1s0f1, vfs: 2, segment: front}
pools:
- {name: fast}
`

// The status and the NodeState have the segments, and a pool over two of them is a problem.
func TestSegments(t *testing.T) {
	st := Assemble(Input{Now: now, Spec: spec(t, twoSegments), PFs: []vf.PF{igb(0, 2), igb(1, 2)}})
	if st.PFs[0].Segment != "storage" || st.PFs[1].Segment != "front" {
		t.Errorf("%+v", st.PFs)
	}
	missing := igb(1, 2)
	missing.VFs = nil
	for _, tt := range []struct {
		pf  vf.PF
		why string
	}{
		{igb(1, 2), "it gives out no VF: it has"},
		{missing, "it may give out no VF once all wanted VFs are made: it would have"},
	} {
		var found []api.Problem
		for _, p := range Assemble(Input{Now: now, Spec: spec(t, twoSegments), PFs: []vf.PF{igb(0, 2), tt.pf}}).Problems {
			if p.Object == "pool culvert.dev/fast" {
				found = append(found, p)
			}
		}
		want := tt.why + " VFs on two segments, whose pods do not reach each other: front (enp1s0f1) and storage (enp1s0f0)"
		if len(found) != 1 || found[0].Reason != want || !strings.HasPrefix(found[0].Next, "give each segment a pool") {
			t.Errorf("%+v\nwant %s", found, want)
		}
	}
	state := ToNodeState(st)
	if state.PFs[0].Segment != "storage" {
		t.Errorf("%+v", state.PFs)
	}
	back := FromNodeState(v1alpha1.NodeState{Status: state}, now)
	if back.PFs[1].Segment != "front" {
		t.Errorf("%+v", back.PFs)
	}
}

// The plan of a host.yaml shows the segments that it changes and the pools that it puts on two.
func TestPlanOfSegments(t *testing.T) {
	pf := igb(0, 2)
	before, after := spec(t, strings.ReplaceAll(twoSegments, "front", "storage")), spec(t, twoSegments)
	other := igb(1, 2)
	plan := func(pf vf.PF) reconcile.PFPlan {
		want, _ := after.ForPF(pf)
		return reconcile.PFPlan{PF: pf, Managed: true, Want: want}
	}
	got := Plan(before, after, []reconcile.PFPlan{plan(pf), plan(other)}, nil)
	if len(got.PFs) != 1 || len(got.PFs[0].Changes) != 1 || got.PFs[0].Changes[0] != (api.Change{Op: api.Modify, Attribute: "segment", From: "storage", To: "front"}) {
		t.Errorf("%+v", got.PFs)
	}
	if len(got.Notes) != 1 || !strings.HasPrefix(got.Notes[0], "host.yaml:5: pool culvert.dev/fast would give out no VF: it would have VFs on two segments") {
		t.Errorf("%q", got.Notes)
	}
}
