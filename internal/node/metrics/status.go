package metrics

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/vf"
)

// scrapeTimeout is how long reading the node's status may take.
const scrapeTimeout = 10 * time.Second

// AddStatus adds the metrics of the node's status, which the function reads at each scrape.
func (n *Node) AddStatus(read func(context.Context) (api.NodeStatus, error)) {
	n.registry.MustRegister(collector{read})
}

// collector reads a node's status for each scrape.
type collector struct {
	status func(context.Context) (api.NodeStatus, error)
}

// gauge and counter are metrics of the status with their labels.
var (
	ready       = newGauge("culvert_ready", "1 when the VFs of the node are made.")
	problems    = newGauge("culvert_problems", "Problems that culvert status lists.")
	build       = newGauge("culvert_build_info", "1, with the version of culvertd.", "version")
	vfs         = newGauge("culvert_vfs", "VFs of a PF by what they are used for, and of used ones by the kind of owner.", "pf", "state", "kind")
	poolVFs     = newGauge("culvert_pool_vfs", "VFs of a pool by what they are used for.", "pool", "state")
	differences = newGauge("culvert_vfs_with_differences", "VFs of a PF that differ from their lease or their baseline.", "pf")
	services    = newGauge("culvert_services", "Services over VF networks, by how connections of the node's pods to them are balanced.", "mechanism")
	backends    = newGauge("culvert_service_backends", "Endpoints of Services over VF networks.")
	noRoom      = newGauge("culvert_services_without_room", "Services that the node does not balance since their namespaces use more than their share of its room: of each namespace 8 are counted, and 64 in all.")
	carrier     = newGauge("culvert_pf_carrier", "1 when the link of a PF is up and has carrier.", "pf")
	losses      = newCounterDesc("culvert_pf_carrier_losses_total", "How often a PF has lost its carrier since its driver made the netdevice.", "pf")
	flapping    = newGauge("culvert_pf_flapping", "1 while the link of a PF is flapping.", "pf")
	pcieErrors  = newCounterDesc("culvert_pf_pcie_errors_total", "Errors on PCIe (AER) that a PF and its VFs have reported since culvertd started.", "pf", "severity")
	faulty      = newGauge("culvert_pf_faulty", "1 for ten minutes after each error of a PF or its VFs.", "pf", "fault")
	dark        = newGauge("culvert_pf_vfs_without_carrier", "Attached VFs whose interface has had no carrier for long although the PF has a link.", "pf")
	timeouts    = newCounterDesc("culvert_pf_tx_timeouts_total", "How often a transmit queue of a PF did not send in time since culvertd started.", "pf")
	ledgerBytes = newGauge("culvert_ledger_bytes", "Size of the ledger's file.")
	ledgerFree  = newGauge("culvert_ledger_free_bytes", "Bytes that root may still write to the ledger's file system.")
	findings    = newGauge("culvert_ledger_findings", "Entries of the ledger that are damaged or contradict others, as culvert ledger check lists them.")
	addresses   = newGauge("culvert_node_addresses", "Addresses in the node's blocks of an AddressPool.", "pool", "state")
)

// metric is a metric of the status.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newGauge(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

func newCounterDesc(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

// trafficMetric is a counter of each VF that has an owner and counters.
type trafficMetric struct {
	metric
	of func(vf.Traffic) uint64
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
	return trafficMetric{newCounterDesc("culvert_vf_"+name+"_total", help, "pf", "vf", "pool", "kind", "namespace", "owner", "network"), of}
}

// Describe is prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range trafficMetrics {
		out <- m.desc
	}
	for _, m := range []metric{ready, problems, build, vfs, poolVFs, differences, services, backends, noRoom, carrier, losses, flapping, pcieErrors, faulty, dark, timeouts, ledgerBytes, ledgerFree, findings, addresses} {
		out <- m.desc
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
		out <- prometheus.NewInvalidMetric(ready.desc, err)
		return
	}
	s := scrape{out: out}
	s.sendInt(ready, oneIf(n.Ready))
	s.sendInt(problems, len(n.Problems))
	s.sendInt(build, 1, n.Version)
	if n.Services != nil {
		s.sendInt(services, n.Services.Services, n.Services.Mechanism)
		s.sendInt(backends, n.Services.Backends)
		s.sendInt(noRoom, len(n.Services.NoRoom))
	}
	if n.Ledger != nil {
		s.sendTotal(ledgerBytes, n.Ledger.Bytes)
		s.sendTotal(ledgerFree, n.Ledger.Free)
		s.sendInt(findings, n.Ledger.Findings)
	}
	for _, a := range n.Addresses {
		s.sendTotal(addresses, uint64(a.Used), a.Pool, "used")
		s.sendTotal(addresses, uint64(a.Free), a.Pool, "free")
	}
	byPF, byPool := countVFs(n.VFs)
	for _, pf := range n.PFs {
		s.sendPF(pf, byPF.findTally(pf.Name))
	}
	for _, p := range n.Pools {
		for _, state := range states {
			s.sendInt(poolVFs, byPool.findTally(p.Name).states[state], p.Name, string(state))
		}
	}
	for _, v := range n.VFs {
		s.sendTraffic(v)
	}
}

