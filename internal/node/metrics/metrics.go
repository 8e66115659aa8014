// Package metrics shows a node to Prometheus: what the node's status says when Prometheus asks, and
// counters of what happens between two scrapes. Packages attach/hold, journal, bond and kube report
// these as they happen. The daemon serves Handler, and WriteText to the CLI.
package metrics

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"

	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
)

// Node collects the metrics of one node. Make one with NewNode.
type Node struct {
	registry   *prometheus.Registry
	operations map[string]*prometheus.HistogramVec // by operation
	steps      map[string]*prometheus.HistogramVec // by operation
	syncs      prometheus.Observer
	events     *prometheus.CounterVec
	retries    *prometheus.CounterVec
	failovers  prometheus.Counter
	requests   *prometheus.CounterVec
}

// buckets are upper bounds of durations in seconds: an attach takes 5 ms on a fast NIC,
// and a VF's function level reset alone takes 100 ms (PCIe 6.0, 6.6.2).
var buckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// syncBuckets are those of a commit of the ledger: a disk with a cache that survives a power cut
// needs less than a millisecond.
var syncBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}

// Results of operations.
const (
	resultOK    = "ok"
	resultError = "error"
)

// NewNode returns the metrics of a node without those of its status, which AddStatus adds.
func NewNode() *Node {
	n := &Node{registry: prometheus.NewRegistry(), operations: map[string]*prometheus.HistogramVec{}, steps: map[string]*prometheus.HistogramVec{}}
	for _, operation := range []string{hold.OperationAttach, hold.OperationDetach} {
		n.operations[operation] = n.newHistogram("culvert_"+operation+"_duration_seconds", buckets,
			"How long each "+operation+" of a VF took, from the request to the durable outcome.", "result")
		n.steps[operation] = n.newHistogram("culvert_"+operation+"_step_duration_seconds", buckets,
			"How long each step of each "+operation+" of a VF took.", "step", "result")
	}
	n.syncs = n.newHistogram("culvert_ledger_sync_duration_seconds", syncBuckets, "How long it took to write and sync each transaction of the ledger.").WithLabelValues()
	n.events = n.newCounter("culvert_events_total", "Events that culvertd has written to the ledger since it started.", "type", "reason")
	for _, e := range reasons.LedgerEvents() {
		n.events.WithLabelValues(e.Type, e.Reason)
	}
	n.retries = n.newCounter("culvert_quarantine_retries_total", "Retries of VFs in quarantine since culvertd started; ok: the VF is clean.", "result")
	n.retries.WithLabelValues(resultOK)
	n.retries.WithLabelValues(resultError)
	n.failovers = n.newCounter("culvert_bond_failovers_total", "Bonds that culvertd has moved away from a PF since it started. A move that the kernel made first is not among them.").WithLabelValues()
	n.requests = n.newCounter("culvert_api_requests_total", "Requests of culvertd to the API server since it started.", "verb", "resource", "result")
	return n
}

func (n *Node) newHistogram(name string, bounds []float64, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Buckets: bounds, Help: help}, labels)
	n.registry.MustRegister(h)
	return h
}

func (n *Node) newCounter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	n.registry.MustRegister(c)
	return c
}

func resultOf(err error) string {
	if err != nil {
		return resultError
	}
	return resultOK
}

// ObserveOperation adds the duration of an attach or a detach.
func (n *Node) ObserveOperation(operation string, took time.Duration, err error) {
	n.operations[operation].WithLabelValues(resultOf(err)).Observe(took.Seconds())
}

// ObserveStep adds the duration of a step of an attach or a detach.
func (n *Node) ObserveStep(operation, step string, took time.Duration, err error) {
	n.steps[operation].WithLabelValues(step, resultOf(err)).Observe(took.Seconds())
}

// ObserveRetry counts a retry of a VF in quarantine.
func (n *Node) ObserveRetry(err error) { n.retries.WithLabelValues(resultOf(err)).Inc() }

// ObserveCommit counts a transaction of the ledger and its events.
func (n *Node) ObserveCommit(c journal.Commit) {
	n.syncs.Observe(c.Took.Seconds())
	for _, e := range c.Events {
		n.events.WithLabelValues(e.Type, e.Reason).Inc()
	}
}

// CountFailOver counts a bond that culvertd moved away from a PF.
func (n *Node) CountFailOver() { n.failovers.Inc() }

// CountRequest counts a request to the API server.
func (n *Node) CountRequest(verb, resource, result string) {
	n.requests.WithLabelValues(verb, resource, result).Inc()
}

// Handler answers with the metrics in the format that Prometheus reads.
func (n *Node) Handler() http.Handler {
	return promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: scrapeTimeout})
}

// WriteText writes the metrics as text, without times.
func (n *Node) WriteText(w io.Writer) error {
	families, err := n.registry.Gather()
	if err != nil {
		return fmt.Errorf("read the metrics: %w", err)
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return fmt.Errorf("write the metrics: %w", err)
		}
	}
	return nil
}
