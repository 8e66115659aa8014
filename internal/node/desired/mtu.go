package desired

import (
	"fmt"

	"github.com/culvert-net/culvert/internal/vf"
)

// ChangesMTU reports whether culvertd sets the MTU of a PF: s wants another one, and the PF has no
// master that sets it. culvertd leaves the MTU of a bond or team of the host to the administrator,
// because other ports and the host's own traffic depend on it.
func (s PFSpec) ChangesMTU(pf vf.PF) bool {
	return s.MTU != 0 && s.MTU != pf.MTU && !pf.Master.SetsMTU()
}

// MTUOfVFs returns the MTU that s wants of the PF's free VFs; 0 leaves it alone. If a bond or team
// of the host sets the PF's MTU, no VF gets a larger one.
func (s PFSpec) MTUOfVFs(pf vf.PF) int {
	if pf.Master.SetsMTU() {
		return min(s.MTU, pf.MTU)
	}
	return s.MTU
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
