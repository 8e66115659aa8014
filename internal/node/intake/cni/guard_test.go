package cni

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// A bond may have a guard, but not in a mode in which the kernel itself sends frames that the guard
// drops.
func TestGuardOfABond(t *testing.T) {
	for keys, want := range map[string]string{
		`"guard":"ip","bond":{}`:                                   "",
		`"guard":"ip","bond":{"mode":"balance-xor","force":true}`:  "",
		`"guard":"arp","bond":{"mode":"802.3ad","force":true}`:     "",
		`"guard":"ip","bond":{"mode":"802.3ad","force":true}`:      "guard ip: drops the LACP frames of a bond in mode 802.3ad: want guard arp, or mode active-backup",
		`"guard":"arp","bond":{"mode":"balance-alb","force":true}`: "guard arp: does not work with a bond in mode balance-alb",
		`"guard":"ip","bond":{"mode":"balance-tlb","force":true}`:  "guard ip: does not work with a bond in mode balance-tlb",
	} {
		c, err := ParseConfig([]byte(strict(keys + `,"ipam":{"type":"host-local","subnet":"10.0.0.0/24"}`)))
		if want == "" && (err != nil || c.Spec.Guard == "" || c.Bond == nil) {
			t.Errorf("%s: guard %q, bond %v, %v", keys, c.Spec.Guard, c.Bond, err)
		}
		if want != "" && (!errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", keys, err, want)
		}
	}
}

// The key guard is read strictly in a network of type sriov, too. It needs an ipam section that
// gives addresses before the pod sends.
func TestGuardKey(t *testing.T) {
	const own = `"ipam":{"type":"host-local","subnet":"10.0.0.0/24"}`
	for _, with := range []func(string) string{with, strict} {
		for keys, want := range map[string]string{
			`"guard":"arp",` + own: "",
			`"guard":"ip",` + own:  "",
			`"guard":"ip","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}`: "",
			`"guard":"mac",` + own:                `guard: "mac": want arp or ip`,
			`"guard":true,` + own:                 `guard true: want`,
			`"guard":"ip"`:                        `guard ip: needs an ipam section`,
			`"guard":"ip","ipam":{}`:              `guard ip: needs an ipam section`,
			`"guard":"ip","ipam":{"type":"dhcp"}`: `guard ip: does not work with ipam of type dhcp`,
		} {
			c, err := ParseConfig([]byte(with(keys)))
			if want == "" && (err != nil || c.Spec.Guard == "") {
				t.Errorf("%s: guard %q, %v", keys, c.Spec.Guard, err)
			}
			if want != "" && (!errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %s", keys, err, want)
			}
		}
	}
}

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
		if err := h.askPower(t.Context(), r, &attach.Request{}); err != nil || cluster.asked > 0 {
			t.Errorf("a request without a guard asks %d times, %v", cluster.asked, err)
		}
		if _, err := h.Run(t.Context(), r, nil); err != nil {
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
