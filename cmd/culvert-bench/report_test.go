package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/admin/cli"
)

const benchExample = "../../bench/report/testdata/example.json"

// changedResult writes the example with a change, and returns the file's name.
func changedResult(t *testing.T, change func(*bench.Result)) string {
	t.Helper()
	raw, err := os.ReadFile(benchExample)
	if err != nil {
		t.Fatal(err)
	}
	r, err := bench.Read(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	change(&r)
	var b bytes.Buffer
	if err := bench.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "changed.json")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestReport(t *testing.T) {
	out, err := execute(t, "report", benchExample)
	if err != nil || !strings.HasPrefix(out, "VF carries 2.0 times what the overlay carries. 1.95 to 2.05 times; 6 rounds in turns, p=0.01. It\ntakes 0.42 times the CPU per Gb/s: 0.40 to 0.43 times. Compared by TCP: VF pod-pod (MTU 1500) with\noverlay pod-pod (MTU 1450).\n") {
		t.Errorf("%s%v", out, err)
	}
	if out, err = execute(t, "report", benchExample, "-o", "csv"); err != nil || strings.Count(out, "\n") != 100 {
		t.Errorf("CSV: %d lines, %v", strings.Count(out, "\n"), err)
	}
	out, err = execute(t, "report", benchExample, "-o", "json")
	if same, _ := os.ReadFile(benchExample); err != nil || out != string(same) {
		t.Errorf("JSON is not what was read: %v", err)
	}
	if out, err = execute(t, "report", "-"); err == nil || !strings.HasPrefix(err.Error(), "result -: line 1: not JSON") {
		t.Errorf("host.yaml on standard input: %s%v", out, err)
	}
	if _, err = execute(t, "report", "none.json"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestReportPage(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "r.html")
	out, err := execute(t, "report", benchExample, "--html", page)
	if err != nil || !strings.HasSuffix(out, "In full: "+page+"\n") {
		t.Errorf("%s%v", out, err)
	}
	raw, err := os.ReadFile(page)
	if err != nil || !bytes.HasPrefix(raw, []byte("<!DOCTYPE html>")) || !bytes.HasSuffix(bytes.TrimSpace(raw), []byte("</html>")) {
		t.Errorf("the page: %v", err)
	}
	if !bytes.Contains(raw, []byte(`href="./r.json.gz"`)) {
		t.Error("the page has no link to its measurements")
	}
	out, err = execute(t, "report", filepath.Join(dir, "r.json.gz"), "-o", "json")
	if same, _ := os.ReadFile(benchExample); err != nil || out != string(same) {
		t.Errorf("the measurements beside the page are not the result: %v", err)
	}
	if _, err := execute(t, "report", benchExample, "--html", filepath.Join(dir, "none", "x.html")); err == nil {
		t.Error("a folder that is not there")
	}
}

// writeFolder writes a folder of so many results, each with one run of each of the first two arms of
// the example. change changes the runs.
func writeFolder(t *testing.T, results int, change func(n int, run *bench.Run)) string {
	t.Helper()
	dir := t.TempDir()
	for n := range results {
		file := changedResult(t, func(r *bench.Result) {
			r.Arms = r.Arms[:2]
			seen, runs := [2]int{}, r.Runs
			r.Runs = nil
			for _, run := range runs {
				if run.Arm < 2 && run.Void == "" && !run.Discard {
					if seen[run.Arm] == n {
						change(n, &run)
						r.Runs = append(r.Runs, run)
					}
					seen[run.Arm]++
				}
			}
		})
		if err := os.Rename(file, filepath.Join(dir, fmt.Sprintf("%d.json", n))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCompare(t *testing.T) {
	times := func(factor float64) func(int, *bench.Run) {
		return func(_ int, run *bench.Run) {
			if run.Arm == 1 {
				run.Gbps *= factor
			}
		}
	}
	first, slow, tenth, few := writeFolder(t, 6, times(1)), writeFolder(t, 6, times(0.9)), writeFolder(t, 6, times(0.1)), writeFolder(t, 3, times(0.1))
	unlike := changedResult(t, func(r *bench.Result) { r.Machines[0].Kernel = "6.1.0" })
	single := func(name string) string { return filepath.Join(name, "0.json") }
	for name, c := range map[string]struct {
		args []string
		out  string // the output contains it
		err  string // the error contains it; "" is no error
		exit int
	}{
		"the same":         {[]string{first, first}, "4 figures: 4 not worse.", "", 0},
		"slower":           {[]string{first, slow}, "4 figures: 1 worse, 3 not worse.", "", 0},
		"a rule breaks":    {[]string{first, slow, "--fail-if", "cpu>50%", "--fail-if", "throughput<-5%"}, "- throughput<-5%: VF: throughput -10.0 %", "", 1},
		"a tenfold loss":   {[]string{first, tenth, "--fail-if", "throughput<-5%"}, "- throughput<-5%: VF: throughput -90.0 %", "", 1},
		"a rule holds":     {[]string{first, slow, "--fail-if", "throughput<-15%"}, "rules that are kept\n- throughput<-15%\n", "", 0},
		"too few":          {[]string{few, few, "--fail-if", "cpu>1%"}, "3 and 3 results cannot tell: about", "", 2},
		"unclear":          {[]string{first, first, "--fail-if", "cpu>0.1%"}, "rules of which the runs cannot tell\n- cpu>0.1%: overlay: 6 and 6 results cannot tell: about", "", 2},
		"unclear, allowed": {[]string{first, first, "--fail-if", "cpu>0.1%", "--allow-unclear", "-o", "junit"}, `tests="1" failures="0" skipped="1"`, "", 0},
		"JUnit":            {[]string{first, slow, "--fail-if", "throughput<-5%", "-o", "junit"}, `tests="1" failures="1"`, "", 1},
		"JUnit unclear":    {[]string{first, first, "--fail-if", "cpu>0.1%", "-o", "junit"}, `tests="1" failures="1" skipped="0"`, "", 2},
		"Markdown":         {[]string{first, slow, "-o", "markdown"}, "| VF | throughput | 9.40 | 8.46 Gb/s |", "", 0},
		"two results":      {[]string{single(first), single(tenth)}, "4 figures, estimated and not judged", "", 0},
		"two results by a rule": {[]string{single(first), single(tenth), "--fail-if", "throughput<-5%", "--allow-unclear"},
			"compare both in one run (culvert bench run --ab)", "", 2},
		"a wrong rule":       {[]string{first, slow, "--fail-if", "throughput>5%"}, "", "--fail-if: rule \"throughput>5%\": more throughput is better", 0},
		"unlike":             {[]string{benchExample, unlike}, "", "worker01: kernel: 6.12.48+deb13-amd64 against 6.1.0\n--as-deployed", 0},
		"as deployed":        {[]string{benchExample, unlike, "--as-deployed"}, "unlike\n- worker01: kernel", "", 0},
		"an unlike folder":   {[]string{filepath.Dir(benchExample), filepath.Dir(unlike)}, "", "result ../../bench/report/testdata/against.json: has the schema", 0},
		"a folder, a result": {[]string{first, unlike}, "", "compare two folders of results, or two results", 0},
		"an empty folder":    {[]string{first, t.TempDir()}, "", "has no results (*.json)", 0},
		"no second":          {[]string{benchExample, "none.json"}, "", "none.json", 0},
		"no first":           {[]string{"none.json", benchExample}, "", "none.json", 0},
	} {
		out, err := execute(t, append([]string{"compare"}, c.args...)...)
		var exit cli.ExitStatus
		switch {
		case errors.As(err, &exit):
			if int(exit) != c.exit {
				t.Errorf("%s: %v", name, err)
			}
		case c.exit != 0 || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err):
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(c.out), " ")) || c.err != "" && out != "" {
			t.Errorf("%s:\n%s", name, out)
		}
	}
	out, err := execute(t, "compare", first, slow, "-o", "json")
	if err != nil || !json.Valid([]byte(out)) {
		t.Errorf("JSON: %s%v", out, err)
	}
}
