//go:build kubernetes

package kubernetes

import (
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/test/soak"
)

// oneSegment is a node whose PFs are joined, as R2's by its cable.
var oneSegment = &site{names: []string{"worker01"}, install: twoNodes.install, policy: labPolicy, joined: true}

// sharedPool has the addresses of both networks of twoPFs. A node that has given some out keeps it.
const sharedPool = `apiVersion: culvert.dev/v1alpha1
kind: AddressPool
metadata: {name: cable}
spec: {subnets: [{cidr: 10.97.0.0/16}]}
`

// twoPFs has a network for each PF.
const twoPFs = `apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: left, annotations: {k8s.v1.cni.cncf.io/resourceName: ` + intel + `}}
spec:
  config: '{"cniVersion": "1.0.0", "name": "left", "type": "culvert", "ipam": {"type": "culvert", "addressPool": "cable"}}'
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: right, annotations: {k8s.v1.cni.cncf.io/resourceName: ` + chelsio + `}}
spec:
  config: '{"cniVersion": "1.0.0", "name": "right", "type": "culvert", "ipam": {"type": "culvert", "addressPool": "cable"}}'
`

// M7 in a cluster: two networks of one pool give the pods VFs of different PFs, as in R2.
func TestBenchBetweenTwoPFs(t *testing.T) {
	soak.Only(t, "a cluster of its own, and measurements between pods")
	need(t, oneSegment)
	offered(t, intel, "7")
	offered(t, chelsio, "7")
	feed(t, sharedPool, "apply", "-f", "-")
	apply(t, twoPFs)
	r := benchRun(t, "m7", "--nodes", "worker01", "--network", "left", "--network", "right")
	if len(r.Arms) != 1 || r.Arms[0].Path.Place != "other PF" || r.Arms[0].Path.From.PF == r.Arms[0].Path.To.PF {
		t.Errorf("arms %+v", r.Arms)
	}
	expectCounted(t, r, func(p bench.Path) bool { return p.Network == "VF" && p.Ends == "pod-pod" })
	allFree(t, allVFs/2)
}
