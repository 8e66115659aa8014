package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/vf"
)

func newNode(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: labels}}
}

func run(first, last string) ipam.Run {
	return ipam.Run{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}
}

// asking is a node's state that asks for addresses of network n.
func asking(node string, used int64, claims ...blocks.Claim) *v1alpha1.NodeState {
	s := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: node}}
	s.Status.AddressRequests = blocks.ToObject([]blocks.Request{{Network: "n", Ranges: []ipam.Run{run("172.16.91.2", "172.16.91.254")}, Used: used, Claims: claims}})
	return s
}

func newCluster(objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(objects...).WithStatusSubresource(&v1alpha1.NodePolicy{}).Build()
}

func addresses(c client.Client, at time.Time) *Addresses {
	return &Addresses{Client: c, Live: c, Now: func() time.Time { return at }, Log: slog.New(slog.DiscardHandler)}
}

// look reconciles a pool, and again after the nodes have answered a roll call.
func look(t *testing.T, a *Addresses) ctrl.Result { return lookAt(t, a, "n") }

func lookAt(t *testing.T, a *Addresses, network string) ctrl.Result {
	t.Helper()
	for {
		r, err := a.Reconcile(t.Context(), named([]string{network})[0])
		if err != nil {
			t.Fatal(err)
		}
		if !answerRoll(t, a.Client) {
			return r
		}
	}
}

// answerRoll has every NodeState repeat the roll calls of all pools, and reports whether
// one did not.
func answerRoll(t *testing.T, c client.Client, except ...string) (answered bool) {
	t.Helper()
	var (
		pools  v1alpha1.AddressPoolList
		states v1alpha1.NodeStateList
		ids    []string
	)
	if err := errors.Join(c.List(t.Context(), &pools), c.List(t.Context(), &states)); err != nil {
		t.Fatal(err)
	}
	for _, p := range pools.Items {
		if p.Spec.RollCall != "" && !slices.Contains(ids, p.Spec.RollCall) {
			ids = append(ids, p.Spec.RollCall)
		}
	}
	for _, s := range states.Items {
		if slices.Equal(s.Status.RollCalls, ids) || slices.Contains(except, s.Name) {
			continue
		}
		s.Status.RollCalls, answered = ids, true
		// A node that wrote its state meanwhile answers the next time.
		if err := c.Update(t.Context(), &s); err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
	return answered
}

func poolOf(t *testing.T, c client.Client) *v1alpha1.AddressPool {
	t.Helper()
	p := &v1alpha1.AddressPool{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "n"}, p); err != nil {
		t.Fatal(err)
	}
	return p
}

func show(p *v1alpha1.AddressPool) (out []string) {
	for _, b := range p.Spec.Blocks {
		s := b.Node + " " + b.First + "-" + b.Last
		if b.Claim != "" {
			s += " " + b.Claim
		}
		if b.NodeGoneSince != nil {
			s += " gone"
		}
		out = append(out, s)
	}
	return out
}

// I4: blocks are granted once, and stay as long as the Node object is there.
func TestI4BlocksComeAndGoWithNodes(t *testing.T) {
	now := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	c := newCluster(newNode("a", nil), newNode("b", nil), asking("a", 0), asking("b", 0), asking("no such node", 5))
	a := addresses(c, now)
	look(t, a)
	want := []string{"a 172.16.91.2-172.16.91.17", "b 172.16.91.18-172.16.91.33"}
	p := poolOf(t, c)
	if diff := cmp.Diff(want, show(p)); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	if p.Status.Addresses != 253 || p.Status.Granted != 32 || p.Status.Nodes != 2 {
		t.Errorf("%+v", p.Status)
	}
	version := p.ResourceVersion
	if look(t, a); poolOf(t, c).ResourceVersion != version {
		t.Error("it was written again, and nothing had changed")
	}
	if err := c.Delete(t.Context(), newNode("b", nil)); err != nil {
		t.Fatal(err)
	}
	if r := look(t, a); r.RequeueAfter == 0 {
		t.Error("nobody will look again")
	}
	want[1] += " gone"
	if diff := cmp.Diff(want, show(poolOf(t, c))); diff != "" {
		t.Errorf("the node is gone (-want +got):\n%s", diff)
	}
	look(t, a)
	a.Now = func() time.Time { return now.Add(blocks.Grace) }
	look(t, a)
	if diff := cmp.Diff(want[:1], show(poolOf(t, c))); diff != "" {
		t.Errorf("the node has been gone for long (-want +got):\n%s", diff)
	}
}

