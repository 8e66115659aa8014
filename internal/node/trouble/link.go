package trouble

import (
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// JudgeLink returns the trouble of the link of a PF with VFs, and whether it has any.
func JudgeLink(up, carrier, flapping bool) (Trouble, bool) {
	t := Trouble{Begins: reasons.LinkDown, Ends: reasons.LinkUp}
	switch {
	case flapping:
		t.Begins, t.Text = reasons.LinkFlapping, vf.DescribeFlapping()+"; the kubelet gives no VF of it to a pod"
	case !up:
		t.Text = "the PF is down, so its VFs cannot send"
	case !carrier:
		t.Text = "no carrier, so its VFs reach only each other: look at the cable and the switch port"
	default:
		return Trouble{}, false
	}
	return t, true
}
