package cni

import (
	"context"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// powerEngine remembers the power of the last request.
type powerEngine struct {
	*memory
	power vf.Power
}

func (p *powerEngine) Attach(ctx context.Context, req attach.Request) (journal.Record, error) {
	p.power = req.Power
	return p.memory.Attach(ctx, req)
}

func (p *powerEngine) AttachBond(ctx context.Context, req attach.Request) (attach.Bonded, error) {
	p.power = req.Power
	return p.memory.AttachBond(ctx, req)
}

// powerCluster is a cluster whose pods have a power.
type powerCluster struct {
	events
	asked int
	power vf.Power
}

func (c *powerCluster) Pod(_ context.Context, namespace, name, uid string) (api.Pod, error) {
	c.asked++
	return api.Pod{Namespace: namespace, Name: name, UID: uid, Power: c.power}, nil
}

// The power of a pod's containers reaches the lease where the network has a guard, and no other
// attach waits for the pod.
func TestPowerOfAGuardedPod(t *testing.T) {
	const kubernetes = "IgnoreUnknown=true;K8S_POD_NAMESPACE=d;K8S_POD_NAME=p;K8S_POD_UID=u1"
	for _, tt := range []struct {
		guard, args string
		power, want vf.Power
		asked       int
		rdma        bool // the VF has an RDMA device
		event       string
	}{
		{`"guard":"ip",`, kubernetes, vf.PowerNone, vf.PowerNone, 1, false, ""},
		{`"guard":"ip",`, kubernetes, vf.PowerRaw, vf.PowerRaw, 1, false, "u1 GuardNotEnforced network net: guard ip is partly enforced: a container of the pod has NET_RAW"},
		{`"guard":"arp",`, kubernetes, vf.PowerAdmin, vf.PowerAdmin, 1, false, "u1 GuardNotEnforced network net: guard arp is not enforced: "},
		{`"guard":"ip",`, kubernetes, vf.PowerNone, vf.PowerNone, 1, true, "u1 GuardNotEnforced network net: guard ip is partly enforced: the VF has an RDMA device"},
		{`"guard":"ip","bond":{},`, kubernetes, vf.PowerNone, vf.PowerNone, 1, false, ""},
		{`"guard":"ip","bond":{},`, kubernetes, vf.PowerAdmin, vf.PowerAdmin, 1, false, "u1 GuardNotEnforced network net: guard ip is not enforced: "},
		{`"guard":"ip","bond":{},`, kubernetes, vf.PowerNone, vf.PowerNone, 1, true, "u1 GuardNotEnforced network net: guard ip is partly enforced: the VF has an RDMA device"},
		{`"guard":"ip",`, "", vf.PowerRaw, "", 0, false, ""},
		{``, kubernetes, vf.PowerRaw, "", 0, false, ""},
	} {
		e, cluster := &powerEngine{memory: newMemory(1)}, &powerCluster{power: tt.power}
		if tt.rdma {
			e.rdma = []vf.PCIAddr{{Bus: 1, Device: 0x10}}
		}
		h := New(partsOf(e))
		h.Cluster = cluster
		r := invocation(cmdAdd, strict(tt.guard+pool))
		r.Args = tt.args
		if err := h.askPower(t.Context(), callOf(r), &attach.Request{}); err != nil || cluster.asked > 0 {
			t.Errorf("a request without a guard asks %d times, %v", cluster.asked, err)
		}
		if _, err := h.Run(t.Context(), callOf(r), nil); err != nil {
			t.Fatal(err)
		}
		if e.power != tt.want || cluster.asked < tt.asked {
			t.Errorf("%s %s: power %q, not %q; the pod was asked for %d times", tt.guard, tt.args, e.power, tt.want, cluster.asked)
		}
		if got := strings.Join(cluster.texts, "\n"); (got == "") != (tt.event == "") || !strings.HasPrefix(got, tt.event) {
			t.Errorf("%s %s: events %q, not %q", tt.guard, tt.args, got, tt.event)
		}
	}
}