// I4: a machine that returns under the name of another one does not get its blocks.
// Other nodes get them only when this controller's own clock says so.
func TestI4BlocksAreOfANodeObject(t *testing.T) {
	now := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	c := newCluster(newNode("a", nil), asking("a", 0))
	look(t, addresses(c, now))
	first := []string{"a 172.16.91.2-172.16.91.33"}
	if diff := cmp.Diff(first, show(poolOf(t, c))); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	second, s := newNode("a", nil), asking("a", 0, blocks.Claim{Addr: netip.MustParseAddr("172.16.91.200"), ID: "x"})
	second.UID, s.Status.NodeUID = "second", "second"
	err := errors.Join(c.Delete(t.Context(), newNode("a", nil)), c.Delete(t.Context(), asking("a", 0)), c.Create(t.Context(), second), c.Create(t.Context(), s))
	if err != nil {
		t.Fatal(err)
	}
	fast := addresses(c, now.Add(-time.Hour)) // the clock of the machine whose controller marks the block as gone
	look(t, fast)
	both := []string{"a 172.16.91.2-172.16.91.33 gone", "a 172.16.91.34-172.16.91.65", "a 172.16.91.200-172.16.91.200 x"}
	if diff := cmp.Diff(both, show(poolOf(t, c))); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	for i, b := range poolOf(t, c).Spec.Blocks {
		if want := []string{"uid-a", "second", "second"}[i]; b.NodeUID != want {
			t.Errorf("block %s is of Node %s, want %s", b.First, b.NodeUID, want)
		}
	}
	a := addresses(c, now)
	look(t, a)
	a.Now = func() time.Time { return now.Add(blocks.Grace - time.Second) }
	look(t, a)
	if diff := cmp.Diff(both, show(poolOf(t, c))); diff != "" {
		t.Errorf("before the grace period ends (-want +got):\n%s", diff)
	}
	a.Now = func() time.Time { return now.Add(blocks.Grace) }
	look(t, a)
	if diff := cmp.Diff(both[1:], show(poolOf(t, c))); diff != "" {
		t.Errorf("after it (-want +got):\n%s", diff)
	}
}

// I4: the Node object of a machine that runs on was deleted and made again: its pods'
// addresses stay its own.
func TestI4SameMachineKeepsAddresses(t *testing.T) {
	now := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	c := newCluster(newNode("a", nil), asking("a", 0))
	a := addresses(c, now)
	look(t, a)
	again, s := newNode("a", nil), asking("a", 0, blocks.Claim{Addr: netip.MustParseAddr("172.16.91.5"), ID: "held/x/net1", Held: true})
	again.UID, s.Status.NodeUID = "again", "again"
	err := errors.Join(c.Delete(t.Context(), newNode("a", nil)), c.Delete(t.Context(), asking("a", 0)), c.Create(t.Context(), again), c.Create(t.Context(), s))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		a.Now = func() time.Time { return now.Add(time.Duration(i) * blocks.Grace) }
		look(t, a)
	}
	if got := show(poolOf(t, c)); got[0] != "a 172.16.91.2-172.16.91.33 gone" {
		t.Errorf("I4: %q", got)
	}
}

