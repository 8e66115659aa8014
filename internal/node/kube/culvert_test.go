package kube

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// woken waits until the client says that objects may have changed.
func woken(t *testing.T, c *Client) {
	t.Helper()
	select {
	case <-c.ObjectsChanged():
	case <-time.After(5 * time.Minute):
		t.Fatal("nobody is told of the change")
	}
}

// told waits for is to return true. It calls is after each change, and at no other time.
func told(t *testing.T, c *Client, is func() bool) {
	t.Helper()
	for !is() {
		woken(t, c)
	}
}

// The client reads the device plugin's ConfigMap and no other one, and reports its changes and its
// deletion.
func TestDevicePluginConfig(t *testing.T) {
	s, config := newAPI(t)
	s.add("configmaps", "kube-system", "sriovdp-config", nil, map[string]any{"data": map[string]any{"config.json": "{}"}})
	s.add("configmaps", "kube-system", "another", nil, map[string]any{"data": map[string]any{"config.json": "no"}})
	c := start(t, config)
	now := func(want map[string]string) func() bool {
		return func() bool { got, known := c.DevicePluginConfig(); return known && cmp.Equal(got, want) }
	}
	told(t, c, now(map[string]string{"config.json": "{}"}))
	if got := s.log("LIST kube-system/configmaps"); len(got) == 0 || got[0] != "LIST kube-system/configmaps metadata.name=sriovdp-config" {
		t.Errorf("more than its rights allow is asked for: %q", got)
	}
	s.add("configmaps", "kube-system", "sriovdp-config", nil, nil)
	told(t, c, now(map[string]string{}))
	s.add("configmaps", "kube-system", "sriovdp-config", nil, map[string]any{"data": map[string]any{"config.json": "new"}})
	told(t, c, now(map[string]string{"config.json": "new"}))
	s.remove("configmaps", "kube-system", "sriovdp-config")
	told(t, c, now(nil))
	for _, name := range []string{"", "sriovdp-config", "/a", "a/"} {
		if err := c.FollowDevicePlugin(name); err == nil || !strings.Contains(err.Error(), "want namespace/name") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// An empty list of the API server wakes the reader once, since no object would. A kind that is not
// installed never becomes known, and hides no other kind.
func TestNothingIsKnownToo(t *testing.T) {
	s, config := newAPI(t)
	c, err := New(config, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, known := c.AddressPools(); known {
		t.Error("known before anybody was asked")
	}
	s.add("nodes", "", "n1", nil, nil)
	s.absent = []string{"configmaps"}
	c = start(t, config)
	told(t, c, func() bool {
		pools, known := c.AddressPools()
		policies, heard := c.Policies()
		return known && heard && len(pools) == 0 && len(policies) == 0
	})
	if _, known := c.DevicePluginConfig(); known {
		t.Error("what cannot be listed is known")
	}
}

// A node keeps its own blocks of a pool, and those of many other nodes as few runs.
func TestI7PoolsOfManyNodes(t *testing.T) {
	s, config := newAPI(t)
	var all []any
	for i := range 200 {
		all = append(all, map[string]any{"node": fmt.Sprint("n", i), "first": fmt.Sprintf("10.0.0.%d", i), "last": fmt.Sprintf("10.0.0.%d", i)})
	}
	add := func() {
		s.add("addresspools", "", "p", nil, map[string]any{"spec": map[string]any{"network": "d/a", "blocks": all}})
	}
	add()
	c := start(t, config)
	blocks := func() (own, others int) {
		pools, _ := c.AddressPools()
		for _, p := range pools {
			for _, b := range p.Spec.Blocks {
				if b.Node == "n1" {
					own++
				} else {
					others++
				}
			}
		}
		return own, others
	}
	are := func(wantOwn, wantOthers int) func() bool {
		return func() bool { own, others := blocks(); return own == wantOwn && others == wantOthers }
	}
	until(t, "the list", are(1, 2))
	all = append(all, map[string]any{"node": "n1", "first": "10.0.0.200", "last": "10.0.0.201"})
	add()
	until(t, "a change", are(2, 2))
}

// Networks are listed in one order, and the client reports their changes.
func TestNetworks(t *testing.T) {
	s, config := newAPI(t)
	s.addNet("e", "a", "1")
	s.addNet("d", "b", "2")
	c := start(t, config)
	are := func(want ...string) func() bool {
		return func() bool {
			var got []string
			for _, n := range c.Networks() {
				got = append(got, n.Namespace+"/"+n.Name+" "+n.Config+" "+n.Annotations["k8s.v1.cni.cncf.io/resourceName"])
			}
			return slices.Equal(got, want)
		}
	}
	told(t, c, are("d/b 2 a/b", "e/a 1 a/b"))
	s.addNet("d", "b", "3")
	told(t, c, are("d/b 3 a/b", "e/a 1 a/b"))
	s.remove("network-attachment-definitions", "e", "a")
	told(t, c, are("d/b 3 a/b"))
}

// The API server may have a newer CustomResourceDefinition than culvertd. A field of the spec that
// culvertd does not know is named, and hides neither the rest of the policy nor other policies, also
// in an event of a watch.
func TestPolicyWithAnUnknownField(t *testing.T) {
	s, config := newAPI(t)
	s.add("nodepolicies", "", "known", nil, map[string]any{"spec": map[string]any{"priority": 3, "pools": []any{map[string]any{"name": "fast"}}}})
	newer := map[string]any{"spec": map[string]any{"pools": []any{map[string]any{"name": "fast", "frob": true}}}}
	s.add("nodepolicies", "", "listed", nil, newer)
	s.add("nodes", "", "n1", nil, nil)
	c := start(t, config)
	are := func(want string) func() bool {
		return func() bool {
			policies, _ := c.Policies()
			var all []string
			for _, p := range policies {
				all = append(all, fmt.Sprint(p.Name, " ", len(p.Spec.Pools), " ", p.Unknown))
			}
			slices.Sort(all)
			return strings.Join(all, "; ") == want
		}
	}
	const refused = ` 1 it has the field "frob", which this version of Culvert does not know: upgrade culvertd on this node, or remove the field`
	told(t, c, are("known 1 <nil>; listed"+refused))
	s.add("nodepolicies", "", "watched", nil, newer)
	s.add("nodepolicies", "", "listed", nil, map[string]any{"spec": map[string]any{"pools": []any{map[string]any{"name": "fast"}}}})
	told(t, c, are("known 1 <nil>; listed 1 <nil>; watched"+refused))
}

// A policy is for the nodes that have its labels, as they are at the moment. Without a Node object the
// labels are not known, so the policies that select the node are not either.
func TestPoliciesOfTheNode(t *testing.T) {
	s, config := newAPI(t)
	spec := func(labels map[string]any) map[string]any {
		return map[string]any{"spec": map[string]any{"nodeSelector": labels}}
	}
	s.add("nodepolicies", "", "all", nil, spec(nil))
	s.add("nodepolicies", "", "nic", nil, spec(map[string]any{"nic": "igb"}))
	s.add("nodepolicies", "", "other", nil, spec(map[string]any{"nic": "mlx5"}))
	s.add("nodes", "", "n1", map[string]any{"labels": map[string]any{"nic": "igb"}}, nil)
	s.add("nodes", "", "n2", map[string]any{"labels": map[string]any{"nic": "mlx5"}}, nil)
	c := start(t, config)
	are := func(want ...string) func() bool {
		return func() bool {
			policies, known := c.Policies()
			var names []string
			for _, p := range policies {
				names = append(names, p.Name)
			}
			slices.Sort(names)
			return known && slices.Equal(names, want)
		}
	}
	told(t, c, are("all", "nic"))
	s.add("nodes", "", "n1", map[string]any{"labels": map[string]any{"nic": "mlx5"}}, nil)
	told(t, c, are("all", "other"))
	s.remove("nodepolicies", "", "all")
	told(t, c, are("other"))
	s.remove("nodes", "", "n1")
	told(t, c, func() bool { _, known := c.Policies(); return !known })
	if err := c.WhyNoPolicies(); err == nil || !strings.Contains(err.Error(), "no Node object for this node: restart the kubelet") {
		t.Errorf("the Node was deleted: %v", err)
	}
}

// WriteState makes the NodeState with the Node as its owner, and writes over the status that is
// there. Conditions keep their times.
func TestWriteState(t *testing.T) {
	s, config := newAPI(t)
	s.add("nodes", "", "n1", map[string]any{"uid": "u1"}, nil)
	c := start(t, config)
	told(t, c, func() bool { _, known := c.Policies(); return known })
	state := func(version string, ready metav1.ConditionStatus) v1alpha1.NodeStateStatus {
		o := v1alpha1.NodeStateStatus{Version: version}
		o.Conditions = append(o.Conditions, condition(v1alpha1.ConditionReady, ready))
		return o
	}
	read := func() (o v1alpha1.NodeState) {
		if err := c.objects.rest.Get().Resource("nodestates").Name("n1").Do(t.Context()).Into(&o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	if err := c.WriteState(t.Context(), state("1", "True")); err != nil {
		t.Fatal(err)
	}
	first := read()
	if len(first.OwnerReferences) != 1 || first.OwnerReferences[0].UID != "u1" || first.Status.Version != "1" {
		t.Errorf("%+v", first)
	}
	if err := c.WriteState(t.Context(), state("2", "True")); err != nil {
		t.Fatal(err)
	}
	second := read()
	if second.Status.Version != "2" || !second.Status.Conditions[0].LastTransitionTime.Equal(&first.Status.Conditions[0].LastTransitionTime) || len(second.OwnerReferences) != 1 {
		t.Errorf("%+v", second)
	}
	before := len(s.writes())
	if err := c.WriteState(t.Context(), state("2", "True")); err != nil || len(s.writes()) != before {
		t.Errorf("what it says already is written again: %v", err)
	}
	s.remove("nodestates", "", "n1")
	if err := c.WriteState(t.Context(), state("2", "True")); err != nil || read().Status.Version != "2" {
		t.Errorf("it was deleted: %v", err)
	}
	s.setDown(true)
	if err := c.WriteState(t.Context(), state("3", "True")); err == nil {
		t.Error("written while the API server is down")
	}
}

// A write of the NodeState is one request. Only where another writer was first, WriteState reads
// the object, and keeps the fields that are not culvertd's.
func TestWriteStateIsOneRequest(t *testing.T) {
	s, config := newAPI(t)
	s.add("nodes", "", "n1", map[string]any{"uid": "u1"}, nil)
	c := start(t, config)
	told(t, c, func() bool { _, known := c.Policies(); return known })
	at := func(seconds int64) *metav1.MicroTime { return &metav1.MicroTime{Time: time.Unix(seconds, 0)} }
	write := func(version string, observed int64, wantReads, wantWrites int) {
		t.Helper()
		reads, writes := len(s.log("GET /n1")), len(s.writes())
		o := v1alpha1.NodeStateStatus{Version: version, Observed: at(observed), Conditions: []metav1.Condition{condition(v1alpha1.ConditionReady, metav1.ConditionTrue)}}
		if err := c.WriteState(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if reads, writes = len(s.log("GET /n1"))-reads, len(s.writes())-writes; reads != wantReads || writes != wantWrites {
			t.Errorf("version %s: %d reads and %d writes, want %d and %d", version, reads, writes, wantReads, wantWrites)
		}
	}
	there := func() (o v1alpha1.NodeState) {
		if err := c.objects.rest.Get().Resource("nodestates").Name("n1").Do(t.Context()).Into(&o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	write("1", 1, 1, 1) // the first one
	write("2", 2, 0, 1)
	write("3", 3, 0, 1)
	write("3", 4, 1, 0) // a look whether it is still there
	if got := there(); got.Status.Version != "3" || got.Status.Observed.Unix() != 3 {
		t.Errorf("%+v", got.Status)
	}
	s.add("nodestates", "", "n1", map[string]any{"labels": map[string]any{"a": "b"}}, map[string]any{"status": map[string]any{"version": "another writer's"}})
	write("4", 5, 1, 2) // the refused one, and that over the object as it is
	if got := there(); got.Status.Version != "4" || got.Labels["a"] != "b" {
		t.Errorf("%+v", got)
	}
	s.add("nodestates", "", "n1", nil, map[string]any{"status": map[string]any{"version": "another writer's"}})
	write("4", 6, 1, 1)
	write("5", 7, 0, 1)
	s.remove("nodestates", "", "n1")
	write("6", 8, 1, 2)
	again := start(t, config) // culvertd restarted: its first state has its own time, with which Confirmations are compared
	c = again
	write("6", 9, 1, 1)
	if got := there(); got.Status.Observed.Unix() != 9 {
		t.Errorf("observed %v", got.Status.Observed)
	}
}

// Where the NodePolicies cannot be listed, the reason names the next step; it is gone once
// they are known.
func TestWhyNoPolicies(t *testing.T) {
	s, config := newAPI(t)
	s.add("nodes", "", "n1", nil, nil)
	says := func(c *Client, want string) {
		t.Helper()
		until(t, want, func() bool {
			err := c.WhyNoPolicies()
			return err == nil && want == "" || err != nil && want != "" && strings.Contains(err.Error(), want)
		})
	}
	s.absent = []string{"nodepolicies"}
	c := start(t, config)
	says(c, "apply the CustomResourceDefinitions of Culvert's manifest")
	s.mu.Lock()
	s.absent, s.refused = nil, http.StatusForbidden
	s.mu.Unlock()
	says(c, "kubectl auth can-i list nodepolicies.culvert.dev")
	s.mu.Lock()
	s.refused = 0
	s.mu.Unlock()
	says(c, "")
	if _, known := c.Policies(); !known {
		t.Error("the policies are not known")
	}
}
