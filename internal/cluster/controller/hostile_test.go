package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/node/desired"
)

// requireSoon fails if do takes longer than a second. Each of these took several seconds, and longer
// with the square of the NodeState's size.
func requireSoon(t *testing.T, what string, do func()) {
	t.Helper()
	begin := time.Now()
	do()
	if took := time.Since(begin); took > time.Second {
		t.Errorf("I7: %s takes %s", what, took)
	}
}

// I7: the largest NodeStates that etcd takes cost the controller little time, since it reads them at
// each of a node's writes.
func TestI7LargestNodeStates(t *testing.T) {
	s, wanted := &v1alpha1.NodeState{}, int32(4)
	for i := range 25000 {
		s.Status.AddressRequests = append(s.Status.AddressRequests, v1alpha1.AddressRequest{Pool: fmt.Sprintf("network%08d", i)})
	}
	s.Status.AddressRequests = append(s.Status.AddressRequests, s.Status.AddressRequests[7])
	requireSoon(t, "finding the networks of 25,000 requests", func() {
		if n := len(networksOf(s)); n != 25000 {
			t.Errorf("%d networks", n)
		}
	})
	for i := range 6000 {
		s.Status.PFs = append(s.Status.PFs, v1alpha1.PFState{Name: fmt.Sprintf("p%d", i), WantedVFs: &wanted, TotalVFs: 7})
	}
	for i := range 12000 {
		s.Status.VFs = append(s.Status.VFs, v1alpha1.VFState{Name: fmt.Sprintf("p%d#0", i), Owner: &v1alpha1.Owner{Kind: "pod", Name: fmt.Sprintf("d/%d", i)}})
	}
	requireSoon(t, "finding the changes of 6,000 PFs", func() {
		if n := len(changes(s).pods); n != 6000 {
			t.Errorf("%d pods", n)
		}
	})
}

// I7: a policy is compared with impossible numbers of VFs that a node reports, at once.
func TestI7ImpossibleNumberOfVFs(t *testing.T) {
	s := stateOf("n1", []v1alpha1.PFState{{Name: "a", NumVFs: 50_000_000, TotalVFs: 50_000_000}})
	n := &nodePolicies{client: newCluster(newNode("n1", nil), &s)}
	for name, want := range map[string]string{"b": "selects no VF", "a": "", "a#7-9": ""} {
		spec, err := desired.FromPolicy("p", v1alpha1.NodePolicySpec{Pools: []v1alpha1.Pool{{Name: "x", Selectors: []v1alpha1.Selector{{PFNames: []string{name}}}}}})
		if err != nil {
			t.Fatal(err)
		}
		requireSoon(t, "the comparison of pool "+name, func() {
			all, err := n.warnings(t.Context(), v1alpha1.NodePolicySpec{}, spec)
			if err != nil || (want == "") != (len(all) == 0) || !strings.Contains(strings.Join(all, ""), want) {
				t.Errorf("pool %s: %q, %v", name, all, err)
			}
		})
	}
}

// I7: a node that names thousands of pods costs a pass of Drain some requests and not thousands: the nodes
// behind it wait.
func TestI7DrainReadsFewPods(t *testing.T) {
	s := withVFs("n1", 7, nil, nil)
	for i := range 5000 {
		s.Status.VFs = append(s.Status.VFs, v1alpha1.VFState{Name: fmt.Sprintf("enp1s0#%d", i), Phase: "attached", Owner: &v1alpha1.Owner{Kind: "pod", Name: fmt.Sprintf("d/p%04d", i)}})
	}
	reads := 0
	c := interceptor.NewClient(newCluster(newNode("n1", nil), newNode("n2", nil), s, withVFs("n2", 7, []string{"default/a"}, nil), podOn("n2", "a")), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, isPod := o.(*corev1.Pod); isPod {
				reads++
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	d := &Drain{Client: c, Live: c, Nodes: 1, Now: time.Now, Events: record.NewFakeRecorder(100)}
	if _, err := d.Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	if got := drainState(t, c); reads > mostPodReads+1 || len(got.Cordoned) != 1 || got.Cordoned[0] != "n2" {
		t.Errorf("I7: %d pods were read, cordoned are %q", reads, got.Cordoned)
	}
}

// I10: whatever text a node reports about a policy, the API server takes the status of the policy. It
// takes no message of more than 32768 bytes.
func TestI10LongReasonsOfPolicies(t *testing.T) {
	p, long := healthPolicy(), strings.Repeat("\x1b[2J", 20000)
	s := stateOf("n1", nil)
	s.Status.Policies = []v1alpha1.PolicyState{{Name: "p", Generation: 1, Reason: long, Conflicts: []string{long, "q", long + "x"}}}
	judgePolicy(p, []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"nic": "igb"}}}}, []v1alpha1.NodeState{s}, time.Unix(1, 0))
	for _, c := range p.Status.Conditions {
		if len(c.Message) > 4096 || strings.Contains(c.Message, "\x1b") {
			t.Errorf("I10: condition %s has a message of %d bytes: %.40q", c.Type, len(c.Message), c.Message)
		}
	}
	if r := p.Status.Pending[0].Reason; len(r) > 4096 || strings.Contains(r, "\x1b") {
		t.Errorf("I10: the reason has %d bytes: %.40q", len(r), r)
	}
}

// I7: the webhook compares a network with the NICs of a node that names each of them in hundreds of pools.
func TestI7PoolsThatRepeatPFs(t *testing.T) {
	s, names := stateOf("n1", nil), []string{}
	for i := range 1000 {
		names = append(names, fmt.Sprintf("%x", i))
		s.Status.PFs = append(s.Status.PFs, v1alpha1.PFState{Name: names[i]})
	}
	for i := range 250 {
		s.Status.Pools = append(s.Status.Pools, v1alpha1.PoolState{Name: fmt.Sprintf("%x/x", i), PFs: names})
	}
	requireSoon(t, "finding the PFs of a pool", func() {
		if n := len(pfsOf(s.Status, "x")); n != 1000 {
			t.Errorf("I7: %d PFs", n)
		}
	})
}

// I10: a node cannot fill the cluster, and the memory of all nodes, with AddressPools under names that it
// makes up.
func TestI10MadeUpPoolsAreBounded(t *testing.T) {
	s, held := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, []v1alpha1.AddressClaim{{Address: "10.0.0.1", ID: "x", Held: true}}
	for i := range mostFilePools + 50 {
		s.Status.AddressRequests = append(s.Status.AddressRequests, v1alpha1.AddressRequest{Pool: fmt.Sprint("f", i), Claims: held})
	}
	for i := range 50 {
		name := fmt.Sprint("d/n", i)
		s.Status.AddressRequests = append(s.Status.AddressRequests, v1alpha1.AddressRequest{Pool: name, Claims: held})
	}
	c := newCluster(newNode("a", nil), s)
	a := addresses(c, time.Unix(1, 0))
	for _, n := range networksOf(s) {
		if _, err := a.Reconcile(t.Context(), named([]string{n})[0]); err != nil {
			t.Fatal(err)
		}
	}
	var pools v1alpha1.AddressPoolList
	if err := c.List(t.Context(), &pools); err != nil {
		t.Fatal(err)
	}
	if len(pools.Items) != mostFilePools {
		t.Errorf("I10: %d AddressPools", len(pools.Items))
	}
}
