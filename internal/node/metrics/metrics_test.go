package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

func scrapeNode(t testing.TB, n *Node) (code int, text string) {
	t.Helper()
	answer := httptest.NewRecorder()
	n.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Code, string(body)
}

// nodeWith returns the metrics of a node with a status.
func nodeWith(status *api.NodeStatus, failure *error) *Node {
	n := NewNode()
	n.AddStatus(func(context.Context) (api.NodeStatus, error) { return *status, *failure })
	return n
}

func pod(name string) *vf.Owner { return &vf.Owner{Kind: vf.OwnerPod, Name: name} }

// someStatus is the status of a node with one of everything.
func someStatus() api.NodeStatus {
	return api.NodeStatus{
		Ready: true, Version: "v1.2.3", Problems: []api.Problem{{}, {}},
		PFs: []api.PF{
			{PF: vf.PF{Name: "enp1s0", Up: true, Carrier: true, MTU: 1500, CarrierLosses: 3, Faults: []vf.Fault{vf.FaultPCIe}}, Errors: vf.ErrorCounts{Correctable: 8, Nonfatal: 2, Fatal: 1, TxTimeouts: 6}},
			{PF: vf.PF{Name: "enp2s0", Up: true, MTU: 1500, Flapping: true}}, {PF: vf.PF{Name: "enp3s0", Err: "unreadable"}},
		},
		Pools: []api.Pool{{Name: "x/a"}, {Name: "x/empty"}},
		VFs: []api.VF{
			{PF: "enp1s0", Phase: "free", NoCarrier: true}, {PF: "enp1s0", Phase: "free", Traffic: &vf.Traffic{RxBytes: 8}},
			{PF: "enp1s0", Phase: "attached", Name: "enp1s0#2", Pool: "x/a", Network: "default/fast", Owner: pod("default/a"), Traffic: &vf.Traffic{RxBytes: 1 << 40, TxDropped: 3}},
			{PF: "enp1s0", Phase: "attached", Name: "enp1s0#3", Pool: "x/b", Owner: &vf.Owner{Kind: vf.OwnerGuest, Name: "db1"}, Traffic: &vf.Traffic{TxPackets: 5}},
			{PF: "enp1s0", Phase: "attached", Name: "enp1s0#4", Pool: "x/b", Owner: &vf.Owner{Kind: vf.OwnerGuest, Name: "db2"}, Differences: []vf.Difference{{}, {}}},
			{PF: "enp1s0", Phase: "quarantined", Pool: "x/a"}, {PF: "enp1s0", Phase: api.PhaseOutside, Pool: "x/a"},
			{PF: "enp2s0", Phase: "attached", Missing: true, Owner: pod("default/gone")},
		},
		Services:  &api.ServiceBalancing{Mechanism: "eBPF", Services: 2, Backends: 5, NoRoom: []string{"d/a", "d/b"}},
		Ledger:    &api.LedgerFile{Bytes: 65536, Free: 1 << 30, Findings: 1},
		Addresses: []api.AddressUse{{Pool: "net", Used: 3, Free: 13}},
	}
}