// scrape sends the metrics of one scrape.
type scrape struct{ out chan<- prometheus.Metric }

func (s scrape) sendInt(m metric, value int, labels ...string) {
	s.sendFloat(m, float64(value), boundLabels(labels...))
}

func (s scrape) sendTotal(m metric, value uint64, labels ...string) {
	s.sendFloat(m, float64(value), boundLabels(labels...))
}

func (s scrape) sendFloat(m metric, value float64, bounded []string) {
	s.out <- prometheus.MustNewConstMetric(m.desc, m.kind, value, bounded...)
}

// longestLabel is above the length of all names that Kubernetes admits: a namespace and a name have
// 317 bytes.
const longestLabel = 320

// boundLabels returns texts as labels: valid UTF-8 on one line, and bounded. Tenants and
// administrators write names of guests and containers, and the kernel takes any bytes for a netdevice.
func boundLabels(texts ...string) (out []string) {
	for _, text := range texts {
		out = append(out, excerpt.Fit(text, longestLabel))
	}
	return out
}

// states are all states, for which each PF and pool has rows.
var states = []status.State{status.Free, status.Used, status.Outside, status.Quarantined, status.Making, status.Unmanaged}

// kinds are the kinds of owners, for which each PF has a row.
var kinds = []string{vf.OwnerPod, vf.OwnerContainer, vf.OwnerGuest, vf.OwnerHost, vf.OwnerClaim}

// tally counts VFs.
type tally struct {
	states            map[status.State]int
	used              map[string]int // by the kind of owner
	dark, differences int
}

// countVFs counts VFs by PF and by pool.
func countVFs(all []api.VF) (byPF, byPool tallies) {
	byPF, byPool = tallies{}, tallies{}
	for _, v := range all {
		byPF.addVF(v.PF, v)
		byPool.addVF(v.Pool, v)
	}
	return byPF, byPool
}

// tallies are the counts of PFs or pools by name.
type tallies map[string]*tally

func (all tallies) addVF(name string, v api.VF) {
	t := all[name]
	if t == nil {
		t = &tally{states: map[status.State]int{}, used: map[string]int{}}
		all[name] = t
	}
	t.dark += oneIf(v.NoCarrier)
	t.differences += oneIf(len(v.Differences) > 0)
	state, counts := status.StateOf(v)
	if !counts {
		return
	}
	t.states[state]++
	if state == status.Used {
		t.used[kindOf(v)]++
	}
}

// findTally returns the counts of a PF or pool; they are 0 for one without VFs.
func (all tallies) findTally(name string) tally {
	if t := all[name]; t != nil {
		return *t
	}
	return tally{}
}

// kindOf returns the kind of a used VF's owner. Culvert's own work on the host has no other one.
func kindOf(v api.VF) string {
	if v.Owner == nil || !slices.Contains(kinds, v.Owner.Kind) {
		return vf.OwnerHost
	}
	return v.Owner.Kind
}

// sendPF sends the metrics of a PF with its VFs.
func (s scrape) sendPF(pf api.PF, t tally) {
	for _, f := range vf.Faults() {
		s.sendInt(faulty, oneIf(slices.Contains(pf.Faults, f)), pf.Name, string(f))
	}
	s.sendInt(dark, t.dark, pf.Name)
	s.sendInt(differences, t.differences, pf.Name)
	for _, state := range states {
		if state != status.Used {
			s.sendInt(vfs, t.states[state], pf.Name, string(state), "")
			continue
		}
		for _, kind := range kinds {
			s.sendInt(vfs, t.used[kind], pf.Name, string(state), kind)
		}
	}
	if pf.MTU > 0 { // else its link could not be read
		s.sendInt(carrier, oneIf(pf.Up && pf.Carrier), pf.Name)
		s.sendInt(flapping, oneIf(pf.Flapping), pf.Name)
		s.sendTotal(losses, uint64(pf.CarrierLosses), pf.Name)
	}
	s.sendTotal(pcieErrors, pf.Errors.Correctable, pf.Name, "correctable")
	s.sendTotal(pcieErrors, pf.Errors.Nonfatal, pf.Name, "nonfatal")
	s.sendTotal(pcieErrors, pf.Errors.Fatal, pf.Name, "fatal")
	s.sendTotal(timeouts, pf.Errors.TxTimeouts, pf.Name)
}

// sendTraffic sends the counters of a VF with an owner. A VF without counters has no metric.
func (s scrape) sendTraffic(v api.VF) {
	if v.Owner == nil || v.Traffic == nil {
		return
	}
	namespace, name, ok := strings.Cut(v.Owner.Name, "/")
	if !ok {
		namespace, name = "", v.Owner.Name
	}
	labels := boundLabels(v.PF, v.Name, v.Pool, v.Owner.Kind, namespace, name, v.Network)
	for _, m := range trafficMetrics {
		s.sendFloat(m.metric, float64(m.of(*v.Traffic)), labels)
	}
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}
