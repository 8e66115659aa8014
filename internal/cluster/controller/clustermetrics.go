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

// clusterMetrics shows the cluster's AddressPools, nodes and NodePolicies to Prometheus. It reads them
// from the controller's cache for each scrape.
type clusterMetrics struct{ cache client.Reader }

// NewClusterMetrics returns the metrics of the cluster whose objects the reader has. tools/refdoc lists
// them.
func NewClusterMetrics(cache client.Reader) prometheus.Collector { return clusterMetrics{cache} }

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
	m := leaderMetrics{NewClusterMetrics(mgr.GetClient()), mgr.Elected()}
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

// list reads objects without copying them. A failure becomes one of the scrape.
func (m clusterMetrics) list(ctx context.Context, into client.ObjectList, d *prometheus.Desc, out chan<- prometheus.Metric) {
	if err := m.cache.List(ctx, into, client.UnsafeDisableDeepCopy); err != nil {
		out <- prometheus.NewInvalidMetric(d, err)
	}
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (m clusterMetrics) collectPools(ctx context.Context, out chan<- prometheus.Metric) {
	var pools v1alpha1.AddressPoolList
	m.list(ctx, &pools, addressesDesc, out)
	for i := range pools.Items {
		p := &pools.Items[i]
		reserved := int64(0)
		for _, r := range p.Spec.Reservations {
			if r.Since != nil { // else a node holds it
				reserved++
			}
		}
		out <- gauge(addressesDesc, float64(p.Status.Granted), p.Name, "granted")
		out <- gauge(addressesDesc, float64(reserved), p.Name, "reserved")
		out <- gauge(addressesDesc, float64(max(0, p.Status.Addresses-p.Status.Granted-reserved)), p.Name, "free")
		out <- gauge(blocksDesc, float64(len(p.Spec.Blocks)), p.Name)
		out <- gauge(waitingDesc, float64(len(p.Status.Starved)), p.Name)
	}
}

func (m clusterMetrics) collectNodes(ctx context.Context, out chan<- prometheus.Metric) {
	var nodes v1alpha1.NodeStateList
	m.list(ctx, &nodes, nodesDesc, out)
	ready := 0
	for i := range nodes.Items {
		if meta.IsStatusConditionTrue(nodes.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
			ready++
		}
	}
	out <- gauge(nodesDesc, float64(ready), "ready")
	out <- gauge(nodesDesc, float64(len(nodes.Items)-ready), "not_ready")
}

func (m clusterMetrics) collectPolicies(ctx context.Context, out chan<- prometheus.Metric) {
	var policies v1alpha1.NodePolicyList
	m.list(ctx, &policies, policiesDesc, out)
	counts := map[string]float64{"applied": 0, "waiting": 0, "refused": 0}
	for i := range policies.Items {
		switch conditions := policies.Items[i].Status.Conditions; {
		case meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionValid):
			counts["refused"]++
		case meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionApplied):
			counts["applied"]++
		default:
			counts["waiting"]++
		}
	}
	for state, n := range counts {
		out <- gauge(policiesDesc, n, state)
	}
}