// A scrape returns the counts of the status, the observed durations and the counters. Each state and
// kind has a row, so that alerts and graphs have a 0 in place of no value.
func TestScrape(t *testing.T) {
	status, failure := someStatus(), error(nil)
	n := nodeWith(&status, &failure)
	broken := errors.New("nothing free")
	n.ObserveOperation(hold.OperationAttach, 20*time.Millisecond, nil)
	n.ObserveOperation(hold.OperationAttach, 20*time.Millisecond, broken)
	n.ObserveOperation(hold.OperationDetach, 300*time.Millisecond, nil)
	n.ObserveStep(hold.OperationAttach, hold.StepReserve, 8*time.Millisecond, broken)
	n.ObserveStep(hold.OperationDetach, hold.StepReset, 200*time.Millisecond, nil)
	n.ObserveRetry(broken)
	n.ObserveCommit(journal.Commit{Took: 3 * time.Millisecond, Events: []journal.EventKind{{Type: "Warning", Reason: "Quarantined"}, {Type: "Warning", Reason: "Quarantined"}}})
	n.CountFailOver()
	n.CountRequest("update", "nodestates", "conflict")
	code, text := scrapeNode(t, n)
	for _, line := range []string{
		"culvert_ready 1",
		"culvert_problems 2",
		`culvert_build_info{version="v1.2.3"} 1`,
		`culvert_vf_receive_bytes_total{kind="pod",namespace="default",network="default/fast",owner="a",pf="enp1s0",pool="x/a",vf="enp1s0#2"} 1.099511627776e+12`,
		`culvert_vf_transmit_drops_total{kind="pod",namespace="default",network="default/fast",owner="a",pf="enp1s0",pool="x/a",vf="enp1s0#2"} 3`,
		`culvert_vf_transmit_packets_total{kind="vm",namespace="",network="",owner="db1",pf="enp1s0",pool="x/b",vf="enp1s0#3"} 5`,
		`culvert_vfs{kind="",pf="enp1s0",state="free"} 2`,
		`culvert_vfs{kind="pod",pf="enp1s0",state="used"} 1`,
		`culvert_vfs{kind="vm",pf="enp1s0",state="used"} 2`,
		`culvert_vfs{kind="host",pf="enp1s0",state="used"} 0`,
		`culvert_vfs{kind="",pf="enp1s0",state="quarantined"} 1`,
		`culvert_vfs{kind="",pf="enp1s0",state="outside"} 1`,
		`culvert_vfs{kind="",pf="enp1s0",state="making"} 0`,
		`culvert_vfs{kind="pod",pf="enp2s0",state="used"} 0`,
		`culvert_vfs{kind="",pf="enp3s0",state="unmanaged"} 0`,
		`culvert_vfs_with_differences{pf="enp1s0"} 1`,
		`culvert_vfs_with_differences{pf="enp2s0"} 0`,
		`culvert_pf_carrier{pf="enp1s0"} 1`,
		`culvert_pf_carrier{pf="enp2s0"} 0`,
		`culvert_pf_flapping{pf="enp1s0"} 0`,
		`culvert_pf_pcie_errors_total{pf="enp1s0",severity="correctable"} 8`,
		`culvert_pf_pcie_errors_total{pf="enp1s0",severity="nonfatal"} 2`,
		`culvert_pf_pcie_errors_total{pf="enp1s0",severity="fatal"} 1`,
		`culvert_pf_tx_timeouts_total{pf="enp1s0"} 6`,
		`culvert_pf_flapping{pf="enp2s0"} 1`,
		`culvert_pf_faulty{fault="PCIe",pf="enp1s0"} 1`,
		`culvert_pf_faulty{fault="TransmitQueue",pf="enp1s0"} 0`,
		`culvert_pf_vfs_without_carrier{pf="enp1s0"} 1`,
		`culvert_pf_vfs_without_carrier{pf="enp2s0"} 0`,
		`culvert_pf_carrier_losses_total{pf="enp1s0"} 3`,
		`culvert_pool_vfs{pool="x/a",state="used"} 1`,
		`culvert_pool_vfs{pool="x/a",state="outside"} 1`,
		`culvert_pool_vfs{pool="x/empty",state="free"} 0`,
		`culvert_services{mechanism="eBPF"} 2`,
		"culvert_service_backends 5",
		"culvert_services_without_room 2",
		"culvert_ledger_bytes 65536",
		"culvert_ledger_free_bytes 1.073741824e+09",
		"culvert_ledger_findings 1",
		`culvert_node_addresses{pool="net",state="used"} 3`,
		`culvert_node_addresses{pool="net",state="free"} 13`,
		`culvert_attach_duration_seconds_bucket{result="ok",le="0.01"} 0`,
		`culvert_attach_duration_seconds_bucket{result="ok",le="0.025"} 1`,
		`culvert_attach_duration_seconds_count{result="error"} 1`,
		`culvert_detach_duration_seconds_bucket{result="ok",le="0.25"} 0`,
		`culvert_detach_duration_seconds_bucket{result="ok",le="0.5"} 1`,
		`culvert_attach_step_duration_seconds_bucket{result="error",step="reserve",le="0.01"} 1`,
		`culvert_detach_step_duration_seconds_count{result="ok",step="reset"} 1`,
		`culvert_quarantine_retries_total{result="error"} 1`,
		`culvert_quarantine_retries_total{result="ok"} 0`,
		`culvert_ledger_sync_duration_seconds_bucket{le="0.0025"} 0`,
		`culvert_ledger_sync_duration_seconds_bucket{le="0.005"} 1`,
		`culvert_events_total{reason="Quarantined",type="Warning"} 2`,
		`culvert_events_total{reason="BondFailedOver",type="Warning"} 0`,
		`culvert_events_total{reason="Detached",type="Normal"} 0`,
		"culvert_bond_failovers_total 1",
		`culvert_api_requests_total{resource="nodestates",result="conflict",verb="update"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	if strings.Contains(text, `culvert_pf_carrier{pf="enp3s0"}`) {
		t.Error("the carrier of a PF that cannot be read is not known")
	}
	if code != 200 {
		t.Errorf("status %d", code)
	}
	var written strings.Builder
	if err := n.WriteText(&written); err != nil || written.String() != text {
		t.Errorf("WriteText differs from what Prometheus gets: %v\n%s", err, written.String())
	}
	failure = errors.New("the NICs cannot be listed")
	if code, text := scrapeNode(t, n); code != 500 || !strings.Contains(text, failure.Error()) {
		t.Errorf("status %d: %s", code, text)
	}
	if err := n.WriteText(io.Discard); !errors.Is(err, failure) && (err == nil || !strings.Contains(err.Error(), failure.Error())) {
		t.Errorf("WriteText: %v", err)
	}
}

// Names that tenants, administrators and the kernel choose become labels that Prometheus can read, and
// no longer than a bound.
func TestHostileNamesAreBounded(t *testing.T) {
	hostile := "\xff\xfe\"\n}\x00" + strings.Repeat("ü", 4000)
	status, failure := api.NodeStatus{
		Version: hostile, PFs: []api.PF{{PF: vf.PF{Name: hostile, MTU: 1500}}}, Pools: []api.Pool{{Name: hostile}},
		VFs:       []api.VF{{PF: hostile, Name: hostile, Pool: hostile, Network: hostile, Phase: "attached", Owner: &vf.Owner{Kind: vf.OwnerContainer, Name: hostile + "/" + hostile}, Traffic: &vf.Traffic{}}},
		Services:  &api.ServiceBalancing{Mechanism: hostile},
		Addresses: []api.AddressUse{{Pool: hostile}},
	}, error(nil)
	code, text := scrapeNode(t, nodeWith(&status, &failure))
	if code != 200 || !utf8.ValidString(text) {
		t.Errorf("status %d, valid UTF-8: %t", code, utf8.ValidString(text))
	}
	for line := range strings.Lines(text) {
		if len(line) > 7*(longestLabel+40) {
			t.Errorf("a line of %d bytes", len(line))
		}
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "culvert_") {
			t.Errorf("a name breaks the line: %q", line)
		}
	}
	if !strings.Contains(text, `culvert_vfs{kind="container",pf="\\xff\\xfe\"`) {
		t.Errorf("the VF is not counted:\n%.2000s", text)
	}
}

// fullNode returns a node with PFs of 64 VFs each, 256 in all, all in use by pods of 16 networks, and
// with all that a culvertd has ever counted.
func fullNode() api.NodeStatus {
	n := someStatus()
	n.PFs, n.Pools, n.VFs, n.Addresses = nil, nil, nil, nil
	for p := range 4 {
		name := fmt.Sprintf("enp%ds0f0np0", p)
		n.PFs = append(n.PFs, api.PF{PF: vf.PF{Name: name, Up: true, Carrier: true, MTU: 1500}})
		n.Pools = append(n.Pools, api.Pool{Name: "culvert.dev/pool" + name})
		for i := range 64 {
			n.VFs = append(n.VFs, api.VF{
				PF: name, Name: fmt.Sprintf("%s#%d", name, i), Phase: "attached", Pool: "culvert.dev/pool" + name, Network: fmt.Sprintf("tenant-%d/network-%d", i/16, i%16),
				Owner: pod(fmt.Sprintf("tenant-%d/deployment-7d4b9c%d-x%d", i/16, p, i/16)), Traffic: &vf.Traffic{RxBytes: 1 << 50, TxBytes: 1 << 40, RxPackets: 1 << 33, TxPackets: 1 << 33},
			})
		}
	}
	for i := range 16 {
		n.Addresses = append(n.Addresses, api.AddressUse{Pool: fmt.Sprintf("network-%d", i), Used: 16, Free: 16})
	}
	return n
}

// observeAll makes a node count everything that it can.
func observeAll(n *Node) {
	for _, err := range []error{nil, errors.New("failed")} {
		for _, operation := range []string{hold.OperationAttach, hold.OperationDetach} {
			n.ObserveOperation(operation, time.Millisecond, err)
			for _, step := range hold.StepsOf(operation) {
				n.ObserveStep(operation, step, time.Millisecond, err)
			}
		}
	}
}

func countSeries(text string) (series int) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			series++
		}
	}
	return series
}

