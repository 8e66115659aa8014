package blocks

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/vf"
)

func TestObjects(t *testing.T) {
	p := Pool{Network: "n", Blocks: []Block{
		{Run: run("10.0.0.2-10.0.0.5"), Node: "a"}, {Run: run("10.0.0.6"), Node: "b", Claim: "x"}, {Run: run("fd00::1-fd00::5"), Node: "b", GoneSince: time.Unix(1e9, 0)},
	}}
	got, err := FromObject(&v1alpha1.AddressPool{Spec: v1alpha1.AddressPoolSpec{Network: "n", Blocks: p.Object()}})
	if diff := cmp.Diff(show(p), show(got)); diff != "" || err != nil || got.Total() != 10 {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	asked := []Request{{Network: "n", Ranges: runs("10.0.0.2-10.0.0.5"), Used: 3, Claims: []Claim{{addr("10.0.0.9"), "x", true}}}, {Network: "other"}}
	demands, ids, err := Demands(&v1alpha1.NodeState{Status: v1alpha1.NodeStateStatus{AddressRequests: ToObject(asked)}}, "n")
	if diff := cmp.Diff([]Demand{{Request: asked[0]}}, demands, byAddr); diff != "" || err != nil || len(ids) != 1 {
		t.Errorf("%v %v (-want +got):\n%s", err, ids, diff)
	}
}

// A person may take out a reservation or a wanted address, and may mistype another. The pool
// goes on without the entries that it cannot read, and finds the others in any order.
func TestPoolWithUnreadableEntries(t *testing.T) {
	p, err := FromObject(&v1alpha1.AddressPool{Spec: v1alpha1.AddressPoolSpec{
		Network: "n", Wanted: []string{"10.0.0.300", "::ffff:10.0.0.7", "fd00::7"},
		Reservations: []v1alpha1.AddressReservation{
			{Pod: "default/db-2 net1", Address: "fd00::9", KeepSeconds: 60}, {Pod: "default/db-1 net1", Address: "10.0.0"}, {Pod: "default/db-1 net1", Address: "fe80::1%eth0"},
			{Pod: "default/db-0 net1", Address: "::ffff:10.0.0.9", KeepSeconds: 3600, Since: &metav1.Time{Time: time.Unix(1e9, 0)}},
		},
	}})
	if err != nil || !slices.Equal(p.Wanted, runAddrs("10.0.0.7", "fd00::7")) {
		t.Errorf("wanted %v, %v", p.Wanted, err)
	}
	want := []Reservation{
		{Pod: "default/db-0 net1", Addr: addr("10.0.0.9"), For: time.Hour, Since: time.Unix(1e9, 0)}, {Pod: "default/db-2 net1", Addr: addr("fd00::9"), For: time.Minute},
	}
	if diff := cmp.Diff(want, p.Reservations, byAddr); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, r := range want {
		if got, kept := p.reservation(r.Addr); !kept || got.Pod != r.Pod {
			t.Errorf("address %s is kept for %q, want %q", r.Addr, got.Pod, r.Pod)
		}
	}
}

// The number of a network's addresses does not grow with the number of nodes that request them.
func TestAddressesOfDemands(t *testing.T) {
	for _, tc := range []struct {
		demands []Demand
		want    int64
	}{
		{nil, 0},
		{[]Demand{demand("a", 1)}, 0},
		{[]Demand{demand("a", 1, "10.0.0.2-10.0.0.9"), demand("b", 1, "10.0.0.2-10.0.0.9")}, 8},
		{[]Demand{demand("a", 1, "10.0.0.2-10.0.0.9", "10.0.0.20"), demand("a", 1, "fd00::2-fd00::3"), demand("b", 1, "10.0.0.20")}, 11},
		{[]Demand{demand("a", 1, "10.0.0.2-10.0.0.9", "fd00::-fd01::")}, most},
	} {
		if got := Addresses(tc.demands); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.demands, got, tc.want)
		}
	}
}

