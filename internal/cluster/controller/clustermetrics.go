package controller

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// scrapeTime is how long a scrape may wait for the cache, which is empty at first.
const scrapeTime = 10 * time.Second

// ClusterObjects has the objects that the metrics are about. Their owner does not change them.
type ClusterObjects interface {
	AddressPools(ctx context.Context) ([]v1alpha1.AddressPool, error)
	NodeStates(ctx context.Context) ([]v1alpha1.NodeState, error)
	NodePolicies(ctx context.Context) ([]v1alpha1.NodePolicy, error)
}

// clusterMetrics shows the cluster's AddressPools, nodes and NodePolicies to Prometheus. It reads them
// for each scrape.
type clusterMetrics struct{ objects ClusterObjects }

// NewClusterMetrics returns the metrics of a cluster. tools/refdoc lists them too.
func NewClusterMetrics(objects ClusterObjects) prometheus.Collector { return clusterMetrics{objects} }

// cachedObjects are the objects of the controller's cache, which are read without copying them.
type cachedObjects struct{ cache client.Reader }

// AddressPools is ClusterObjects.
func (c cachedObjects) AddressPools(ctx context.Context) ([]v1alpha1.AddressPool, error) {
	var all v1alpha1.AddressPoolList
	err := c.cache.List(ctx, &all, client.UnsafeDisableDeepCopy)
	return all.Items, err
}

// NodeStates is ClusterObjects.
func (c cachedObjects) NodeStates(ctx context.Context) ([]v1alpha1.NodeState, error) {
	var all v1alpha1.NodeStateList
	err := c.cache.List(ctx, &all, client.UnsafeDisableDeepCopy)
	return all.Items, err
}

// NodePolicies is ClusterObjects.
func (c cachedObjects) NodePolicies(ctx context.Context) ([]v1alpha1.NodePolicy, error) {
	var all v1alpha1.NodePolicyList
	err := c.cache.List(ctx, &all, client.UnsafeDisableDeepCopy)
	return all.Items, err
}

var (
	addressesDesc = prometheus.NewDesc("culvert_addresspool_addresses", "Addresses of an AddressPool: granted ones are in blocks of nodes, and reserved ones are kept for pods that have ended.", []string{"pool", "state"}, nil)
	blocksDesc    = prometheus.NewDesc("culvert_addresspool_blocks", "Blocks of nodes in an AddressPool.", []string{"pool"}, nil)
	waitingDesc   = prometheus.NewDesc("culvert_addresspool_requests_waiting", "Nodes that need addresses of an AddressPool and got none, since none are left.", []string{"pool"}, nil)
	nodesDesc     = prometheus.NewDesc("culvert_nodes", "Nodes with culvertd, by whether their VFs are made.", []string{"state"}, nil)
	policiesDesc  = prometheus.NewDesc("culvert_policies", "NodePolicies: refused ones are not valid, and waiting ones have nodes that do not follow them yet.", []string{"state"}, nil)
)

// serveMetricsOf adds the cluster's metrics to those that the manager serves. Only the controller that
// leads has them: the others do not fill their caches for a scrape. The caller calls end after the
// manager has ended.
func serveMetricsOf(mgr ctrl.Manager) (end func(), err error) {
	m := leaderMetrics{NewClusterMetrics(cachedObjects{mgr.GetClient()}), mgr.Elected()}
	err = metrics.Registry.Register(m)
	if shown := new(prometheus.AlreadyRegisteredError); errors.As(err, shown) { // by another controller of this process, a test's
		return func() {}, nil
	}
	return func() { metrics.Registry.Unregister(m) }, err
}

// leaderMetrics are the metrics of the controller that leads.
type leaderMetrics struct {
	prometheus.Collector
	elected <-chan struct{} // closed when it leads
}

// Collect is prometheus.Collector.
func (m leaderMetrics) Collect(out chan<- prometheus.Metric) {
	select {
	case <-m.elected:
		m.Collector.Collect(out)
	default:
	}
}

// Describe is prometheus.Collector.
func (clusterMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{addressesDesc, blocksDesc, waitingDesc, nodesDesc, policiesDesc} {
		out <- d
	}
}

// Collect is prometheus.Collector.
func (m clusterMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	m.collectPools(ctx, out)
	m.collectNodes(ctx, out)
	m.collectPolicies(ctx, out)
}

func newGauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (m clusterMetrics) collectPools(ctx context.Context, out chan<- prometheus.Metric) {
	pools, err := m.objects.AddressPools(ctx)
	if err != nil { // the scrape fails, rather than show no pools
		out <- prometheus.NewInvalidMetric(addressesDesc, err)
	}
	for i := range pools {
		p := &pools[i]
		reserved := int64(0)
		for _, r := range p.Spec.Reservations {
			if r.Since != nil { // else a node holds it
				reserved++
			}
		}
		out <- newGauge(addressesDesc, float64(p.Status.Granted), p.Name, "granted")
		out <- newGauge(addressesDesc, float64(reserved), p.Name, "reserved")
		out <- newGauge(addressesDesc, float64(max(0, p.Status.Addresses-p.Status.Granted-reserved)), p.Name, "free")
		out <- newGauge(blocksDesc, float64(len(p.Spec.Blocks)), p.Name)
		out <- newGauge(waitingDesc, float64(len(p.Status.Starved)), p.Name)
	}
}

func (m clusterMetrics) collectNodes(ctx context.Context, out chan<- prometheus.Metric) {
	nodes, err := m.objects.NodeStates(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(nodesDesc, err)
		return
	}
	ready := 0
	for i := range nodes {
		if meta.IsStatusConditionTrue(nodes[i].Status.Conditions, v1alpha1.ConditionReady) {
			ready++
		}
	}
	out <- newGauge(nodesDesc, float64(ready), "ready")
	out <- newGauge(nodesDesc, float64(len(nodes)-ready), "not_ready")
}

func (m clusterMetrics) collectPolicies(ctx context.Context, out chan<- prometheus.Metric) {
	policies, err := m.objects.NodePolicies(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(policiesDesc, err)
		return
	}
	counts := map[string]float64{"applied": 0, "waiting": 0, "refused": 0}
	for i := range policies {
		switch conditions := policies[i].Status.Conditions; {
		case meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionValid):
			counts["refused"]++
		case meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionApplied):
			counts["applied"]++
		default:
			counts["waiting"]++
		}
	}
	for state, n := range counts {
		out <- newGauge(policiesDesc, n, state)
	}
}