// The number of series is that of the formula in docs/reference/metrics.md: 8 for each VF with an owner
// and counters, 20 for each PF, 6 for each pool, 2 for each AddressPool, and at most 450 for the node,
// besides those of requests to the API server.
func TestSeriesAreBounded(t *testing.T) {
	status, failure := fullNode(), error(nil)
	n := nodeWith(&status, &failure)
	observeAll(n)
	_, text := scrapeNode(t, n)
	least := 8*256 + 20*4 + 6*4 + 2*16
	series := countSeries(text)
	if rest := series - least; rest < 300 || rest > 450 {
		t.Errorf("%d series, of which the formula explains %d: %d are left", series, least, rest)
	}
}

// BenchmarkScrape measures a scrape of a node with 256 VFs, without the time to read the status:
// test/scale has the whole.
func BenchmarkScrape(b *testing.B) {
	status, failure := fullNode(), error(nil)
	n := nodeWith(&status, &failure)
	observeAll(n)
	_, text := scrapeNode(b, n)
	b.ReportAllocs()
	for b.Loop() {
		scrapeNode(b, n)
	}
	b.ReportMetric(float64(len(text)), "bytes")
	b.ReportMetric(float64(countSeries(text)), "series")
}

// BenchmarkSteps measures what an attach costs more for its metrics: six readings of the clock and
// seven observations.
func BenchmarkSteps(b *testing.B) {
	n := NewNode()
	vfs := hold.New(hold.Config{Observe: n})
	var err error
	b.ReportAllocs()
	for b.Loop() {
		w := vfs.StartWatch(hold.OperationAttach)
		for _, step := range []string{hold.StepReserve, hold.StepConfigure, hold.StepReadBack, hold.StepRecord} {
			w.EndStep(step, nil)
		}
		w.EndOperation(&err)
	}
}
