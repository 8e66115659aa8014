// Package metrics shows a node to Prometheus: counts of VFs, pools and problems from the
// node's status, read when Prometheus asks, and the durations of attach and detach, which
// package attach reports as they happen. The daemon serves Handler.
package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/attach"
)

// Node collects the metrics of one node. Make one with NewNode.
type Node struct {
	registry  *prometheus.Registry
	durations map[string]*prometheus.HistogramVec // by operation
}

// buckets are upper bounds of durations in seconds: an attach takes 5 ms on a fast NIC,
// and a VF's function level reset alone takes 100 ms (PCIe 6.0, 6.6.2).
var buckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// NewNode returns the metrics of a node whose status the function reads.
func NewNode(status func(context.Context) (api.NodeStatus, error)) *Node {
	n := &Node{registry: prometheus.NewRegistry(), durations: map[string]*prometheus.HistogramVec{}}
	for _, operation := range []string{attach.OperationAttach, attach.OperationDetach} {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "culvert_" + operation + "_duration_seconds", Buckets: buckets,
			Help: "How long each " + operation + " of a VF took, from the request to the durable outcome.",
		}, []string{"result"})
		n.durations[operation] = h
		n.registry.MustRegister(h)
	}
	n.registry.MustRegister(collector{status})
	return n
}

// Observe adds the duration of an operation: it is attach.Config.Observe.
func (n *Node) Observe(operation string, took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	n.durations[operation].WithLabelValues(result).Observe(took.Seconds())
}

// Handler answers with the metrics in the format that Prometheus reads.
func (n *Node) Handler() http.Handler {
	return promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: scrapeTimeout})
}

// scrapeTimeout is how long reading the node's status may take.
const scrapeTimeout = 10 * time.Second

// collector reads a node's status for each scrape.
type collector struct {
	status func(context.Context) (api.NodeStatus, error)
}

var (
	readyDesc    = prometheus.NewDesc("culvert_ready", "1 when the VFs of the node are made.", nil, nil)
	vfsDesc      = prometheus.NewDesc("culvert_vfs", "VFs of a PF by what they are used for.", []string{"pf", "state"}, nil)
	poolDesc     = prometheus.NewDesc("culvert_pool_vfs", "VFs of a pool by what they are used for.", []string{"pool", "state"}, nil)
	problemsDesc = prometheus.NewDesc("culvert_problems", "Problems that culvert status lists.", nil, nil)
)

// Describe is prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{readyDesc, vfsDesc, poolDesc, problemsDesc} {
		out <- d
	}
}

// Collect is prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	n, err := c.status(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(readyDesc, err)
		return
	}
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	counts := func(d *prometheus.Desc, name string, c api.Counts) {
		gauge(d, c.Free, name, "free")
		gauge(d, c.Used, name, "used")
		gauge(d, c.Quarantined, name, "quarantined")
		gauge(d, c.Making, name, "making")
		gauge(d, c.Unmanaged, name, "unmanaged")
	}
	ready := 0
	if n.Ready {
		ready = 1
	}
	gauge(readyDesc, ready)
	gauge(problemsDesc, len(n.Problems))
	for _, pf := range n.PFs {
		counts(vfsDesc, pf.Name, pf.VFs)
	}
	for _, p := range n.Pools {
		counts(poolDesc, p.Name, p.VFs)
	}
}
