package status

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// A prepared VF belongs to its claim, and counts as used. An attached one belongs to the pod, and shows
// the claim. A program that uses a prepared VF may be the claim's pod, so it is no use outside Culvert.
func TestVFOfAClaim(t *testing.T) {
	pf := igb(0, 2)
	claim := journal.Claim{UID: "u", Namespace: "d", Name: "c", Request: "vf", Pods: []journal.ClaimPod{{Name: "a", UID: "p"}}, Since: now}
	prepared, attached := free(pf.VFs[0]), free(pf.VFs[1])
	prepared.Phase, prepared.Claim = vf.PhasePrepared, &claim
	attached.Phase, attached.Claim, attached.Lease.Owner = vf.PhaseAttached, &claim, vf.Owner{Kind: vf.OwnerPod, UID: "s", Name: "d/a", Interface: "net1"}
	pf.VFs[0].Admin.VLAN.ID = 7
	st := Assemble(Input{
		Now: now, Spec: spec(t, hostYAML), PFs: []vf.PF{pf}, Records: []journal.Record{prepared, attached},
		Uses: map[vf.PCIAddr]vf.Use{prepared.PCI: {By: vf.Process{PID: 7, Name: "dpdk"}}},
	})
	want := api.Claim{Name: "d/c", UID: "u", Request: "vf", Pods: []string{"d/a"}, Since: now}
	for i, owner := range []string{"claim d/c", "pod d/a"} {
		v := st.VFs[i]
		if d := cmp.Diff(&want, v.Claim); d != "" || v.Owner == nil || v.Owner.String() != owner || v.UsedBy != "" {
			t.Errorf("VF %d: owner %v, used by %q\n%s", i, v.Owner, v.UsedBy, d)
		}
		if s, counts := StateOf(v); s != Used || !counts {
			t.Errorf("VF %d is %s", i, s)
		}
	}
	if v := st.VFs[0]; v.Phase != "prepared" || len(v.Differences) == 0 {
		t.Errorf("the prepared VF: %s, %v", v.Phase, v.Differences)
	}
	problem := ""
	for _, p := range st.Problems {
		problem += p.Reason + "\n"
	}
	if !strings.Contains(problem, "is prepared, but") {
		t.Errorf("problems: %s", problem)
	}
}
