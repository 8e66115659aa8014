package controller

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
)

// networkWith is a NetworkAttachmentDefinition n of a namespace with an ipam section.
func networkWith(t *testing.T, namespace, section string) *unstructured.Unstructured {
	t.Helper()
	u := definitionOf(namespace, "n", "")
	config := `{"cniVersion": "1.0.0", "name": "n", "type": "sriov", "ipam": ` + section + `}`
	if err := unstructured.SetNestedField(u.Object, config, "spec", "config"); err != nil {
		t.Fatal(err)
	}
	return u
}

// requesting is a node's state that asks for addresses of network red/n.
func requesting(node string, ranges []ipam.Run, claims ...blocks.Claim) *v1alpha1.NodeState {
	s := asking(node, 0)
	s.Status.AddressRequests = blocks.ToObject([]blocks.Request{{Network: "red/n", Ranges: ranges, Claims: claims}})
	return s
}

func claim(address, id string, held bool) blocks.Claim {
	return blocks.Claim{Addr: netip.MustParseAddr(address), ID: id, Held: held}
}

// poolAndOutside returns the blocks of network red/n and the message of its condition Outside.
func poolAndOutside(t *testing.T, c client.Client) (granted []string, outside string) {
	t.Helper()
	p := &v1alpha1.AddressPool{}
	if err := client.IgnoreNotFound(c.Get(t.Context(), client.ObjectKey{Name: v1alpha1.AddressPoolName("red/n")}, p)); err != nil {
		t.Fatal(err)
	}
	if condition := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionOutside); condition != nil {
		outside = condition.Message
	}
	return show(p), outside
}

// I10: the controller grants a node only addresses that the network's
// NetworkAttachmentDefinition declares, for any request. The pool's condition names the
// node. An address that a pod holds already stays the node's (I4).
func TestI10RequestsOutsideOfTheNetworkAreRefused(t *testing.T) {
	const narrow, wide = `{"type": "host-local", "subnet": "172.16.91.0/24"}`, `{"type": "host-local", "ranges": [[{"subnet": "172.16.91.0/24"}], [{"subnet": "10.0.0.0/24"}]]}`
	own, foreign := []ipam.Run{run("172.16.91.2", "172.16.91.254")}, []ipam.Run{run("10.0.0.2", "10.0.0.254")}
	c := newCluster(newNode("a", nil), newNode("b", nil), networkWith(t, "red", narrow),
		requesting("a", own, claim("172.16.91.200", "inside", false)),
		requesting("b", foreign, claim("10.0.0.7", "outside", false), claim("10.0.0.9", "held outside", true)))
	a := addresses(c, time.Now())
	r := lookAt(t, a, "red/n")
	inside := []string{"b 10.0.0.9-10.0.0.9 held outside", "a 172.16.91.2-172.16.91.17", "a 172.16.91.200-172.16.91.200 inside"}
	got, outside := poolAndOutside(t, c)
	if diff := cmp.Diff(inside, got); diff != "" {
		t.Errorf("I10: -want +got:\n%s", diff)
	}
	const has = "the network has 172.16.91.1-172.16.91.254"
	if want := "node b requests 10.0.0.2-10.0.0.254, 10.0.0.7, which is refused: " + has + "; node b holds 10.0.0.9, and " + has; outside != want || r.RequeueAfter != absentLook {
		t.Errorf("looked at again in %s; condition Outside: %q\nwant %q", r.RequeueAfter, outside, want)
	}

	if err := c.Update(t.Context(), networkOf(t, c, wide)); err != nil {
		t.Fatal(err)
	}
	lookAt(t, a, "red/n")
	widened, outside := poolAndOutside(t, c)
	if text := strings.Join(widened, ";"); outside != "" || !strings.Contains(text, "b 10.0.0.7-10.0.0.7 outside") {
		t.Errorf("the network was widened, and granted is %s, outside %q", text, outside)
	}

	if err := c.Delete(t.Context(), definitionOf("red", "n", "")); err != nil {
		t.Fatal(err)
	}
	lookAt(t, a, "red/n")
	after, outside := poolAndOutside(t, c)
	if diff := cmp.Diff(widened, after); diff != "" || !strings.Contains(outside, "the network has no ranges") {
		t.Errorf("I4: the network was deleted: %q, -want +got:\n%s", outside, diff)
	}
}