// The controller takes a claim back only if the NodeState at the API server itself lacks the claim.
// Neither its cache nor a missing NodeState is enough.
func TestClaimsEndByTheLiveState(t *testing.T) {
	claim := blocks.Claim{Addr: netip.MustParseAddr("172.16.91.200"), ID: "x"}
	old, live := newCluster(newNode("a", nil), asking("a", 0, claim)), newCluster(newNode("a", nil), asking("a", 0, claim))
	a := addresses(old, time.Now())
	a.Live = live
	look(t, a)
	with := []string{"a 172.16.91.2-172.16.91.33", "a 172.16.91.200-172.16.91.200 x"}
	if diff := cmp.Diff(with, show(poolOf(t, old))); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	s := asking("a", 0)
	if err := live.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if look(t, a); len(show(poolOf(t, old))) != 2 {
		t.Error("a claim ended because its NodeState is not there")
	}
	if err := live.Create(t.Context(), asking("a", 0)); err != nil {
		t.Fatal(err)
	}
	if err := old.Delete(t.Context(), asking("a", 0)); err != nil {
		t.Fatal(err)
	}
	look(t, a)
	if diff := cmp.Diff(with[:1], show(poolOf(t, old))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// I4: two controllers that read the same pool do not both write it.
func TestI4SecondWriterLoses(t *testing.T) {
	var other func()
	c := newCluster(newNode("a", nil), newNode("b", nil), asking("a", 0))
	a := addresses(c, time.Now())
	look(t, a)
	racing := interceptor.NewClient(c, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
		other()
		return c.Update(ctx, o, opts...)
	}})
	other = func() {
		p := poolOf(t, c)
		p.Spec.Blocks = append(p.Spec.Blocks, v1alpha1.AddressBlock{Node: "b", First: "172.16.91.34", Last: "172.16.91.99"})
		if err := c.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Delete(t.Context(), asking("a", 0)); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), asking("a", 100)); err != nil {
		t.Fatal(err)
	}
	answerRoll(t, c)
	a.Client = racing
	if r := look(t, a); r.RequeueAfter == 0 {
		t.Error("nobody tries again")
	}
	want := []string{"a 172.16.91.2-172.16.91.17", "b 172.16.91.34-172.16.91.99"}
	if diff := cmp.Diff(want, show(poolOf(t, c))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// I4: a node that cannot read an address of its ledger keeps its claims.
func TestI4UnreadAddressKeepsClaims(t *testing.T) {
	c := newCluster(newNode("a", nil), asking("a", 0, blocks.Claim{Addr: netip.MustParseAddr("172.16.91.200"), ID: "x"}))
	a := addresses(c, time.Now())
	look(t, a)
	before := show(poolOf(t, c))
	s := asking("a", 0)
	s.Status.AddressesUnread = 1
	if err := errors.Join(c.Delete(t.Context(), asking("a", 0)), c.Create(t.Context(), s)); err != nil {
		t.Fatal(err)
	}
	look(t, a)
	if diff := cmp.Diff(before, show(poolOf(t, c))); diff != "" || len(before) != 2 {
		t.Errorf("I4 (-want +got):\n%s", diff)
	}
}

// I4: an API call fails, or the controller dies during it, for every call there is. The next
// controller completes the work, and no address is on two nodes.
func TestI4ControllerDiesAtEveryCall(t *testing.T) {
	for n := 1; ; n++ {
		c := newCluster(newNode("a", nil), newNode("b", nil), asking("a", 3), asking("b", 40, blocks.Claim{Addr: netip.MustParseAddr("172.16.91.9"), ID: "y"}))
		calls := 0
		die := func() error {
			if calls++; calls >= n {
				return errors.New("killed")
			}
			return nil
		}
		mortal := interceptor.NewClient(c, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				return errors.Join(die(), c.Get(ctx, k, o, opts...))
			},
			List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
				return errors.Join(die(), c.List(ctx, o, opts...))
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return errors.Join(die(), c.Create(ctx, o, opts...)) // written, but the controller gets an error
			},
		})
		_, err := addresses(mortal, time.Now()).Reconcile(t.Context(), named([]string{"n"})[0])
		look(t, addresses(c, time.Now()))
		want := []string{"a 172.16.91.2-172.16.91.8", "b 172.16.91.9-172.16.91.9 y", "a 172.16.91.10-172.16.91.25", "b 172.16.91.26-172.16.91.73"}
		if diff := cmp.Diff(want, show(poolOf(t, c))); diff != "" {
			t.Fatalf("killed at call %d: -want +got:\n%s", n, diff)
		}
		if err == nil && calls < n {
			break
		}
	}
}

