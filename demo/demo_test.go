package demo

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
)

// The network is the report's, but for the range of the node and the device.
func TestVFConfigIsTheReports(t *testing.T) {
	name, config, err := vfConfig(reportObjects, 2, "0000:01:10.0")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(config, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"type": "sriov", "cniVersion": "0.3.1", "name": "sriov-network", "deviceID": "0000:01:10.0",
		"ipam": map[string]any{
			"type": "host-local", "subnet": "172.16.91.0/24", "gateway": "172.16.91.1",
			"routes":     []any{map[string]any{"dst": "0.0.0.0/0"}},
			"rangeStart": "172.16.91.40", "rangeEnd": "172.16.91.59",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || name != "sriov-network" {
		t.Errorf("%s: -want +got:\n%s", name, diff)
	}
	for _, bad := range []string{"", "a: [", "spec: {config: '{'}", "spec: {config: '{\"name\": \"a\"}'}"} {
		if _, config, err := vfConfig([]byte(bad), 1, ""); err == nil {
			t.Errorf("%q: %s", bad, config)
		}
	}
}

// demo.json has the fields that others read, under their names.
func TestResultsFields(t *testing.T) {
	wantFields(t, Result{VFsCreated: 28, Accel: "tcg", VF: Way{Gbps: []float64{1}, PingMS: 2}},
		"vf.gbps", "vf.ping_ms", "overlay.gbps", "overlay.ping_ms", "attach_ms.p50", "attach_ms.p99", "vfs_created", "leaked", "accel")
}

// wantFields fails the test where a report lacks a field, named by its path.
func wantFields(t *testing.T, report any, fields ...string) {
	t.Helper()
	body, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	for _, field := range fields {
		at := got
		keys := strings.Split(field, ".")
		for i, key := range keys {
			v, ok := at[key]
			if !ok {
				t.Errorf("%s is missing in %s", field, body)
			}
			if i < len(keys)-1 {
				at, _ = v.(map[string]any)
			}
		}
	}
}

func TestReportFitsAHundredColumns(t *testing.T) {
	r := Result{VFsCreated: 28, Accel: "tcg", WhyNotKVM: "a guest dies: " + strings.Repeat("x", 150) + strings.Repeat(" word", 50)}
	fits(t, r)
	r.take(measured(t))
	fits(t, r)
}

func fits(t *testing.T, report outcome) {
	t.Helper()
	for line := range strings.Lines(report.text(bench.Look{Unicode: true})) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// A sign of life comes after silence alone.
func TestSignOfLifeAfterSilence(t *testing.T) {
	var out strings.Builder
	s := newSteps(&out, false)
	s.step("a")
	began := s.began
	s.show("it says something\n")
	s.mu.Lock()
	s.said = began.Add(quietTick / 2)
	s.mu.Unlock()
	for _, after := range []time.Duration{quietTick, 2 * quietTick, 5 * quietTick / 2} {
		s.alive(began.Add(after))
	}
	s.close()
	if n := strings.Count(out.String(), "still: a"); n != 1 {
		t.Errorf("%d signs of life, want the one after 20 s: %s", n, out.String())
	}
}

// Steps of another progress come out by our clock, whole.
func TestStepsTakeOthersLines(t *testing.T) {
	var out strings.Builder
	s := newSteps(&out, false)
	for _, text := range []string{"  0.1s  booting 2 nodes (tcg)\n", "12.0s  a\n 13.0s  b\n", "\r\x1b[K", "no step\n"} {
		if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	s.close()
	want := "   0.0s  booting 2 nodes (tcg)\n   0.0s  a\n   0.0s  b\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
