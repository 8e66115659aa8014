package demo

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/lab/cluster"
)

// demo-k8s.json has the fields that others read, under their names.
func TestKubernetesResultFields(t *testing.T) {
	wantFields(t, KubernetesResult{Result: &Result{VF: Way{Gbps: []float64{1}}, Overlay: Way{Gbps: []float64{2}}}},
		"vf.gbps", "overlay.gbps", "attach_ms.p50", "attach_ms.p99", "without_vf_ms.p50", "floor_ms.p50",
		"api_requests_per_attach", "duplicate_addresses", "leaked", "nodes_ready_s")
}

func TestKubernetesReportFitsAHundredColumns(t *testing.T) {
	r := KubernetesResult{
		Result: &Result{Attach: bench.Percentiles{P50: 123456, P99: 123456}, VFsCreated: 28, Accel: "tcg"}, Attachments: 100, Pods: 1000,
		WithoutVF: bench.Percentiles{P50: 12345}, Floor: bench.Percentiles{P50: 1234}, NodesReady: 1234, Installed: 1234, PodsPerMinute: 1000,
		ResidentMiB: map[string]float64{"culvertd": 123, "culvert-controller": 123},
	}
	fits(t, r)
}

func TestParseSetUps(t *testing.T) {
	const name = "containerd_cri_network_plugin_operations_duration_seconds_seconds_"
	for metrics, want := range map[string]setUp{
		"": {},
		"# HELP " + name + "sum{operation_type=\"set_up_pod\"} 9\n":                                           {},
		name + "bucket{operation_type=\"set_up_pod\",le=\"10\"} 1\n":                                          {},
		name + "sum{operation_type=\"tear_down_pod\"} 9\n":                                                    {},
		name + "sum{operation_type=\"set_up_pod\"} 6.5\n" + name + "count{operation_type=\"set_up_pod\"} 2\n": {2, 6500 * time.Millisecond},
	} {
		if got, err := parseSetUps(metrics); err != nil || got != want {
			t.Errorf("%q: %+v, %v", metrics, got, err)
		}
	}
	if got, err := parseSetUps(name + "sum{operation_type=\"set_up_pod\"} many\n"); err == nil {
		t.Errorf("%+v", got)
	}
}

func TestVFAddresses(t *testing.T) {
	pods := func(status ...string) (l list) {
		for i, s := range status {
			var item item
			item.Metadata.Name = string(rune('a' + i))
			item.Metadata.Annotations = map[string]string{"k8s.v1.cni.cncf.io/network-status": s}
			l.Items = append(l.Items, item)
		}
		return l
	}
	got, err := pods(`[{"default": true, "ips": ["10.244.0.2"]}, {"ips": ["10.9.0.1", "fd00::1"]}]`).vfAddresses()
	want := map[string][]netip.Addr{"a": {netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("fd00::1")}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	for _, bad := range []string{"", `[]`, `[{"default": true, "ips": ["10.244.0.2"]}]`, `[{"ips": ["x"]}]`} {
		if got, err := pods(bad).vfAddresses(); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

// Only what culvertd itself asked since then counts, and what an answer waits
// for is told from what comes behind it.
func TestCountRequests(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	event := func(after time.Duration, user, verb, resource, stage string) string {
		var e auditEvent
		e.Stage, e.Verb, e.User.Name, e.Object.Resource, e.Received = stage, verb, user, resource, since.Add(after)
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return string(line) + "\n"
	}
	const culvertd, done = "system:serviceaccount:" + cluster.Namespace + ":culvertd", "ResponseComplete"
	log := filepath.Join(t.TempDir(), "audit.log")
	events := event(-time.Second, culvertd, "get", "pods", done) + event(time.Second, culvertd, "get", "pods", done) +
		event(time.Second, culvertd, "get", "pods", "RequestReceived") + event(time.Second, "system:node:a", "get", "pods", done) +
		event(time.Second, culvertd, "watch", "pods", done) + event(time.Second, culvertd, "get", "leases", done) +
		event(time.Second, culvertd, "patch", "pods", done) + event(time.Second, culvertd, "update", "nodestates", done)
	if err := os.WriteFile(log, []byte(events), 0o600); err != nil {
		t.Fatal(err)
	}
	k := &kubernetes{demo: &demo{Options: Options{Attachments: 4}}, Cluster: &cluster.Cluster{AuditLog: log}}
	if err := k.countRequests(since); err != nil || k.found.APIRequests != 0.25 || k.found.APIWrites != 0.5 {
		t.Errorf("%v: %v and %v an attachment", err, k.found.APIRequests, k.found.APIWrites)
	}
	if err := os.WriteFile(log, []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := k.countRequests(since); err == nil {
		t.Error("no error for what is not JSON")
	}
}
