package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
)

// I10: a node can have blocks of any range in a pool that no object defines. It brings them into
// the pool of a network by no former pool that it makes up: only the CNI name in the network's
// NetworkAttachmentDefinition counts.
func TestI10FormerPoolIsTheDefinitions(t *testing.T) {
	ranges := []ipam.Run{run("172.16.91.2", "172.16.91.254")}
	for _, former := range []string{"made-up", "whereabouts:", "pool:storage", "blue/n"} {
		storage, blue := declaredPool("storage", "172.16.91.0/24"), networkWith(t, "blue", `{"type": "host-local", "subnet": "172.16.91.0/24"}`)
		hostile := asking("a", 0)
		hostile.Status.AddressRequests = blocks.ToObject([]blocks.Request{
			{Network: former, Ranges: ranges, Used: 240}, {Network: "red/n", FormerPool: former, Ranges: []ipam.Run{run("172.16.91.240", "172.16.91.254")}, Used: 1},
		})
		other := requesting("b", ranges)
		c := newCluster(newNode("a", nil), newNode("b", nil), hostile, other, storage, blue, networkWith(t, "red", `{"type": "host-local", "subnet": "172.16.91.0/24"}`))
		a := addresses(c, time.Now())
		lookAt(t, a, former)
		lookAt(t, a, "red/n")
		if diff := cmp.Diff([]string{"b 172.16.91.2-172.16.91.17", "a 172.16.91.240-172.16.91.241"}, show(getPool(t, c, v1alpha1.AddressPoolName("red/n")))); diff != "" {
			t.Errorf("I10: by the pool %q (-want +got):\n%s", former, diff)
		}
	}
}

// I10: so it is while the node asks for nothing.
func TestI10FormerPoolWithoutARequest(t *testing.T) {
	hostile := asking("a", 0)
	hostile.Status.AddressRequests = blocks.ToObject([]blocks.Request{{Network: "red/n", FormerPool: "made-up"}})
	madeUp := &v1alpha1.AddressPool{Spec: v1alpha1.AddressPoolSpec{Network: "made-up", Blocks: []v1alpha1.AddressBlock{{Node: "a", NodeUID: "uid-a", First: "172.16.91.2", Last: "172.16.91.254"}}}}
	madeUp.Name = "made-up"
	red := &v1alpha1.AddressPool{Spec: v1alpha1.AddressPoolSpec{Network: "red/n"}}
	red.Name = v1alpha1.AddressPoolName("red/n")
	c := newCluster(newNode("a", nil), hostile, madeUp, red, networkWith(t, "red", `{"type": "host-local", "subnet": "172.16.91.0/24"}`))
	lookAt(t, addresses(c, time.Now()), "red/n")
	if got := show(getPool(t, c, red.Name)); len(got) > 0 {
		t.Errorf("I10: red/n has %v", got)
	}
}
