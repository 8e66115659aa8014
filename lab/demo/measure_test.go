package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/lab"
)

// example is a result as culvert-bench writes it, of both ways.
const example = "../../bench/report/testdata/example.json"

func measured(t *testing.T) bench.Result {
	t.Helper()
	r, err := readResult(example)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The figures of demo.json are culvert bench's, in the units that its readers know.
func TestTakeSortsByWay(t *testing.T) {
	r := bench.Result{
		Arms: []bench.Arm{
			{Path: bench.Path{Network: "overlay", From: bench.End{Machine: "a"}, To: bench.End{Machine: "b"}}, Workload: bench.Workload{Kind: bench.Stream}},
			{Path: bench.Path{Network: "VF"}, Workload: bench.Workload{Kind: bench.Echo}},
			{Path: bench.Path{Network: "host"}, Workload: bench.Workload{Kind: bench.Stream}},
		},
	}
	again := uint64(7)
	use := bench.Evidence{CPU: bench.CPUUse{Seconds: 4, User: 1}}
	r.Runs = []bench.Run{
		{Arm: 0, Seconds: 4, Bytes: 1e9, Gbps: 2, Retransmits: &again, From: use, To: use},
		{Arm: 0, Gbps: 9, Void: "it took another way"},
		{Arm: 1, Delays: &bench.Delays{Mean: 1000}}, {Arm: 1, Delays: &bench.Delays{Mean: 3000}},
		{Arm: 2, Gbps: 5},
	}
	var got Result
	got.takeMeasured(r)
	o := got.Overlay
	if len(o.Gbps) != 1 || o.Gbps[0] != 2 || o.Gigabits[0] != 8 || o.Retransmits[0] != 7 || math.Abs(o.CPU[0]-0.25) > 1e-9 || o.PingMS != 0 {
		t.Errorf("overlay %+v: want 2 Gb/s, 8 Gb, 7 retransmits, 2 s of processors for 8 Gb", o)
	}
	if got.VF.PingMS != 2 || len(got.VF.Gbps) != 0 {
		t.Errorf("VF %+v: want 2 ms", got.VF)
	}
	if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
}

// benchAs puts a culvert-bench into PATH that runs a script: "$result" is the example's file, and
// "$out" the one that it is to write; "$empty" is one without runs.
func benchAs(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	path, err := filepath.Abs(example)
	if err != nil {
		t.Fatal(err)
	}
	none := measured(t)
	none.Runs, none.Printed = nil, nil
	var empty bytes.Buffer
	if err := errors.Join(
		bench.Write(&empty, none),
		os.WriteFile(filepath.Join(dir, "empty.json"), empty.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, "culvert-bench"), []byte("#!/bin/sh\nout=$3 result='"+path+"' empty='"+dir+"/empty.json'\n"+script), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// The demo shows the text of culvert-bench, takes its result, and notes a result that is not whole.
// If culvert-bench writes none, the demo fails with its last line.
func TestMeasureRunsBench(t *testing.T) {
	for _, c := range []struct{ name, script, err, shows, wrong string }{
		{name: "whole", script: `echo "$@" >&2; cp "$result" "$out"`},
		{name: "not whole", script: `echo "$@" >&2; sed '2i "unfinished": "it is late",' "$result" >"$out"; exit 1`, shows: "not all was measured: it is late"},
		{name: "whole at the second time", script: `echo "$@" >&2; [ -e "$0.once" ] && empty=$result; touch "$0.once"; cp "$empty" "$out"`, shows: "once more: the overlay has 0 runs"},
		{name: "without runs", script: `echo "$@" >&2; cp "$empty" "$out"`, wrong: "the overlay has 0 runs"},
		{name: "none", script: "echo first >&2; echo no way in >&2; exit 1", err: "no way in"},
		{name: "whole, and something is left", script: `cp "$result" "$out"; echo left behind >&2; exit 1`, err: "left behind"},
		{name: "not readable", script: `echo '{}' >"$out"`, err: "has the schema"},
	} {
		t.Run(c.name, func(t *testing.T) {
			benchAs(t, c.script)
			var log bytes.Buffer
			d := &demo{Steps: lab.NewSteps(&log, false)}
			err := d.measureWays(t.Context(), "lab:x/worker01,netns=a", "lab:x/worker02,netns=b")
			d.Steps.Close()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v; want %q", err, c.err)
				}
				return
			}
			if err != nil || c.wrong == "" && (len(d.result.VF.Gbps) == 0 || len(d.result.Overlay.CPU) == 0 || d.result.Overlay.PingMS == 0) {
				t.Errorf("%v: %+v", err, d.result)
			}
			if shown := log.String(); !strings.Contains(shown, c.shows) || !strings.Contains(shown, "m3 m4 m5 --rough --repeats 6 --seconds 1 --from lab:x/worker01,netns=a --to lab:x/worker02,netns=b") {
				t.Errorf("shown:\n%s", shown)
			}
			if said := strings.Join(d.problems, "; "); (c.wrong == "") != (said == "") || !strings.Contains(said, c.wrong) {
				t.Errorf("problems %q, want %q", said, c.wrong)
			}
			page, measurements, err := d.result.formatPage("r.json.gz")
			if err != nil || c.wrong == "" && (!bytes.Contains(page, []byte("<svg")) || len(measurements) == 0) {
				t.Errorf("%v: a page of %d bytes", err, len(page))
			}
		})
	}
}

// The demo fails if each run over the VF is slower than each run over the overlay. Runs that overlap
// prove nothing, as on a busy machine.
func TestJudgeGain(t *testing.T) {
	for name, tc := range map[string]struct {
		vf, overlay      []float64
		problem, unclear string
	}{
		"faster":               {vf: []float64{5, 6, 7}, overlay: []float64{3, 4, 8}},
		"slower":               {vf: []float64{1, 2, 2.5}, overlay: []float64{3, 4, 8}, problem: "0.50 times"},
		"slower, and overlaps": {vf: []float64{1, 2, 3.5}, overlay: []float64{3, 4, 8}, unclear: "0.50 times what the overlay carries, and the runs of both overlap"},
		"slower, by one run":   {vf: []float64{1}, overlay: []float64{2}, unclear: "by too few runs"},
		"no runs over the VF":  {overlay: []float64{3}},
		"no runs over either":  {},
	} {
		problem, unclear := judgeGain(tc.vf, tc.overlay)
		if !strings.Contains(problem, tc.problem) || (problem == "") != (tc.problem == "") || !strings.Contains(unclear, tc.unclear) || (unclear == "") != (tc.unclear == "") {
			t.Errorf("%s: %q, %q", name, problem, unclear)
		}
	}
}

// The quick demo makes fewer measurements of each kind than the whole one, and at least one.
func TestQuick(t *testing.T) {
	quick, whole := Options{Quick: true}.effort(), Options{}.effort()
	for what, counts := range map[string][2]int{
		"rounds":        {quick.rounds, whole.rounds},
		"attachments":   {quick.attachments, whole.attachments},
		"seconds":       {int(quick.afterDelete.Seconds()), int(whole.afterDelete.Seconds())},
		"target rounds": {quick.targetRounds, whole.targetRounds},
	} {
		if counts[0] < 1 || counts[0] >= counts[1] {
			t.Errorf("%s: %d in the quick demo, %d in the whole one", what, counts[0], counts[1])
		}
	}
}
