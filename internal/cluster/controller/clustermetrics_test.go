package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// gatherLines returns the samples of a collector as lines, sorted.
func gatherLines(t *testing.T, c prometheus.Collector) ([]string, error) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	var lines []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line := f.GetName()
			for _, l := range m.GetLabel() {
				line += fmt.Sprintf(" %s=%s", l.GetName(), l.GetValue())
			}
			lines = append(lines, fmt.Sprintf("%s: %v", line, m.GetGauge().GetValue()))
		}
	}
	slices.Sort(lines)
	return lines, err
}

// clusterWithPools has two AddressPools, two nodes and three NodePolicies.
func clusterWithPools() client.WithWatch {
	condition := func(kind string, is metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: is}}
	}
	policy := func(name string, conditions ...metav1.Condition) *v1alpha1.NodePolicy {
		return &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodePolicyStatus{Conditions: conditions}}
	}
	applied := metav1.Condition{Type: v1alpha1.ConditionApplied, Status: metav1.ConditionTrue}
	now := metav1.Now()
	return newCluster(
		&v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Spec: v1alpha1.AddressPoolSpec{
			Blocks:       []v1alpha1.AddressBlock{{Node: "n1"}, {Node: "n2"}},
			Reservations: []v1alpha1.AddressReservation{{Pod: "a/a", Since: &now}, {Pod: "a/b"}},
		}, Status: v1alpha1.AddressPoolStatus{Addresses: 100, Granted: 64, Starved: []string{"n3"}}},
		&v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Status: v1alpha1.AddressPoolStatus{Addresses: 4, Granted: 8}}, // its range became smaller
		&v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1alpha1.NodeStateStatus{Conditions: condition(v1alpha1.ConditionReady, metav1.ConditionTrue)}},
		&v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Status: v1alpha1.NodeStateStatus{Conditions: condition(v1alpha1.ConditionReady, metav1.ConditionFalse)}},
		policy("applied", applied), policy("refused", applied, metav1.Condition{Type: v1alpha1.ConditionValid, Status: metav1.ConditionFalse}), policy("new"),
	)
}

// Prometheus gets the AddressPools, nodes and policies of the cache, and only from the controller that
// leads.
func TestClusterMetrics(t *testing.T) {
	elected := make(chan struct{})
	m := leaderMetrics{NewClusterMetrics(cachedObjects{clusterWithPools()}), elected}
	if got, err := gatherLines(t, m); err != nil || len(got) > 0 {
		t.Errorf("a controller that does not lead shows %q, %v", got, err)
	}
	close(elected)
	got, err := gatherLines(t, m)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"culvert_addresspool_addresses pool=fast state=free: 35",
		"culvert_addresspool_addresses pool=fast state=granted: 64",
		"culvert_addresspool_addresses pool=fast state=reserved: 1",
		"culvert_addresspool_addresses pool=small state=free: 0",
		"culvert_addresspool_addresses pool=small state=granted: 8",
		"culvert_addresspool_addresses pool=small state=reserved: 0",
		"culvert_addresspool_blocks pool=fast: 2",
		"culvert_addresspool_blocks pool=small: 0",
		"culvert_addresspool_requests_waiting pool=fast: 1",
		"culvert_addresspool_requests_waiting pool=small: 0",
		"culvert_nodes state=not_ready: 1",
		"culvert_nodes state=ready: 1",
		"culvert_policies state=applied: 1",
		"culvert_policies state=refused: 1",
		"culvert_policies state=waiting: 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A cache that cannot be read makes the scrape fail, rather than show an empty cluster.
func TestClusterMetricsOfNoCache(t *testing.T) {
	away := errors.New("the cache is not filled")
	c := interceptor.NewClient(newCluster(), interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return away }})
	if got, err := gatherLines(t, NewClusterMetrics(cachedObjects{c})); err == nil {
		t.Errorf("it shows %q", got)
	}
}
