package desired

import (
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/vf"
)

// ChangesMTU reports whether culvertd sets the MTU of a PF: s wants another one, and the PF has no
// master that sets it. culvertd leaves the MTU of a bond or team of the host to the administrator,
// because other ports and the host's own traffic depend on it.
func (s PFSpec) ChangesMTU(pf vf.PF) bool {
	return s.MTU != 0 && s.MTU != pf.MTU && !pf.Master.SetsMTU()
}

// MTUOfVF returns the MTU that s wants of a VF of pf while it is free; 0 leaves it alone. If
// culvertd does not set the PF's MTU, no VF gets a larger one: a bond or team of the host sets it,
// or s leaves the PF alone.
func (s Spec) MTUOfVF(pf vf.PF, index int, v vf.State) int {
	want, managed := s.ForPF(pf)
	mtu := want.VFMTU
	if pool, ok := s.PoolOf(pf, index, v); ok && pool.MTU != 0 {
		mtu = pool.MTU
	}
	if !managed || pf.Master.SetsMTU() {
		return min(mtu, pf.MTU)
	}
	return mtu
}

// raiseMTU returns want with the MTU that the pools need of pf. A PF that has a larger one keeps it,
// unless want names one.
func (s Spec) raiseMTU(want PFSpec, pf vf.PF) PFSpec {
	want.VFMTU = want.MTU
	least := s.largestPoolMTU(pf, want.VFs)
	if want.MTU != 0 || least > pf.MTU {
		want.MTU = max(want.MTU, least)
	}
	return want
}

// largestPoolMTU returns the largest MTU of the pools that have one of the first count VFs of pf, 0
// if these have none.
func (s Spec) largestPoolMTU(pf vf.PF, count int) (mtu int) {
	if !slices.ContainsFunc(s.Pools, func(p Pool) bool { return p.MTU != 0 }) {
		return 0
	}
	states := make(map[int]vf.State, len(pf.VFs))
	for _, v := range pf.VFs {
		states[v.ID.Index] = v
	}
	for i := range min(count, pf.TotalVFs) {
		if p, ok := s.PoolOf(pf, i, states[i]); ok {
			mtu = max(mtu, p.MTU)
		}
	}
	return mtu
}

// OtherMTU describes the difference between the wanted MTU and the one that a bond or team of the
// host gives the PF, and the next step. ok is false if there is no such difference.
func (s PFSpec) OtherMTU(pf vf.PF) (reason, next string, ok bool) {
	if s.MTU == 0 || s.MTU == pf.MTU || !pf.Master.SetsMTU() {
		return "", "", false
	}
	return fmt.Sprintf("MTU %d wanted (%s), it is %d, as %s of the host sets it for its members", s.MTU, s.From, pf.MTU, pf.Master.Name),
		fmt.Sprintf("%s, and the same where %s is configured; culvertd leaves it alone", pf.Master.MTUCommand(s.MTU), pf.Master.Name), true
}