// The cache lists NodeStates in any order. A pool is not written anew for that, though several
// nodes request addresses outside of the network.
func TestOutsideRequestsInAnyOrder(t *testing.T) {
	objects := []client.Object{networkWith(t, "red", `{"type": "host-local", "subnet": "172.16.91.0/24"}`)}
	for _, node := range []string{"a", "b", "c", "d"} {
		objects = append(objects, newNode(node, nil), requesting(node, []ipam.Run{run("10.0.0.2", "10.0.0.254")}, claim("10.1.0.7", "outside", false)))
	}
	objects = append(objects, newNode("e", nil), requesting("e", []ipam.Run{run("172.16.91.2", "172.16.91.254")}))
	random := rand.New(rand.NewPCG(1, 2))
	c := interceptor.NewClient(newCluster(objects...), interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, list, opts...)
		if states, is := list.(*v1alpha1.NodeStateList); is {
			random.Shuffle(len(states.Items), func(i, k int) { states.Items[i], states.Items[k] = states.Items[k], states.Items[i] })
		}
		return err
	}})
	a := addresses(c, time.Now())
	lookAt(t, a, "red/n")
	before := getPool(t, c, v1alpha1.AddressPoolName("red/n"))
	for i := range 30 {
		lookAt(t, a, "red/n")
		if diff := cmp.Diff(before, getPool(t, c, before.Name)); diff != "" {
			t.Fatalf("look %d wrote the pool of an unchanged cluster (-before +after):\n%s", i+1, diff)
		}
	}
	if _, outside := poolAndOutside(t, c); !strings.HasPrefix(outside, "node a requests ") {
		t.Errorf("condition Outside: %q", outside)
	}
}

// networkOf returns networkWith as an update of the definition that the cluster has.
func networkOf(t *testing.T, c client.Client, section string) *unstructured.Unstructured {
	t.Helper()
	u, there := networkWith(t, "red", section), definitionOf("red", "n", "")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(there), there); err != nil {
		t.Fatal(err)
	}
	u.SetResourceVersion(there.GetResourceVersion())
	return u
}

// I10: the controller reads the declared addresses of networks of all kinds. Addresses
// of type static are the pod's choice; a network that shares another one's pool, or
// that culvertd refuses, has none of its own.
func TestI10WhatNetworksDeclare(t *testing.T) {
	for section, want := range map[string][]string{
		`{"type": "static", "addresses": [{"address": "10.1.0.9/24"}]}`: {"a 10.0.0.7-10.0.0.7 x"},
		`{"type": "static"}`:                                                      {"a 10.0.0.7-10.0.0.7 x"},
		`{"type": "culvert", "poolOf": "blue/n"}`:                                 nil,
		`{"type": "host-local", "subnet": "10.0.0.0/33"}`:                         nil,
		`{"type": "host-local", "subnet": "10.0.0.0/24"}`:                         {"a 10.0.0.2-10.0.0.6", "a 10.0.0.7-10.0.0.7 x", "a 10.0.0.8-10.0.0.39"},
		`{"type": "host-local", "subnet": "fd00::/64"}`:                           nil,
		`{"type": "host-local", "subnet": "10.0.0.0/24", "rangeEnd": "10.0.0.7"}`: {"a 10.0.0.7-10.0.0.7 x"},
	} {
		c := newCluster(newNode("a", nil), networkWith(t, "red", section), requesting("a", []ipam.Run{run("10.0.0.2", "10.0.0.254")}, claim("10.0.0.7", "x", false)))
		lookAt(t, addresses(c, time.Now()), "red/n")
		got, _ := poolAndOutside(t, c)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("I10: %s (-want +got):\n%s", section, diff)
		}
	}
}
