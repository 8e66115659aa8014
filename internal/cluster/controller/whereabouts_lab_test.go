//go:build lab

package controller

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/test/apiserver"
)

// I4, I9, I10, on a real API server, with a node's token: whereabouts has gone. An attacker that has
// taken over a node requests all that it can think of. It gets no address of a pod that runs,
// none that no network declares, none of a network without the consent of the pool's owner, and of
// the network of a file one share. The controller's own rights are enough.
func TestI10WhereaboutsGoesAndANodeIsTakenOver(t *testing.T) {
	r := newRealCluster(t)
	hostile := connect(t, r.withToken(t, "culvertd", "n1"))
	for _, namespace := range []string{"red", "tenant"} {
		o := definitionOf("", namespace, "")
		o.SetAPIVersion("v1")
		o.SetKind("Namespace")
		createObject(t, r.admin, o)
	}
	for _, d := range []client.Object{
		definedAs(t, "red/w", whereaboutsOf("sriov", "10.5.0.0/28", ""), 0),
		definedAs(t, "red/blue", whereaboutsOf("sriov", "10.6.0.0/29", `, "network_name": "blue"`), 0),
		definedAs(t, "tenant/blue", whereaboutsOf("sriov", "10.7.0.0/24", `, "network_name": "blue"`), 0), // of the same second, perhaps
	} {
		apiserver.Eventually(t, "the network", func() error {
			return client.IgnoreAlreadyExists(r.admin.Create(t.Context(), d.DeepCopyObject().(client.Object)))
		})
	}
	old := runningPod("red", "from-before", "n2")
	old.Annotations = map[string]string{netannotation.Networks: "w", netannotation.Status: `[{"name":"red/w","interface":"net1","ips":["10.5.0.1"]}]`}
	createObject(t, r.admin, old)
	serveController(t, Config{Kube: asController(r.config), Metrics: "0"})

	requests := []blocks.Request{
		{Network: "whereabouts:", Ranges: []ipam.Run{run("10.5.0.1", "10.5.0.14")}, Used: 14},
		{Network: "whereabouts:", Ranges: []ipam.Run{run("10.0.0.0", "10.255.255.255")}, Used: 1 << 20},
		{Network: "whereabouts:blue", Ranges: []ipam.Run{run("10.7.0.1", "10.7.0.254")}, Used: 250},
		{Network: "whereabouts:blue", Ranges: []ipam.Run{run("10.6.0.1", "10.6.0.6")}},
		{Network: "whereabouts:made-up", Ranges: []ipam.Run{run("10.9.0.1", "10.9.0.254")}, Used: 250},
		{Network: "red/w", Ranges: []ipam.Run{run("10.5.0.1", "10.5.0.14")}, Used: 14},
	}
	for i := range 64 {
		requests = append(requests, blocks.Request{Network: "file", Ranges: []ipam.Run{run(fmt.Sprintf("10.1.%d.0", 4*i), fmt.Sprintf("10.1.%d.255", 4*i+3))}, Used: 1 << 20})
	}
	state := &v1alpha1.NodeState{}
	state.Name = "n1"
	state.Status.AddressRequests = blocks.ToObject(requests)
	apiserver.Eventually(t, "its NodeState", func() error { return client.IgnoreAlreadyExists(hostile.Create(t.Context(), state.DeepCopy())) })
	pool := func(id string) *v1alpha1.AddressPool {
		o := &v1alpha1.AddressPool{}
		_ = r.admin.Get(t.Context(), client.ObjectKey{Name: v1alpha1.AddressPoolName(id)}, o)
		return o
	}
	apiserver.Eventually(t, "the controller has answered every request that it grants", func() error {
		answerRoll(t, r.admin)
		for id, want := range map[string][]string{"whereabouts:": {"n1 10.5.0.2-10.5.0.14"}, "whereabouts:blue": {"n1 10.6.0.1-10.6.0.1"}} {
			if diff := cmp.Diff(want, show(pool(id))); diff != "" {
				return fmt.Errorf("I4, I10: %s (-want +got):\n%s", id, diff)
			}
		}
		if n := pool("file").Status.Granted; n != 1024 {
			return fmt.Errorf("I10: %d addresses of the network of a file, want 1024", n)
		}
		return nil
	})
	if diff := cmp.Diff([]string{"red"}, pool("whereabouts:blue").Spec.Namespaces); diff != "" {
		t.Errorf("I9: the owner (-want +got):\n%s", diff)
	}
	for _, id := range []string{"whereabouts:made-up", "red/w"} {
		if o := pool(id); o.Name != "" {
			t.Errorf("I10: %s has blocks %v", id, show(o))
		}
	}
	consent := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"namespaces":["red","tenant"]}}`))
	if err := hostile.Patch(t.Context(), pool("whereabouts:blue"), consent); !apierrors.IsForbidden(err) {
		t.Errorf("I10: the node changes whose networks have the pool: %v", err)
	}
	// A person gives consent.
	if err := r.admin.Patch(t.Context(), pool("whereabouts:blue"), consent); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "addresses of the tenant's network", func() error {
		answerRoll(t, r.admin)
		if n := pool("whereabouts:blue").Status.Granted; n < 200 {
			return fmt.Errorf("%d granted: %v", n, show(pool("whereabouts:blue")))
		}
		return nil
	})
}