// I4: a part of a request that cannot be read does not hide the rest of it. A claim that cannot
// be read was not given up, so its ID stays among the claims of the node.
func TestI4RequestsThatCannotBeRead(t *testing.T) {
	whole := v1alpha1.AddressRequest{Pool: "n", Grant: "g", Used: 1, Claims: []v1alpha1.AddressClaim{{Address: "10.0.0.9", ID: "x", Held: true}}}
	good, bad := v1alpha1.AddressRange{First: "10.0.0.2", Last: "10.0.0.5"}, v1alpha1.AddressRange{First: "10.0.0.5", Last: "10.0.0.2"}
	holds := Claim{addr("10.0.0.9"), "x", true}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.AddressRequest)
		want   Request
		ids    []string
		err    string
	}{
		"a range": {func(r *v1alpha1.AddressRequest) { r.Ranges = []v1alpha1.AddressRange{bad, good} },
			Request{Ranges: runs("10.0.0.2-10.0.0.5")}, []string{"x"}, `addressRequests[1]: invalid: "10.0.0.5"-"10.0.0.2"`},
		"an address of scope node": {func(r *v1alpha1.AddressRequest) { r.NodeScope = []v1alpha1.AddressRange{good, bad} },
			Request{Local: runs("10.0.0.2-10.0.0.5")}, []string{"x"}, "want two addresses of one family that count up"},
		"a released range": {func(r *v1alpha1.AddressRequest) {
			r.Released = []v1alpha1.ReleasedRange{{Grant: "g", AddressRange: bad}, {Grant: "g", AddressRange: good}}
		}, Request{Released: []Released{{"g", run("10.0.0.2-10.0.0.5")}}}, []string{"x"}, "invalid"},
		"a range that was released under no grant": {func(r *v1alpha1.AddressRequest) { r.Released = []v1alpha1.ReleasedRange{{AddressRange: good}} }, Request{}, []string{"x"}, ""},
		"a reservation": {func(r *v1alpha1.AddressRequest) {
			r.Reservations = []v1alpha1.AddressReservation{{Pod: "d/a net1", Address: "10.0.0.x", KeepSeconds: 9}}
		}, Request{}, []string{"x"}, ""},
		"a claim": {func(r *v1alpha1.AddressRequest) {
			r.Claims = append(r.Claims, v1alpha1.AddressClaim{Address: "10.0.0", ID: "y"}, v1alpha1.AddressClaim{Address: "fe80::1%eth0", ID: "z"})
		}, Request{}, []string{"x", "y", "z"}, `claim "fe80::1%eth0" is no address`},
	} {
		s := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		wrong := *whole.DeepCopy()
		tc.change(&wrong)
		s.Status.AddressRequests = []v1alpha1.AddressRequest{{Pool: "other"}, wrong}
		got, claims, err := Demands(s, "n")
		want := tc.want
		want.Network, want.Grant, want.Used, want.Claims = "n", "g", 1, []Claim{holds}
		if diff := cmp.Diff([]Demand{{Node: "a", Request: want}}, got, byAddr); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		var ids []string
		for _, c := range claims {
			ids = append(ids, c.ID)
		}
		if !slices.Equal(ids, tc.ids) {
			t.Errorf("I4: %s: the node claims %q, want %q", name, ids, tc.ids)
		}
		if (tc.err == "") != (err == nil) || tc.err != "" && (!errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%s: %v, want %q", name, err, tc.err)
		}
	}
}

func TestDamagedPools(t *testing.T) {
	for text, want := range map[string]string{
		`[{"node":"a","first":"10.0.0.1","last":"10.0.0.9"},{"node":"b","first":"10.0.0.9","last":"10.0.0.9"}]`: "blocks 10.0.0.1-10.0.0.9 of node a and 10.0.0.9 of node b overlap",
		`[{"node":"a","first":"10.0.0.9","last":"10.0.0.1"}]`:                                                   `blocks[0]: invalid: "10.0.0.9"-"10.0.0.1"`,
		`[{"node":"a","first":"10.0.0.9","last":"fd00::1"}]`:                                                    "one family",
		`[{"first":"10.0.0.1","last":"10.0.0.9"}]`:                                                              "node is missing",
	} {
		o := v1alpha1.AddressPool{}
		if err := json.Unmarshal([]byte(text), &o.Spec.Blocks); err != nil {
			t.Fatal(err)
		}
		if _, err := FromObject(&o); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzObjects: blocks that FromObject reads never overlap, for any text in the objects, and Grant
// keeps it so.
func FuzzObjects(f *testing.F) {
	f.Add(`[{"node":"a","first":"10.0.0.1","last":"10.0.0.9"}]`, `[{"network":"n","used":5,"ranges":[{"first":"10.0.0.1","last":"10.0.0.200"}],"claims":[{"address":"10.0.0.77","id":"x"}]}]`)
	f.Add(`[{"node":"a","first":"::ffff:10.0.0.1","last":"10.0.0.9"}]`, `[{"network":"n","used":-9223372036854775808,"ranges":[{"first":"::","last":"ffff::"},{"first":"::","last":"ffff::"}]}]`)
	f.Fuzz(func(t *testing.T, pool, requests string) {
		o, s := v1alpha1.AddressPool{}, v1alpha1.NodeState{}
		s.Name = "node"
		if json.Unmarshal([]byte(pool), &o.Spec.Blocks) != nil || json.Unmarshal([]byte(requests), &s.Status.AddressRequests) != nil {
			return
		}
		p, err := FromObject(&o)
		if err != nil {
			return
		}
		demands, _, _ := Demands(&s, "n")
		p, _ = Grant(p, demands, 2)
		o.Spec.Blocks = p.Object()
		if _, err := FromObject(&o); err != nil {
			t.Errorf("granted %v: %v", demands, err)
		}
	})
}
