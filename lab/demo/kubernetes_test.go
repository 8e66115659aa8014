package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/floor"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/lab/demo/node"
)

// demo-k8s.json has the fields that others read, under their names.
func TestKubernetesResultFields(t *testing.T) {
	wantFields(t, KubernetesResult{Result: &Result{VF: Way{Gbps: []float64{1}}, Overlay: Way{Gbps: []float64{2}}}},
		"vf.gbps", "overlay.gbps", "attach_ms.p50", "attach_ms.p99", "attach_ms.max", "without_vf_ms.p50", "floor_ms.p50",
		"cni", "api_requests_per_attach", "duplicate_addresses", "leaked", "nodes_ready_s")
}

func TestKubernetesReportFitsAHundredColumns(t *testing.T) {
	r := KubernetesResult{
		Result: &Result{Attach: bench.Percentiles{P50: 123456, Max: 123456, N: 100}, VFsCreated: 28, Accel: "tcg"}, Attachments: 100, Pods: 1000,
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

// The floor program can parse each of its calls in the script.
func TestFloorScript(t *testing.T) {
	script := floorScript("enp2s0", "floor", "0000:02:10.0", "enp2s0v0")
	var got []string
	for line := range strings.Lines(script) {
		args, calls := strings.CutPrefix(strings.TrimSpace(line), floorProgram+" ")
		if !calls {
			continue
		}
		work, err := floor.Parse(strings.Fields(args))
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		got = append(got, fmt.Sprintf("%T", work))
	}
	if diff := cmp.Diff([]string{"floor.Attach", "floor.Detach", "floor.Make"}, got); diff != "" {
		t.Errorf("-want +got:\n%s\n%s", diff, script)
	}
	if got, err := parseFloor("100000\n300000\n"); err != nil || int(got.Max) != 300 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := parseFloor("100 ms\n"); err == nil {
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

// Only culvertd's own requests since then count. Those that an answer waits for are counted apart
// from those after it.
func TestCountRequests(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	name := "timed-worker01"
	event := func(after time.Duration, user, verb, resource, stage string) string {
		var e auditEvent
		e.Object.Name = name
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
		event(time.Second, culvertd, "patch", "pods", done) + event(time.Second, culvertd, "update", "nodestates", done) +
		event(time.Second, culvertd, "create", "events", done)
	name = withoutVF + "worker01"
	events += event(time.Second, culvertd, "patch", "pods", done)
	if err := os.WriteFile(log, []byte(events), 0o600); err != nil {
		t.Fatal(err)
	}
	k := &kubernetes{demo: &demo{Options: Options{Attachments: 4}}, cluster: &cluster.Cluster{AuditLog: log}}
	if err := k.countRequests(since); err != nil || k.found.APIRequests != 0.25 || k.found.APIWrites != 0.75 || k.found.APIStates != 0.25 {
		t.Errorf("%v: %v and %v, %v an attachment", err, k.found.APIRequests, k.found.APIWrites, k.found.APIStates)
	}
	if err := os.WriteFile(log, []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := k.countRequests(since); err == nil {
		t.Error("no error for what is not JSON")
	}
}

// worker is a node whose kubelet still takes down its pods' networks for some more readings.
type worker struct {
	busy int
	told api.VF
}

// ended is a run of the demo whose pods have been deleted.
func ended(t *testing.T, workers ...*worker) *kubernetes {
	t.Helper()
	d := &demo{Steps: lab.NewSteps(io.Discard, false), pace: time.Millisecond}
	t.Cleanup(d.Steps.Close)
	for i := range workers {
		d.nodes = append(d.nodes, node.Node{Name: fmt.Sprint("worker", i), Number: i})
		d.before = append(d.before, node.VFs{"enp1s0#0": "clean"})
	}
	d.kernel = func(_ context.Context, n node.Node) (node.VFs, error) {
		if workers[n.Number].busy > 0 {
			return node.VFs{"enp1s0#0": "a pod's"}, nil
		}
		return node.VFs{"enp1s0#0": "clean"}, nil
	}
	d.culvert = func(_ context.Context, n node.Node) (api.NodeStatus, error) {
		w := workers[n.Number]
		if w.busy--; w.busy >= 0 {
			return api.NodeStatus{VFs: []api.VF{{Name: "enp1s0#0", Phase: "releasing"}}}, nil
		}
		return api.NodeStatus{VFs: []api.VF{w.told}}, nil
	}
	return &kubernetes{demo: d}
}

// The demo waits for VFs that the kubelets have not yet returned. A VF that is free and is not as
// it was has leaked.
func TestComparisonWaitsForKubelets(t *testing.T) {
	free := api.VF{Name: "enp1s0#0", Phase: "free"}
	k := ended(t, &worker{told: free}, &worker{busy: 3, told: free})
	if err := k.compareVFs(t.Context()); err != nil || k.result.Leaked != 0 {
		t.Errorf("%d leaked, %v: %q", k.result.Leaked, err, k.problems)
	}
	dirty := free
	dirty.Differences = []vf.Difference{{}}
	k = ended(t, &worker{told: free}, &worker{busy: 3, told: dirty})
	if err := k.compareVFs(t.Context()); err != nil || k.result.Leaked != 1 {
		t.Errorf("%d leaked, %v: %q", k.result.Leaked, err, k.problems)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	k = ended(t, &worker{told: api.VF{Name: "enp1s0#0", Phase: "quarantined"}})
	if err := k.compareVFs(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("compared while a VF is not free: %v, %q", err, k.problems)
	}
}

// A pod of the demo asks for a node and for a network only where it is given one.
func TestPodManifest(t *testing.T) {
	for _, asked := range []struct{ node, network string }{{"worker01", "first"}, {"", "first"}, {"worker02", ""}} {
		var pod struct {
			Metadata struct {
				Name        string            `yaml:"name"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"metadata"`
			Spec struct {
				NodeName string `yaml:"nodeName"`
			} `yaml:"spec"`
		}
		if err := yaml.Unmarshal([]byte(podManifest("timed", asked.node, asked.network)), &pod); err != nil {
			t.Fatal(err)
		}
		if pod.Metadata.Name != "timed" || pod.Spec.NodeName != asked.node || pod.Metadata.Annotations["k8s.v1.cni.cncf.io/networks"] != asked.network {
			t.Errorf("%+v: %+v", asked, pod)
		}
	}
}

// Guests and containers have different addresses in one subnet.
func TestAddressesOfTheGuestsDemo(t *testing.T) {
	seen := map[string]bool{}
	for number := 1; number <= nodeCount; number++ {
		for _, guest := range []bool{true, false} {
			seen[vmAddress(node.Node{Number: number}, guest).String()] = true
		}
	}
	if len(seen) != 2*nodeCount || !seen["10.77.0.11/24"] || !seen["10.77.0.22/24"] {
		t.Error(seen)
	}
}
