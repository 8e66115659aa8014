package metrics

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/vf"
)

func scrape(t *testing.T, n *Node) (code int, text string) {
	t.Helper()
	answer := httptest.NewRecorder()
	n.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Code, string(body)
}

// A scrape returns the counts of the status and the observed durations.
func TestScrape(t *testing.T) {
	status := api.NodeStatus{
		Ready: true, Problems: []api.Problem{{}, {}},
		PFs: []api.PF{
			{PF: vf.PF{Name: "enp1s0", Up: true, Carrier: true, MTU: 1500, CarrierLosses: 3, Faults: []vf.Fault{vf.FaultPCIe}}, Errors: vf.ErrorCounts{Correctable: 8, Nonfatal: 2, Fatal: 1, TxTimeouts: 6}, VFs: api.Counts{Total: 7, Free: 4, Used: 2, Quarantined: 1}},
			{PF: vf.PF{Name: "enp2s0", Up: true, MTU: 1500, Flapping: true}}, {PF: vf.PF{Name: "enp3s0", Err: "unreadable"}},
		},
		Pools: []api.Pool{{Name: "x/a", VFs: api.Counts{Total: 3, Used: 3}}},

		VFs: []api.VF{
			{PF: "enp1s0", NoCarrier: true}, {PF: "enp1s0", Traffic: &vf.Traffic{RxBytes: 8}},
			{PF: "enp1s0", Name: "enp1s0#2", Pool: "x/a", Network: "default/fast", Owner: &vf.Owner{Kind: vf.OwnerPod, Name: "default/a"}, Traffic: &vf.Traffic{RxBytes: 1 << 40, TxDropped: 3}},
			{PF: "enp1s0", Name: "enp1s0#3", Pool: "x/b", Owner: &vf.Owner{Kind: vf.OwnerGuest, Name: "db1"}, Traffic: &vf.Traffic{TxPackets: 5}},
			{PF: "enp1s0", Name: "enp1s0#4", Pool: "x/b", Owner: &vf.Owner{Kind: vf.OwnerGuest, Name: "db2"}},
		},
		Services: &api.ServiceBalancing{Mechanism: "eBPF", Services: 2, Backends: 5},
	}
	var failure error
	n := NewNode(func(context.Context) (api.NodeStatus, error) { return status, failure })
	n.Observe(hold.OperationAttach, 20*time.Millisecond, nil)
	n.Observe(hold.OperationAttach, 20*time.Millisecond, errors.New("nothing free"))
	n.Observe(hold.OperationDetach, 300*time.Millisecond, nil)
	code, text := scrape(t, n)
	for _, line := range []string{
		"culvert_ready 1",
		"culvert_problems 2",
		`culvert_vf_receive_bytes_total{kind="pod",namespace="default",network="default/fast",owner="a",pf="enp1s0",pool="x/a",vf="enp1s0#2"} 1.099511627776e+12`,
		`culvert_vf_transmit_drops_total{kind="pod",namespace="default",network="default/fast",owner="a",pf="enp1s0",pool="x/a",vf="enp1s0#2"} 3`,
		`culvert_vf_transmit_packets_total{kind="vm",namespace="",network="",owner="db1",pf="enp1s0",pool="x/b",vf="enp1s0#3"} 5`,
		`culvert_vfs{pf="enp1s0",state="free"} 4`,
		`culvert_vfs{pf="enp1s0",state="used"} 2`,
		`culvert_vfs{pf="enp1s0",state="quarantined"} 1`,
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
		`culvert_pool_vfs{pool="x/a",state="used"} 3`,
		`culvert_services{mechanism="eBPF"} 2`,
		"culvert_service_backends 5",
		`culvert_attach_duration_seconds_bucket{result="ok",le="0.01"} 0`,
		`culvert_attach_duration_seconds_bucket{result="ok",le="0.025"} 1`,
		`culvert_attach_duration_seconds_count{result="error"} 1`,
		`culvert_detach_duration_seconds_bucket{result="ok",le="0.25"} 0`,
		`culvert_detach_duration_seconds_bucket{result="ok",le="0.5"} 1`,
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
	failure = errors.New("the NICs cannot be listed")
	if code, text := scrape(t, n); code != 500 || !strings.Contains(text, failure.Error()) {
		t.Errorf("status %d: %s", code, text)
	}
}
