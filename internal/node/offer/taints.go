package offer

import (
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// Taint keeps pods from a device that do not tolerate it. Its JSON is that of a DeviceTaint
// (k8s.io/api/resource/v1).
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
	// TimeAdded is when the PF got the problem, as far as this culvertd has seen. A toleration may count
	// seconds from it.
	TimeAdded time.Time `json:"timeAdded"`
}

// Keys of taints. The value of TaintLink is "flapping" or "down", that of TaintErrors names the kinds of
// errors (vf.Fault), joined by a full stop.
const (
	TaintLink   = claim.Driver + "/link"
	TaintErrors = claim.Driver + "/errors"
)

// findTaints returns the taints of a VF by the health of its PF (docs/design/0028). A taint that the device
// had before keeps its time.
func findTaints(pf vf.PF, pool desired.Pool, before []Taint, now time.Time) (out []Taint) {
	add := func(key, value string) {
		t := Taint{Key: key, Value: value, Effect: pool.FaultTaint.String(), TimeAdded: now.UTC().Truncate(time.Second)}
		if i := slices.IndexFunc(before, func(o Taint) bool { return o.Key == key }); i >= 0 {
			t.TimeAdded = before[i].TimeAdded
		}
		out = append(out, t)
	}
	switch {
	case pf.LinkProblem() == "":
	case pf.Flapping:
		add(TaintLink, "flapping")
	default:
		add(TaintLink, "down")
	}
	if len(pf.Faults) > 0 {
		var kinds []string
		for _, f := range pf.Faults {
			kinds = append(kinds, string(f))
		}
		add(TaintErrors, strings.Join(kinds, "."))
	}
	return out
}
