package claims

import (
	"fmt"
	"strconv"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/vf"
)

// Fights reports whether a claim on a PF that host.yaml names conflicts with Culvert. mtu is the
// MTU that host.yaml wants, or 0 if it leaves the MTU alone. Any program may configure the
// addresses of a PF, but only Culvert may configure its VFs.
func (c Claim) Fights(mtu int) bool {
	switch c.Setting {
	case MTU:
		return len(c.VFs) > 0 || mtu != 0 && c.Value != strconv.Itoa(mtu)
	case Managed:
		return len(c.VFs) > 0
	case Switch:
		return c.Value != "legacy" // the mode in which Culvert serves VFs
	}
	return true
}

// Harm describes the damage when the other program carries out the claim.
func (c Claim) Harm() string {
	switch c.Setting {
	case Count:
		return "the kernel takes all VFs of a PF before it makes another number, under pods and VMs that have them"
	case VFSettings:
		return "what Culvert set on a VF for its owner is overwritten"
	case Binding:
		if len(c.VFs) > 0 {
			return "a VF has another driver than its owner needs, or is taken from its owner"
		}
		return "a PF that loses its driver loses its VFs"
	case Switch:
		return "the NIC drops its VFs when its switch changes mode"
	case MTU:
		if len(c.VFs) > 0 {
			return "a VF that comes back is not as it was, and has to be reset"
		}
		return "the MTU is set to and fro, and VFs of a larger MTU lose frames"
	}
	if len(c.VFs) > 0 {
		return "free VFs are brought up and get addresses, and must be reset before anybody has them"
	}
	return "when it takes the PF down, the VFs lose their link"
}

// What names the program and the setting that it claims: "NetworkManager sets sriov_numvfs to 8
// (total-vfs=8)".
func (c Claim) What() string {
	object := ""
	if len(c.VFs) > 0 {
		object = " of vf " + vf.Numbers(c.VFs)
	}
	switch {
	case c.Setting == Managed && object != "":
		return fmt.Sprintf("%s manages vf %s (%s)", c.Manager, vf.Numbers(c.VFs), c.Says)
	case c.Setting == Managed:
		return fmt.Sprintf("%s manages it (%s)", c.Manager, c.Says)
	case c.Value == "" || c.Setting == VFSettings:
		return fmt.Sprintf("%s sets %s%s (%s)", c.Manager, c.Setting, object, c.Says)
	}
	return fmt.Sprintf("%s sets %s%s to %s (%s)", c.Manager, c.Setting, object, excerpt.Line(c.Value), c.Says)
}