func TestPoolSaysWhatIsWrong(t *testing.T) {
	claim := func(id string) blocks.Claim { return blocks.Claim{Addr: netip.MustParseAddr("10.1.1.1"), ID: id} }
	c := newCluster(newNode("a", nil), newNode("b", nil), asking("a", 300, claim("x")), asking("b", 100, claim("y")))
	a := addresses(c, time.Now())
	look(t, a)
	p := poolOf(t, c)
	for kind, want := range map[string]string{
		v1alpha1.ConditionExhausted: "there are no addresses left for a, b, or they have their share: widen the range of network n",
		v1alpha1.ConditionDisputed:  "10.1.1.1, which node b claims, is in block 10.1.1.1 of node a",
	} {
		if got := meta.FindStatusCondition(p.Status.Conditions, kind); got == nil || got.Status != metav1.ConditionTrue || got.Message != want {
			t.Errorf("%s: %+v, want %s", kind, got, want)
		}
	}
	if !slices.Equal(p.Status.Starved, []string{"a", "b"}) {
		t.Error(p.Status.Starved)
	}
	// A person edits the blocks so that they overlap: the controller does not write the pool any
	// more.
	p.Spec.Blocks = append(p.Spec.Blocks, v1alpha1.AddressBlock{Node: "b", First: "172.16.91.2", Last: "172.16.91.3"})
	if err := c.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	before := show(poolOf(t, c))
	look(t, a)
	if diff := cmp.Diff(before, show(poolOf(t, c))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// I4: two networks never share a pool by accident. If the AddressPool with a network's name belongs
// to another network, the controller writes nothing, and the error says how to go on.
func TestI4PoolOfAnotherNetwork(t *testing.T) {
	for name, tc := range map[string]struct {
		there *v1alpha1.AddressPool
		want  string
	}{
		"of a network": {&v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.AddressPoolSpec{Network: "other"}}, "it is other, and n needs an AddressPool of that name"},
		"of a person":  {declaredPool("n", "172.16.91.0/24"), "it is pool:n, and n needs an AddressPool of that name"},
	} {
		c := newCluster(newNode("a", nil), asking("a", 1), tc.there)
		before := poolOf(t, c)
		_, err := addresses(c, time.Now()).Reconcile(t.Context(), named([]string{"n"})[0])
		if !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if diff := cmp.Diff(before, poolOf(t, c)); diff != "" {
			t.Errorf("I4: %s: the pool was written (-before +after):\n%s", name, diff)
		}
	}
}

// I4: etcd refuses an object that is too large. A pool of that size grants no more blocks, takes
// none away, and names the nodes that get nothing. Blocks that go back make room again.
func TestI4PoolThatIsTooLarge(t *testing.T) {
	const many = 7000
	large := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.AddressPoolSpec{Network: "n"}}
	for i := range many {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 7), byte(i << 1), 0}).String()
		large.Spec.Blocks = append(large.Spec.Blocks, v1alpha1.AddressBlock{Node: "a", NodeUID: "uid-a", First: a, Last: a, Grant: strings.Repeat("g", 110)})
	}
	c := newCluster(newNode("a", nil), newNode("b", nil), asking("b", 1), large)
	now := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	a := addresses(c, now)
	a.Now = func() time.Time { now = now.Add(time.Minute); return now } // no pace between writes
	look(t, a)
	full := poolOf(t, c)
	condition := meta.FindStatusCondition(full.Status.Conditions, v1alpha1.ConditionTooLarge)
	if condition == nil || condition.Status != metav1.ConditionTrue || !strings.Contains(condition.Message, "its 7000 blocks are") || !strings.Contains(condition.Message, "b get no more of them") {
		t.Errorf("condition TooLarge is %+v", condition)
	}
	if len(full.Spec.Blocks) != many || !slices.Equal(full.Status.Starved, []string{"b"}) {
		t.Errorf("I4: %d blocks, want %d; starved are %q", len(full.Spec.Blocks), many, full.Status.Starved)
	}
	full.Spec.Blocks = full.Spec.Blocks[:many/2]
	if err := c.Update(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	look(t, a)
	after := poolOf(t, c)
	if got := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionTooLarge); got != nil || len(after.Status.Starved) > 0 || len(after.Spec.Blocks) != many/2+1 {
		t.Errorf("with room again: condition %+v, starved %q, %d blocks", got, after.Status.Starved, len(after.Spec.Blocks))
	}
}

