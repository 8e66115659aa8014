package status

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

// Settings and interfaces that could not be read are no differences.
func TestUnreadPFShowsNoDifferences(t *testing.T) {
	in := node(t)
	pf := &in.PFs[2]
	pf.Err = "list the VFs: the kernel cut the list off"
	for i := range pf.VFs {
		pf.VFs[i].Admin, pf.VFs[i].Link = vf.Admin{}, nil
	}
	for _, v := range Assemble(in).VFs {
		if v.ID.PF == pf.ID && len(v.Differences) > 0 {
			t.Errorf("%s: %s", v.Name, vf.Differences(v.Differences))
		}
	}
}

// A PF that could not be read, in part or at all, takes no VF from its owner. The NodeState has the
// phase, the pool and the addresses of the ledger, by which Services find a pod. The VF of another
// PF that is not on the bus is missing all the same.
func TestI7UnreadPFKeepsItsOwners(t *testing.T) {
	for what, hide := range map[string]func(pf *vf.PF){
		"in part": func(pf *vf.PF) { pf.VFs, pf.Err = nil, "sriov_numvfs: input/output error" },
		"at all":  func(pf *vf.PF) { *pf = vf.PF{PCI: pf.PCI, Err: "PF 0000:01:00.0: no answer within 5s"} },
	} {
		t.Run(what, func(t *testing.T) {
			in := node(t)
			for i := range in.Records {
				if in.Records[i].Phase == vf.PhaseAttached {
					in.Records[i].Lease.Pool = "intel.com/vfs"
				}
			}
			f0 := &in.PFs[2]
			hidden := f0.ID
			hide(f0)
			n := Assemble(in)
			s := ToNodeState(n)
			hiddenVFs := 0
			for i, v := range n.VFs {
				of := v.ID.PF == hidden
				if v.Unread != of || of && v.Missing || v.Owner != nil && v.Owner.Name == "db1" && !v.Missing {
					t.Errorf("%s is missing %t, unread %t", v.Name, v.Missing, v.Unread)
				}
				if of {
					hiddenVFs++
				}
				if !of || v.Phase != string(vf.PhaseAttached) {
					continue
				}
				if got := s.VFs[i]; got.Phase != v.Phase || got.Pool != "intel.com/vfs" || len(got.Addresses) != 1 || got.Owner == nil {
					t.Errorf("the NodeState has %+v", got)
				}
			}
			for _, p := range n.Problems {
				if strings.Contains(p.Reason, "not on the bus") && !strings.Contains(p.Reason, "db1") {
					t.Errorf("%+v", p)
				}
			}
			if hiddenVFs != 7 {
				t.Errorf("%d VFs of the PF are told, not 7", hiddenVFs)
			}
			for _, pf := range n.PFs {
				if pf.Err != "" && pf.VFs.Free > 0 {
					t.Errorf("PF %s has %+v, and nobody can have one", pf.Name, pf.VFs)
				}
			}
		})
	}
}
