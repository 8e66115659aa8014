// Package metrics shows a node to Prometheus: counts of VFs, pools and problems from the
// node's status, read when Prometheus asks, and the durations of attach and detach, which
// package attach reports as they happen. The daemon serves Handler.
package metrics

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/vf"
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
	for _, operation := range []string{hold.OperationAttach, hold.OperationDetach} {
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
	servicesDesc = prometheus.NewDesc("culvert_services", "Services over VF networks, by how connections of the node's pods to them are balanced.", []string{"mechanism"}, nil)
	backendsDesc = prometheus.NewDesc("culvert_service_backends", "Endpoints of Services over VF networks.", nil, nil)
	carrierDesc  = prometheus.NewDesc("culvert_pf_carrier", "1 when the link of a PF is up and has carrier.", []string{"pf"}, nil)
	lossesDesc   = prometheus.NewDesc("culvert_pf_carrier_losses_total", "How often a PF has lost its carrier since its driver made the netdevice.", []string{"pf"}, nil)
	flappingDesc = prometheus.NewDesc("culvert_pf_flapping", "1 while the link of a PF is flapping.", []string{"pf"}, nil)
	pcieDesc     = prometheus.NewDesc("culvert_pf_pcie_errors_total", "Errors on PCIe (AER) that a PF and its VFs have reported since culvertd started.", []string{"pf", "severity"}, nil)
	faultyDesc   = prometheus.NewDesc("culvert_pf_faulty", "1 for ten minutes after each error of a PF or its VFs.", []string{"pf", "fault"}, nil)
	darkDesc     = prometheus.NewDesc("culvert_pf_vfs_without_carrier", "Attached VFs whose interface has had no carrier for long although the PF has a link.", []string{"pf"}, nil)
	timeoutsDesc = prometheus.NewDesc("culvert_pf_tx_timeouts_total", "How often a transmit queue of a PF did not send in time since culvertd started.", []string{"pf"}, nil)
	problemsDesc = prometheus.NewDesc("culvert_problems", "Problems that culvert status lists.", nil, nil)
)

// A trafficMetric is a counter of each VF that has an owner and counters.
type trafficMetric struct {
	desc *prometheus.Desc
	of   func(vf.Traffic) uint64
}

var trafficMetrics = []trafficMetric{
	newTrafficMetric("receive_bytes", "Bytes that the VF has received, with headers.", func(t vf.Traffic) uint64 { return t.RxBytes }),
	newTrafficMetric("receive_packets", "Packets that the VF has received.", func(t vf.Traffic) uint64 { return t.RxPackets }),
	newTrafficMetric("receive_drops", "Received packets that the VF's driver has dropped.", func(t vf.Traffic) uint64 { return t.RxDropped }),
	newTrafficMetric("receive_errors", "Received packets with an error.", func(t vf.Traffic) uint64 { return t.RxErrors }),
	newTrafficMetric("transmit_bytes", "Bytes that the VF has sent, with headers.", func(t vf.Traffic) uint64 { return t.TxBytes }),
	newTrafficMetric("transmit_packets", "Packets that the VF has sent.", func(t vf.Traffic) uint64 { return t.TxPackets }),
	newTrafficMetric("transmit_drops", "Packets to send that the VF's driver has dropped.", func(t vf.Traffic) uint64 { return t.TxDropped }),
	newTrafficMetric("transmit_errors", "Packets to send that had an error.", func(t vf.Traffic) uint64 { return t.TxErrors }),
}

func newTrafficMetric(name, help string, of func(vf.Traffic) uint64) trafficMetric {
	labels := []string{"pf", "vf", "pool", "kind", "namespace", "owner", "network"}
	return trafficMetric{prometheus.NewDesc("culvert_vf_"+name+"_total", help, labels, nil), of}
}

// collectTraffic sends the counters of a VF with an owner. A VF without counters has no metric.
func collectTraffic(out chan<- prometheus.Metric, v api.VF) {
	if v.Owner == nil || v.Traffic == nil {
		return
	}
	namespace, name, ok := strings.Cut(v.Owner.Name, "/")
	if !ok {
		namespace, name = "", v.Owner.Name
	}
	for _, m := range trafficMetrics {
		out <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.of(*v.Traffic)),
			v.PF, v.Name, v.Pool, v.Owner.Kind, namespace, name, v.Network)
	}
}

// Describe is prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range trafficMetrics {
		out <- m.desc
	}
	for _, d := range []*prometheus.Desc{readyDesc, vfsDesc, poolDesc, servicesDesc, backendsDesc, carrierDesc, lossesDesc, flappingDesc, pcieDesc, timeoutsDesc, faultyDesc, darkDesc, problemsDesc} {
		out <- d
	}
}

// Names returns the names of the metrics that come from a node's status. tools/refdoc checks that the
// reference has all of them.
func Names() []string {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		collector{}.Describe(descs)
	}()
	fqName := regexp.MustCompile(`fqName: "([^"]*)"`) // Desc does not give its name otherwise
	var names []string
	for d := range descs {
		names = append(names, fqName.FindStringSubmatch(d.String())[1])
	}
	return names
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
	total := func(d *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	counts := func(d *prometheus.Desc, name string, c api.Counts) {
		gauge(d, c.Free, name, "free")
		gauge(d, c.Used, name, "used")
		gauge(d, c.Quarantined, name, "quarantined")
		gauge(d, c.Making, name, "making")
		gauge(d, c.Unmanaged, name, "unmanaged")
	}
	gauge(readyDesc, oneIf(n.Ready))
	gauge(problemsDesc, len(n.Problems))
	if n.Services != nil {
		gauge(servicesDesc, n.Services.Services, n.Services.Mechanism)
		gauge(backendsDesc, n.Services.Backends)
	}
	dark := map[string]int{}
	for _, v := range n.VFs {
		dark[v.PF] += oneIf(v.NoCarrier)
		collectTraffic(out, v)
	}
	for _, pf := range n.PFs {
		for _, f := range vf.Faults() {
			gauge(faultyDesc, oneIf(slices.Contains(pf.Faults, f)), pf.Name, string(f))
		}
		gauge(darkDesc, dark[pf.Name], pf.Name)
		counts(vfsDesc, pf.Name, pf.VFs)
		if pf.MTU > 0 { // else its link could not be read
			gauge(carrierDesc, oneIf(pf.Up && pf.Carrier), pf.Name)
			gauge(flappingDesc, oneIf(pf.Flapping), pf.Name)
			total(lossesDesc, uint64(pf.CarrierLosses), pf.Name)
		}
		total(pcieDesc, pf.Errors.Correctable, pf.Name, "correctable")
		total(pcieDesc, pf.Errors.Nonfatal, pf.Name, "nonfatal")
		total(pcieDesc, pf.Errors.Fatal, pf.Name, "fatal")
		total(timeoutsDesc, pf.Errors.TxTimeouts, pf.Name)
	}
	for _, p := range n.Pools {
		counts(poolDesc, p.Name, p.VFs)
	}
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}
