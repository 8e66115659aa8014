package claims

import (
	"fmt"
	"strconv"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/vf"
)

// Conflicts reports whether a claim on a PF that host.yaml names is for a setting that is Culvert's. mtu is the
// MTU that host.yaml wants, or 0 if it leaves the MTU alone. Any program may configure the
// addresses of a PF, but only Culvert may configure its VFs.
func (c Claim) Conflicts(mtu int) bool {
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

// Consequence describes what happens when the other program carries out the claim.
func (c Claim) Consequence() string {
	switch c.Setting {
	case Count:
		return "the kernel removes all VFs of a PF before it makes another number of them, also those of pods and VMs"
	case VFSettings:
		return "what Culvert set on a VF for its owner is overwritten"
	case Binding:
		if len(c.VFs) > 0 {
			return "the VF gets another driver than its owner needs, or leaves its owner"
		}
		return "a PF that loses its driver loses its VFs"
	case Switch:
		return "the NIC drops its VFs when its switch changes mode"
	case MTU:
		if len(c.VFs) > 0 {
			return "the VF differs from its baseline, and Culvert must reset it"
		}
		return "both programs set the MTU in turn, and VFs with a larger MTU lose frames"
	}
	if len(c.VFs) > 0 {
		return "it brings free VFs up and gives them addresses, and Culvert must reset them before they get an owner"
	}
	return "when it takes the PF down, the VFs lose their link"
}

// Describe names the program and the setting that it claims: "NetworkManager sets sriov_numvfs to 8
// (total-vfs=8)".
func (c Claim) Describe() string {
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
