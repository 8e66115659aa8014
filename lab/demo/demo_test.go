package demo

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/demo/node"
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
	wantFields(t, Result{VFsCreated: 28, Accel: "tcg", Bond: Bond{Pulls: 2}, VF: Way{Gbps: []float64{1}, PingMS: 2}},
		"vf.gbps", "vf.ping_ms", "overlay.gbps", "overlay.ping_ms", "attach_ms.p50", "attach_ms.p99", "attach_ms.max", "bond.gap_ms", "bond.gap_arp_only_ms", "bond.recovered_ms", "bond.pulls", "bond.connections_lost", "vfs_created", "leaked", "accel")
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
	r.takeMeasured(measured(t))
	fits(t, r)
}

func fits(t *testing.T, report outcome) {
	t.Helper()
	for line := range strings.Lines(report.formatText(screen.Look{Unicode: true})) {
		if n := screen.Columns(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// The demo prints its report and writes it to files, and a problem in it is an error.
func TestReportIsPrintedAndKept(t *testing.T) {
	var out strings.Builder
	d := &demo{Options: Options{Out: filepath.Join(t.TempDir(), "new")}, Steps: lab.NewSteps(&out, false), files: vmFiles}
	defer d.Steps.Close()
	found := GuestResult{Guests: 2, VFsCreated: 14, Pings: []Reach{{From: "a", To: "b", Received: pingsEach}}}
	if err := d.writeReport(found); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{vmFiles.text: "14 made, 14 at their baseline", vmFiles.json: `"guests": 2`} {
		if text, err := os.ReadFile(filepath.Join(d.Out, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, want %s: %s", name, err, want, text)
		}
	}
	d.quoteOutput(node.Node{Name: "worker01"}, "culvert status", []byte("a\nb\n"))
	if !strings.Contains(out.String(), "  worker01# culvert status\n  a\n  b\n\n") {
		t.Errorf("what a command said is not under it: %s", out.String())
	}
	d.noteProblem("%d VFs leaked", 1)
	if err := d.writeReport(found); !errors.Is(err, ErrNotAsItShouldBe) || !strings.Contains(out.String(), "WRONG: 1 VFs leaked") {
		t.Errorf("%v: %s", err, out.String())
	}
	if files, err := os.ReadDir(d.Out); err != nil || len(files) != 2 {
		t.Errorf("%v, %v: want the text and the JSON alone, since this demo has no page", files, err)
	}
}

// Each report says by which means the nodes run, and why it is not KVM, within 100 columns.
func TestMachines(t *testing.T) {
	if got := describeMachines("kvm", ""); !strings.Contains(got, "run by KVM") {
		t.Error(got)
	}
	got := describeMachines("tcg", strings.Repeat("word ", 30)+strings.Repeat("x", 120))
	_, why, _ := strings.Cut(got, "Why not")
	for line := range strings.Lines("Why not" + why) {
		if n := screen.Columns(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.Contains(got, "\n  word") || strings.Count(got, "x") != 120+strings.Count("two ways within", "x") {
		t.Error(got)
	}
}

// A demo does not begin while a report of an earlier run could pass for its own.
func TestBeginTakesAnEarlierReportAway(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, vmFiles.json), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := beginDemo(Options{Name: "t-none", Out: out, Log: io.Discard}, vmFiles)
	if err != nil {
		t.Fatal(err)
	}
	d.Steps.Close()
	if files, err := os.ReadDir(out); err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// A request for the ends of a lab is answered with the reason why there are none, as JSON.
func TestLendEndsSaysWhyNot(t *testing.T) {
	var out strings.Builder
	if err := LendEnds(t.Context(), Options{Name: "t-none", Log: io.Discard}, mostSenders+1, strings.NewReader(""), &out); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.HasPrefix(got, "{") || !strings.Contains(got, "take 1 to 7") {
		t.Error(got)
	}
}
