package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
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
	if err != nil || !strings.HasPrefix(out, "VF carries 2.01x the overlay's throughput (1.95x to 2.05x, p=0.01, n=6) at 0.42x the CPU per Gb/s\n(0.40x to 0.43x): VF, pod-pod (MTU 1500) against overlay, pod-pod (MTU 1450).\n") {
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
	if raw, err := os.ReadFile(page); err != nil || !bytes.HasPrefix(raw, []byte("<!DOCTYPE html>")) || !bytes.HasSuffix(bytes.TrimSpace(raw), []byte("</html>")) {
		t.Errorf("the page: %v", err)
	}
	if _, err := execute(t, "report", benchExample, "--html", filepath.Join(dir, "none", "x.html")); err == nil {
		t.Error("a folder that is not there")
	}
}

func TestCompare(t *testing.T) {
	few := func(r *bench.Result) { // six rounds are too few for a verdict on each of 28 figures
		r.Arms = r.Arms[:2]
		r.Runs = slices.DeleteFunc(r.Runs, func(run bench.Run) bool { return run.Arm > 1 })
	}
	first := changedResult(t, few)
	slow := changedResult(t, func(r *bench.Result) {
		few(r)
		for i := range r.Runs {
			if r.Runs[i].Arm == 1 {
				r.Runs[i].Gbps *= 0.9
			}
		}
	})
	unlike := changedResult(t, func(r *bench.Result) { r.Machines[0].Kernel = "6.1.0" })
	for name, c := range map[string]struct {
		args []string
		out  string // the output contains it
		err  string // the error contains it; "" is no error
		exit int
	}{
		"the same":      {[]string{first, first}, "4 figures: 4 not worse.", "", 0},
		"slower":        {[]string{first, slow}, "4 figures: 1 worse, 3 not worse.", "", 0},
		"a rule breaks": {[]string{first, slow, "--fail-if", "p99>10%", "--fail-if", "throughput<-5%"}, "- throughput<-5%: VF: throughput -10.0 %", "", 1},
		"a rule holds":  {[]string{first, slow, "--fail-if", "throughput<-15%"}, "rules that are kept\n- throughput<-15%\n", "", 0},
		"six rounds":    {[]string{benchExample, benchExample}, "28 figures: 28 not worse.", "", 0},
		"unclear":       {[]string{benchExample, benchExample, "--fail-if", "p99>1%"}, "rules of which the runs cannot tell\n- p99>1%: overlay, questions: 6 and 6 rounds cannot tell: about 140 rounds of each would", "", 2},
		"JUnit":         {[]string{first, slow, "--fail-if", "throughput<-5%", "-o", "junit"}, `tests="1" failures="1"`, "", 1},
		"JUnit unclear": {[]string{benchExample, benchExample, "--fail-if", "p99>1%", "-o", "junit"}, `tests="1" failures="0" skipped="1"`, "", 2},
		"Markdown":      {[]string{first, slow, "-o", "markdown"}, "| VF | throughput | 9.40 | 8.46 Gb/s |", "", 0},
		"a wrong rule":  {[]string{benchExample, slow, "--fail-if", "throughput>5%"}, "", "--fail-if: rule \"throughput>5%\": more throughput is better", 0},
		"unlike":        {[]string{benchExample, unlike}, "", "worker01: kernel: 6.12.48+deb13-amd64 against 6.1.0\n--as-deployed", 0},
		"as deployed":   {[]string{benchExample, unlike, "--as-deployed"}, "unlike\n- worker01: kernel", "", 0},
		"no second":     {[]string{benchExample, "none.json"}, "", "none.json", 0},
		"no first":      {[]string{"none.json", slow}, "", "none.json", 0},
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
		if !strings.Contains(out, c.out) || c.err != "" && out != "" {
			t.Errorf("%s:\n%s", name, out)
		}
	}
	out, err := execute(t, "compare", first, slow, "-o", "json")
	if err != nil || !json.Valid([]byte(out)) {
		t.Errorf("JSON: %s%v", out, err)
	}
}