func TestPolicyStatus(t *testing.T) {
	policy := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 2}, Spec: v1alpha1.NodePolicySpec{NodeSelector: map[string]string{"nic": "igb"}}}
	state := func(node string, p ...v1alpha1.PolicyState) *v1alpha1.NodeState {
		return &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: v1alpha1.NodeStateStatus{Policies: p}}
	}
	igb := map[string]string{"nic": "igb"}
	c := newCluster(policy, newNode("a", igb), newNode("b", igb), newNode("c", igb), newNode("d", igb), newNode("other", nil),
		state("a", v1alpha1.PolicyState{Name: "p", Generation: 2, Applied: true}),
		state("b", v1alpha1.PolicyState{Name: "p", Generation: 1, Applied: true}),
		state("c", v1alpha1.PolicyState{Name: "p", Generation: 2, Conflicts: []string{"q"}, Reason: "PF enp1s0 is contested"}))
	p := &Policies{Client: c, Now: time.Now}
	for range 2 {
		if _, err := p.Reconcile(t.Context(), named([]string{"p"})[0]); err != nil {
			t.Fatal(err)
		}
	}
	got := &v1alpha1.NodePolicy{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "p"}, got); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range got.Status.Conditions {
		lines = append(lines, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Message))
	}
	for _, n := range got.Status.Pending {
		lines = append(lines, n.Node+": "+n.Reason)
	}
	want := `Healthy True 
Valid True 
Applied False nodes that have not applied it: 3 of 4: b: culvertd has not read it yet
EmptyPool False 
Conflict True it has the priority of q and wants something else of the same PF or pool, so neither is followed there: give one of them a higher priority
b: culvertd has not read it yet
c: PF enp1s0 is contested
d: culvertd does not run there, or has not reported yet`
	if diff := cmp.Diff(want, strings.Join(lines, "\n")); diff != "" || got.Status.Nodes != 4 || got.Status.AppliedNodes != 1 {
		t.Errorf("%d %d (-want +got):\n%s", got.Status.Nodes, got.Status.AppliedNodes, diff)
	}
}

// A network whose addresses are unique on each node only has no pool.
func TestNoPoolForScopeNode(t *testing.T) {
	s := asking("a", 0)
	s.Status.AddressRequests = blocks.ToObject([]blocks.Request{{Network: "n", Local: []ipam.Run{run("172.16.91.2", "172.16.91.2")}}})
	c := newCluster(newNode("a", nil), s)
	look(t, addresses(c, time.Now()))
	var pools v1alpha1.AddressPoolList
	if err := c.List(t.Context(), &pools); err != nil || len(pools.Items) > 0 {
		t.Errorf("%v %v", err, pools.Items)
	}
}
