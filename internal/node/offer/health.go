package offer

import (
	"strings"

	"github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/vf"
)

// Health is the health of a device.
type Health struct {
	Pool, Device string // as in a ResourceSlice
	Problem      string // empty: it is healthy
}

// FindHealth returns the health of all devices of a view, those that claims hold among them. It leaves out
// devices whose PF cannot be read: their health is not known.
func FindHealth(node string, view View) (out []Health) {
	for _, v := range view.VFs {
		pool, err := claim.PoolName(node, v.State.ID.PF)
		if v.PF == nil || v.PF.Err != "" || err != nil {
			continue
		}
		out = append(out, Health{pool, claim.DeviceName(v.State.ID.Index), v.findProblem()})
	}
	return out
}

func (v VF) findProblem() string {
	var all []string
	for _, text := range []string{v.PF.LinkProblem(), v.Problem, describeFaults(*v.PF)} {
		if text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}

func describeFaults(pf vf.PF) string {
	if len(pf.Faults) == 0 {
		return ""
	}
	var all []string
	for _, f := range pf.Faults {
		all = append(all, f.Describe())
	}
	return "PF " + pf.Label() + " " + strings.Join(all, " and ")
}
