package controller

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
)

// declaredPool is an AddressPool that a person made.
func declaredPool(name string, subnets ...string) *v1alpha1.AddressPool {
	o := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, s := range subnets {
		o.Spec.Subnets = append(o.Spec.Subnets, v1alpha1.PoolSubnet{CIDR: s})
	}
	return o
}

// askingPool is a node's state that asks for addresses of a declared pool.
func askingPool(node, pool string, used int64, claims []blocks.Claim, ranges ...ipam.Run) *v1alpha1.NodeState {
	s := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: node}}
	s.Status.AddressRequests = blocks.ToObject([]blocks.Request{{Network: v1alpha1.DeclaredPoolID(pool), Ranges: ranges, Used: used, Claims: claims, Grant: "g-" + node}})
	return s
}

func getPool(t *testing.T, c client.Client, name string) *v1alpha1.AddressPool {
	t.Helper()
	p := &v1alpha1.AddressPool{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, p); err != nil {
		t.Fatal(err)
	}
	return p
}

func getState(t *testing.T, c client.Client, node string) *v1alpha1.NodeState {
	t.Helper()
	s := &v1alpha1.NodeState{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: node}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func message(o *v1alpha1.AddressPool, kind string) string {
	c := meta.FindStatusCondition(o.Status.Conditions, kind)
	if c == nil {
		return "none"
	}
	return strings.TrimSpace(string(c.Status) + " " + c.Message)
}

// eventsOf returns the events that were recorded since the last call.
func eventsOf(r *record.FakeRecorder) (out []string) {
	for {
		select {
		case e := <-r.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// I10: the controller refuses requests of nodes outside a pool that a person declared. It grants
// their other requests in blocks of the pool's size, and keeps the fields that the person wrote.
func TestI10DeclaredPoolIsGranted(t *testing.T) {
	pool := declaredPool("storage", "10.9.0.0/24", "fd09::/64")
	pool.Spec.BlockSize = 8
	inside, outside := run("10.9.0.2", "10.9.0.254"), run("10.8.0.2", "10.8.0.254")
	c := newCluster(newNode("a", nil), newNode("b", nil), pool,
		askingPool("a", "storage", 1, []blocks.Claim{claim("fd09::77", "x", false)}, inside), askingPool("b", "storage", 1, nil, inside, outside))
	a := addresses(c, time.Now())
	recorder := record.NewFakeRecorder(10)
	a.Events = recorder
	lookAt(t, a, "pool:storage")
	got := getPool(t, c, "storage")
	want := []string{"a 10.9.0.2-10.9.0.9", "b 10.9.0.10-10.9.0.17", "a fd09::77-fd09::77 x"}
	if diff := cmp.Diff(want, show(got)); diff != "" {
		t.Errorf("I10: -want +got:\n%s", diff)
	}
	if got.Spec.Network != "" || got.Spec.BlockSize != 8 || got.Status.Subnets != "10.9.0.0/24,fd09::/64" || got.Status.Addresses < 1<<62 {
		t.Errorf("%+v %+v", got.Spec, got.Status)
	}
	if s := message(got, v1alpha1.ConditionOutside); !strings.HasPrefix(s, "True node b requests 10.8.0.2-10.8.0.254, which is refused") {
		t.Errorf("condition Outside: %s", s)
	}
	if e := eventsOf(recorder); len(e) != 1 || !strings.HasPrefix(e[0], "Warning Outside node b requests") {
		t.Errorf("events %q", e)
	}
}

// The controller makes no AddressPool for a node that requests an undeclared one.
func TestDeclaredPoolIsNotMade(t *testing.T) {
	c := newCluster(newNode("a", nil), askingPool("a", "storage", 1, nil, run("10.9.0.2", "10.9.0.254")))
	lookAt(t, addresses(c, time.Now()), "pool:storage")
	var pools v1alpha1.AddressPoolList
	if err := c.List(t.Context(), &pools); err != nil || len(pools.Items) > 0 {
		t.Errorf("%v %v", err, pools.Items)
	}
}

// I4: while a pool's subnets cannot be served, the controller grants no address of it and takes no
// block back. One event reports the mistake, another one its correction.
func TestI4WrongSubnetsOfAPool(t *testing.T) {
	c := newCluster(newNode("a", nil), declaredPool("storage", "10.9.0.0/24"), askingPool("a", "storage", 1, nil, run("10.9.0.2", "10.9.0.254")))
	a := addresses(c, time.Now())
	recorder := record.NewFakeRecorder(10)
	a.Events = recorder
	lookAt(t, a, "pool:storage")
	before := show(getPool(t, c, "storage"))
	edit := func(cidr string) *v1alpha1.AddressPool {
		o := getPool(t, c, "storage")
		o.Spec.Subnets[0].CIDR = cidr
		if err := c.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		lookAt(t, a, "pool:storage")
		return getPool(t, c, "storage")
	}
	wrong := edit("10.9.0.1/24")
	if s := message(wrong, v1alpha1.ConditionValid); !strings.Contains(s, "False invalid: subnets[0].cidr") || !slices.Equal(before, show(wrong)) || len(before) == 0 {
		t.Errorf("I4: Valid is %s, blocks %q, before %q", s, show(wrong), before)
	}
	right := edit("10.9.0.0/23")
	if s := message(right, v1alpha1.ConditionValid); s != "True" {
		t.Errorf("Valid is %s", s)
	}
	e := eventsOf(recorder)
	if len(e) != 2 || !strings.HasPrefix(e[0], "Warning Invalid invalid: subnets[0].cidr") || !strings.HasPrefix(e[1], "Normal Recovered condition Valid") {
		t.Errorf("events %q", e)
	}
}

// Pools with one subnet each grant from all of it, since their networks may be apart; the
// condition Overlaps of both says so, until one of them changes.
func TestPoolsThatOverlap(t *testing.T) {
	ranges := run("10.9.0.2", "10.9.0.254")
	both := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	both.Status.AddressRequests = slices.Concat(askingPool("a", "one", 1, nil, ranges).Status.AddressRequests, askingPool("a", "two", 1, nil, ranges).Status.AddressRequests)
	c := newCluster(newNode("a", nil), declaredPool("one", "10.9.0.0/24"), declaredPool("two", "10.9.0.0/24"), declaredPool("three", "10.8.0.0/24"), both)
	a := addresses(c, time.Now())
	for _, pool := range []string{"one", "two", "three"} {
		lookAt(t, a, "pool:"+pool)
	}
	one, two := getPool(t, c, "one"), getPool(t, c, "two")
	if diff := cmp.Diff(show(one), show(two)); diff != "" || len(show(one)) == 0 {
		t.Errorf("the pools share addresses: %s", diff)
	}
	if s := message(one, v1alpha1.ConditionOverlaps); !strings.HasPrefix(s, "True AddressPool two has 10.9.0.2-10.9.0.254, too: two pods get one address unless") {
		t.Errorf("Overlaps of one: %s", s)
	}
	if s := message(getPool(t, c, "three"), v1alpha1.ConditionOverlaps); s != "False" {
		t.Errorf("Overlaps of three: %s", s)
	}
	two.Spec.Subnets[0].CIDR = "10.7.0.0/24"
	if err := c.Update(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	again := poolsToCompare(t.Context(), c, two)
	if len(again) != 2 || again[0].Name != "pool:two" || again[1].Name != "pool:one" {
		t.Errorf("looked at again: %v", again)
	}
	lookAt(t, a, "pool:one")
	if s := message(getPool(t, c, "one"), v1alpha1.ConditionOverlaps); s != "False" {
		t.Errorf("Overlaps of one after two was changed: %s", s)
	}
}

func TestWebhookOfAddressPools(t *testing.T) {
	c := newCluster(declaredPool("one", "10.9.0.0/24"))
	withBlock := declaredPool("two", "10.8.0.0/24")
	withBlock.Spec.Blocks = []v1alpha1.AddressBlock{{Node: "a", First: "10.7.0.2", Last: "10.7.0.9"}}
	for name, tc := range map[string]struct {
		pool    *v1alpha1.AddressPool
		denied  string
		warning string
	}{
		"right":           {pool: declaredPool("two", "10.8.0.0/24")},
		"no subnet":       {pool: declaredPool("two", "10.8.0.0/33"), denied: "spec: invalid: subnets[0].cidr"},
		"overlaps":        {pool: declaredPool("two", "10.9.0.0/25"), warning: "AddressPool one has 10.9.0.2-10.9.0.126, too"},
		"itself":          {pool: declaredPool("one", "10.9.0.0/25")},
		"pods are there":  {pool: withBlock, warning: "node a has 10.7.0.2-10.7.0.9, which the subnets do not have"},
		"the controllers": {pool: &v1alpha1.AddressPool{Spec: v1alpha1.AddressPoolSpec{Network: "default/n"}}},
	} {
		raw, err := json.Marshal(tc.pool)
		if err != nil {
			t.Fatal(err)
		}
		got := (&addressPools{client: c}).Handle(t.Context(), request(string(raw)))
		if got.Allowed != (tc.denied == "") || tc.denied != "" && !strings.Contains(got.Result.Message, tc.denied) {
			t.Errorf("%s: %+v", name, got)
		}
		if said := strings.Join(got.Warnings, "; "); (tc.warning == "") != (said == "") || !strings.Contains(said, tc.warning) {
			t.Errorf("%s: warnings %q, want %q", name, said, tc.warning)
		}
	}
}

// Addresses that pods have from another stack, of networks that name the pool, are not granted.
func TestI4ForeignAddressesOfADeclaredPool(t *testing.T) {
	c := newCluster(newNode("a", nil), declaredPool("storage", "10.9.0.0/29"), networkWith(t, "red", `{"type": "culvert", "addressPool": "storage"}`),
		networkWith(t, "blue", `{"type": "host-local", "subnet": "10.9.0.0/29"}`), askingPool("a", "storage", 4, nil, run("10.9.0.2", "10.9.0.6")),
		attached("red", "old", "n", `[{"name":"red/n","interface":"net1","ips":["10.9.0.2"]}]`), attached("blue", "apart", "n", `[{"name":"blue/n","interface":"net1","ips":["10.9.0.3"]}]`))
	a := addresses(c, time.Now())
	a.Foreign = (&foreignAddresses{live: &unendedOnly{Reader: c, t: t}, now: time.Now}).ofPool
	lookAt(t, a, "pool:storage")
	if diff := cmp.Diff([]string{"a 10.9.0.3-10.9.0.6"}, show(getPool(t, c, "storage"))); diff != "" {
		t.Errorf("I4: -want +got:\n%s", diff)
	}
}

// An address that a pod keeps is in the pool until its time after the pod has ended is over, and
// no node is granted it.
func TestI4KeptAddressOfADeclaredPool(t *testing.T) {
	pool := declaredPool("storage", "10.9.0.0/29")
	pool.Spec.KeepAddress = &metav1.Duration{Duration: time.Hour}
	state := askingPool("a", "storage", 1, nil, run("10.9.0.2", "10.9.0.6"))
	state.Status.AddressRequests[0].Reservations = []v1alpha1.AddressReservation{{Pod: "default/db-0 net1", Address: "10.9.0.2", KeepSeconds: 3600}}
	c := newCluster(newNode("a", nil), newNode("b", nil), pool, askingPool("a", "storage", 1, nil, run("10.9.0.2", "10.9.0.6")), podOn("a", "db-0"))
	a := addresses(c, time.Now())
	now := time.Now().Truncate(time.Second)
	a.Now = func() time.Time { return now }
	lookAt(t, a, "pool:storage")
	change := func(name string, with *v1alpha1.NodeState) {
		t.Helper()
		there := &v1alpha1.NodeState{}
		err := c.Get(t.Context(), client.ObjectKey{Name: name}, there)
		with.ResourceVersion, with.Status.RollCalls = there.ResourceVersion, there.Status.RollCalls
		if err == nil {
			err = c.Update(t.Context(), with)
		} else {
			err = c.Create(t.Context(), with)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change("a", state)
	lookAt(t, a, "pool:storage")
	if got := getPool(t, c, "storage").Spec.Reservations; len(got) != 1 || got[0].Pod != "default/db-0 net1" || got[0].Since != nil {
		t.Fatalf("while the pod runs: %+v", got)
	}
	gone := askingPool("a", "storage", 0, nil, run("10.9.0.2", "10.9.0.6"))
	for _, b := range getPool(t, c, "storage").Spec.Blocks {
		gone.Status.AddressRequests[0].Released = append(gone.Status.AddressRequests[0].Released, v1alpha1.ReleasedRange{Grant: b.Grant, AddressRange: v1alpha1.AddressRange{First: b.First, Last: b.Last}})
	}
	gone.Status.AddressRequests[0].Grant, gone.Status.AddressRequests[0].Ranges = "", nil
	change("a", gone)
	change("b", askingPool("b", "storage", 5, nil, run("10.9.0.2", "10.9.0.6")))
	r := lookAt(t, a, "pool:storage")
	got := getPool(t, c, "storage")
	if len(got.Spec.Reservations) != 1 || got.Spec.Reservations[0].Since == nil || r.RequeueAfter != absentLook {
		t.Errorf("after the pod ended: %+v, looked at again in %s", got.Spec.Reservations, r.RequeueAfter)
	}
	if diff := cmp.Diff([]string{"b 10.9.0.3-10.9.0.6"}, show(got)); diff != "" {
		t.Errorf("I4: -want +got:\n%s", diff)
	}
	now = now.Add(time.Hour)
	lookAt(t, a, "pool:storage")
	got = getPool(t, c, "storage")
	if diff := cmp.Diff([]string{"b 10.9.0.2-10.9.0.6"}, show(got)); diff != "" || len(got.Spec.Reservations) > 0 {
		t.Errorf("after its time: %+v, -want +got:\n%s", got.Spec.Reservations, diff)
	}
}
