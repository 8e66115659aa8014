package report

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

// rawOf returns the result that a page contains.
func rawOf(t *testing.T, page string) bench.Result {
	t.Helper()
	found := scripts.FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the page has no data")
	}
	r, err := bench.Read(strings.NewReader(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func listExamples(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("../../docs/examples/*.html")
	if err != nil || len(all) == 0 {
		t.Fatalf("no example pages: %v", err)
	}
	return all
}

// Example pages are what this code makes of the data in them: go test ./bench/report -run ExamplePages -update.
func TestExamplePages(t *testing.T) {
	for _, name := range listExamples(t) {
		kept, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r := rawOf(t, string(kept))
		page := drawPage(t, r)
		if *update {
			if err := os.WriteFile(name, []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if page != string(kept) {
			t.Errorf("%s is not what this code makes of its data: run this test with -update", name)
		}
		checkText(t, Text(r, screen.Look{Unicode: true}))
		checkFiguresDiffer(t, r)
	}
}

// An independent program recomputes the figures that the reports print of each example from its runs.
func TestRecompute(t *testing.T) {
	if err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import numpy, scipy").Run(); err != nil {
		t.Skip("Python with numpy and scipy is not installed: tools/bootstrap test")
	}
	results := map[string]bench.Result{
		"made up": makeExample(), "several at once": makeSeveral(), "through the middle": makeMiddle(), "two sides": makeSides(), "questions": makeLoaded(), "ratios": makeRatios(),
	}
	for _, name := range listExamples(t) {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		results[name] = rawOf(t, string(raw))
	}
	for name, r := range results {
		text, page := Text(r, screen.Look{Unicode: true}), drawPage(t, r)
		if out, err := recompute(t, r, text, page); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	// The program finds a wrong figure in each table.
	for _, c := range []struct{ result, right, wrong string }{
		{"made up", "32.0 %/Gb/s", "32.1 %/Gb/s"}, {"made up", "0.0772", "0.0773"}, {"made up", "25 %, 75 %", "26 %, 75 %"}, {"made up", "(6 of 6 runs)", "(5 of 6 runs)"},
		{"made up", "overlay: core, worker01", "overlay: steal, worker01"}, {"several at once", "least : most 0.500", "least : most 0.600"},
		{"several at once", "least : most                 0.500", "least : most                 0.600"}, {"through the middle", "1.20 Mpps", "1.30 Mpps"},
		{"through the middle", "500 ns/packet", "400 ns/packet"}, {"questions", "0.0196 Gb/s", "0.0197 Gb/s"}, {"questions", "1720, 10 %", "1720, 11 %"},
		{"ratios", "0.58x", "0.59x"},
	} {
		r := results[c.result]
		text, page := Text(r, screen.Look{Unicode: true}), drawPage(t, r)
		changed, onPage := strings.ReplaceAll(text, c.right, c.wrong), strings.ReplaceAll(page, c.right, c.wrong)
		if changed == text && onPage == page {
			t.Errorf("%s: %q is nowhere", c.result, c.right)
		}
		if out, err := recompute(t, r, changed, onPage); err == nil {
			t.Errorf("%s: %q in the place of %q was not found: %s", c.result, c.wrong, c.right, out)
		}
	}
}

// recompute runs the independent program on a result and on its printed reports.
func recompute(t *testing.T, r bench.Result, text, page string) (out []byte, err error) {
	t.Helper()
	var data strings.Builder
	if err := bench.Write(&data, r); err != nil {
		t.Fatal(err)
	}
	args := []string{}
	for name, what := range map[string]string{"1.json": data.String(), "2.txt": text, "3.html": page} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(what), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	slices.SortFunc(args, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return exec.CommandContext(t.Context(), "../../tools/recompute", args...).CombinedOutput()
}

// Each arm of a wide report has a label of its own in each table and chart, nothing of a comparison is cut, and no two charts
// have one title or two paths of one workload one colour.
func TestArmsAreKeptApart(t *testing.T) {
	r := bench.Result{Schema: bench.Schema, Machines: []bench.Machine{{Name: "a"}, {Name: "b"}}}
	for _, way := range []string{"flannel.1-flannel.1", "flannel.1-eth0", "eth0-flannel.1", "eth0-eth0"} {
		for _, kind := range []bench.Kind{bench.Stream, bench.Packets} {
			for _, limit := range []int{10, 100} {
				w := bench.Workload{Kind: kind, Engine: "culvert", RateLimit: limit}
				for _, network := range []string{"overlay", "VF", "host"} {
					p := bench.Path{Ends: "pod-pod", Network: network, Place: way, From: bench.End{Machine: "a", Interface: way}, To: bench.End{Machine: "b"}}
					r.Arms = append(r.Arms, bench.Arm{Name: fmt.Sprintf("%s %s m1 m2 m3 %s %d Mb/s", network, way, kind, limit), Path: p, Workload: w})
					for i := range 6 {
						v := float64(len(r.Arms)) + float64(i)/10
						r.Runs = append(r.Runs, bench.Run{Arm: len(r.Arms) - 1, Seconds: 2, Gbps: v, PPS: v, Series: []float64{v, v}})
					}
				}
			}
		}
	}
	text := Text(r, screen.Look{})
	checkText(t, text)
	for _, l := range listRows(r) {
		for _, s := range l.Against {
			if !strings.Contains(text, s+"\n") {
				t.Errorf("%q is not whole in the text:\n%s", s, text)
			}
		}
	}
	for _, head := range []string{"ARM ", "packet rate\n", "throughput\n"} {
		_, table, _ := strings.Cut(text, head)
		labels := map[string]int{}
		table, _, _ = strings.Cut(table, "\n\n")
		for line := range strings.Lines(table) {
			label, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
			labels[label]++
		}
		if len(labels) < 20 {
			t.Errorf("%s: %d labels", head, len(labels))
		}
		for label, n := range labels {
			if n > 1 {
				t.Errorf("%s: %q stands for %d arms", head, label, n)
			}
		}
	}
	checkFiguresDiffer(t, r)
}

// checkFiguresDiffer checks that each chart has a title of its own, and each line of a chart a colour or pattern.
func checkFiguresDiffer(t *testing.T, r bench.Result) {
	t.Helper()
	titles := map[string]bool{}
	for _, f := range slices.Concat(firstFigures(r), seriesFigures(r)) {
		if titles[f.Title] {
			t.Errorf("two charts are called %q", f.Title)
		}
		titles[f.Title] = true
		classes := map[string]string{}
		for _, k := range f.Keys {
			if other := classes[k.Class]; other != "" {
				t.Errorf("%s: %s and %s are %s", f.Title, k.Name, other, k.Class)
			}
			classes[k.Class] = k.Name
		}
	}
}

// The first screen has the sentence, the emulated NICs, one chart and the table. Notes and series
// are folded.
func TestPageBegins(t *testing.T) {
	r := makeExample()
	if first := firstFigures(r)[0]; first.Title != "Throughput" || strings.Count(string(first.Drawing), `class="label"`) != 2 {
		t.Errorf("the first chart is %q", first.Title)
	}
	wide := makeExample() // its arms between nodes are not those of the sentence
	for i := range 8 {
		a := wide.Arms[0]
		a.Name, a.Path.Ends, a.Path.Network = fmt.Sprint("node ", i), "node-node", "host"
		wide.Arms = append(wide.Arms, a)
		wide.Runs = append(wide.Runs, bench.Run{Arm: len(wide.Arms) - 1, Seconds: 10, Gbps: 9})
	}
	if all := firstFigures(wide); all[0].Title != "Throughput, pod-pod: iperf3 stream, 10 s" || strings.Count(string(all[0].Drawing), `class="label"`) != 2 || all[1].Title != "Throughput" {
		t.Errorf("the first chart is %q of %d arms, the second %q", all[0].Title, strings.Count(string(all[0].Drawing), `class="label"`), all[1].Title)
	}
	r.Machines[0].Hypervisor, r.Machines[0].Interfaces[0].Driver = "tcg", "igb"
	page := drawPage(t, r)
	last := -1
	for _, part := range []string{"<h1>", "The NICs (iavf, igb) and processors are emulated by QEMU", "<figure", "<h2>All arms</h2>", `<details class="care">`, "Over time (1)"} {
		at := strings.Index(page, part)
		if at <= last {
			t.Errorf("%s is not in its place", part)
		}
		last = at
	}
}
