package doctor

import (
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/screen"
)

// mostPools bounds the pools that checkPools names.
const mostPools = 6

// checkPools warns of pools of a node of Kubernetes that serve any request: there the authors of
// networks, who may be tenants, choose VLAN and trust. It asks only a culvertd of its own version:
// an earlier one does not say which pools have an allow. A doctor in culvertd's pod sees no kubelet,
// but a cluster.
func checkPools(e *examination) {
	if e.Status == nil || e.Status.Version != e.Version || !e.hasKubelet() && e.Cluster == nil {
		return
	}
	var open []string
	served := 0
	for _, p := range e.Status.Pools {
		if p.Unserved != "" {
			continue
		}
		if served++; !p.Bounded {
			open = append(open, p.Name)
		}
	}
	switch {
	case served == 0:
	case len(open) == 0:
		e.addOK("pools", "pools", "all have an allow, which bounds what networks may request")
	default:
		slices.Sort(open)
		e.addFinding(finding{check: "pools", severity: api.SeverityWarning, object: "pools",
			why: "each author of a network, in any namespace, chooses its VLAN, and may set trust on and spoofchk off",
			mend: []string{"kubectl edit nodepolicies    # an allow for each of them in spec.pools: docs/kubernetes.md",
				"editor " + desired.DefaultPath + "    # for pools of that file: the same key"}},
			"%s without allow: %s", screen.Plural(len(open), "pool"), nameFirst(open, mostPools))
	}
}
