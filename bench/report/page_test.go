package report

import (
	"bytes"
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

// readExample returns the measurements of an example, which are in a file beside its page.
func readExample(t *testing.T, page string) bench.Result {
	t.Helper()
	f, err := os.Open(DataName(page))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := bench.Read(f)
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

// Example pages are what this code makes of the data beside them: go test ./bench/report -run ExamplePages -update.
func TestExamplePages(t *testing.T) {
	for _, name := range listExamples(t) {
		r := readExample(t, name)
		var page bytes.Buffer
		if err := HTML(&page, r, filepath.Base(DataName(name))); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(name, page.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if kept, err := os.ReadFile(name); err != nil || page.String() != string(kept) {
			t.Errorf("%s is not what this code makes of its data: run this test with -update (%v)", name, err)
		}
		checkText(t, Text(r, screen.Look{Unicode: true}))
		checkFiguresDiffer(t, r)
	}
}

// An independent program recomputes the figures that the reports print of each example from its runs.
func TestRecompute(t *testing.T) {
	if err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import numpy, scipy").Run(); err != nil {
		t.Skip("Python with numpy and scipy is not installed: tools/bootstrap pages")
	}
	results := map[string]bench.Result{
		"made up": makeExample(), "several at once": makeSeveral(), "through the middle": makeMiddle(), "two sides": makeSides(), "questions": makeLoaded(), "ratios": makeRatios(),
	}
	for _, name := range listExamples(t) {
		results[name] = readExample(t, name)
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
		{"made up", "overlay, TCP: core, worker01", "overlay, TCP: steal, worker01"}, {"several at once", "least : most 0.500", "least : most 0.600"},
		{"several at once", "least : most                     0.500", "least : most                     0.600"}, {"through the middle", "1.20 Mpps", "1.30 Mpps"},
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
				w := bench.Workload{Kind: kind, Engine: "culvert", Flows: limit}
				for _, network := range []string{"overlay", "VF", "host"} {
					p := bench.Path{Ends: "pod-pod", Network: network, Place: way, From: bench.End{Machine: "a", Interface: way}, To: bench.End{Machine: "b"}}
					r.Arms = append(r.Arms, bench.Arm{Name: fmt.Sprintf("%s %s m1 m2 m3 %s %d flows", network, way, kind, limit), Path: p, Workload: w})
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
	for _, l := range makeView(r).rows {
		for _, s := range l.Against {
			if !strings.Contains(text, s+"\n") {
				t.Errorf("%q is not whole in the text:\n%s", s, text)
			}
		}
	}
	parts := strings.Split(text, "\nHow ")
	if len(parts) != 3 {
		t.Fatalf("%d questions in\n%s", len(parts)-1, text)
	}
	for _, part := range parts[1:] {
		for _, head := range []string{"ARM ", "packet rate\n", "throughput\n"} {
			_, table, found := strings.Cut(part, head)
			if !found {
				continue
			}
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
	}
	checkFiguresDiffer(t, r)
}

// checkFiguresDiffer checks that each chart of a question has a title of its own, and each line of a chart a
// colour or pattern.
func checkFiguresDiffer(t *testing.T, r bench.Result) {
	t.Helper()
	v := makeView(r)
	for _, q := range v.questions {
		titles := map[string]bool{}
		for _, f := range slices.Concat(v.listFigures(q), v.seriesFigures(q.Arms)) {
			if titles[f.Title] {
				t.Errorf("two charts of %s are called %q", q.Title, f.Title)
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
}

// A page begins with the headline in one line, then how certain it is, then the emulated NICs. The pictures come
// next, those of the headline first, and then the table of all arms. What few readers need is folded.
func TestPageBegins(t *testing.T) {
	r := makeExample()
	wide := makeExample() // its arms between nodes are not those of the sentence
	for i := range 8 {
		a := wide.Arms[0]
		a.Name, a.Path.Ends, a.Path.Network = fmt.Sprint("node ", i), "node-node", "host"
		wide.Arms = append(wide.Arms, a)
		wide.Runs = append(wide.Runs, bench.Run{Arm: len(wide.Arms) - 1, Seconds: 10, Gbps: 9})
	}
	slices.Reverse(wide.Arms)
	for i := range wide.Runs {
		wide.Runs[i].Arm = len(wide.Arms) - 1 - wide.Runs[i].Arm
	}
	v := makeView(wide)
	first := v.questions[0]
	rows := v.barRows(first)
	if first.Title != "How much does one TCP stream carry?" || len(rows) != 10 || rows[0].Within != "VF" || rows[1].Within != "overlay" {
		t.Errorf("the first chart is of %s: %q", first.Title, names(rows))
	}
	turned := makeExample() // its last arms are those of the sentence
	slices.Reverse(turned.Arms)
	for i := range turned.Runs {
		turned.Runs[i].Arm = len(turned.Arms) - 1 - turned.Runs[i].Arm
	}
	if got := makeView(turned).questions[0].Title; got != first.Title {
		t.Errorf("the other way round, the first question is %s", got)
	}
	r.Machines[0].Hypervisor, r.Machines[0].Interfaces[0].Driver = "tcg", "igb"
	page := drawPage(t, r)
	last, parts := -1, []string{
		"<h1", "1.95 to 2.05 times; 6 rounds in turns, p=0.01.", "The NICs (iavf, igb) and processors are emulated by QEMU",
		"How much does one TCP stream carry?", "<figure", "How much do 8 TCP streams carry, by the size of writes?", "<figure", "How long does an answer over TCP take?", "<figure",
		`<details class="care">`, "<h2>All arms</h2>", `<details class="more"><summary><h2>Round trips</h2>`, `<details class="more"><summary><h2>Paths</h2>`,
	}
	for _, part := range parts {
		at := strings.Index(page[last+1:], part)
		if at < 0 {
			t.Fatalf("%s is not in its place", part)
		}
		last += 1 + at
	}
	if strings.Contains(page[last:], "<figure") {
		t.Error("a picture comes after the tables")
	}
}

// A headline has at most 60 letters, which fit into one line at a desk.
func TestHeadlineIsOneLine(t *testing.T) {
	results := []bench.Result{makeExample(), makeSeveral(), makeMiddle()}
	for _, name := range listExamples(t) {
		results = append(results, readExample(t, name))
	}
	for _, r := range results {
		if h := makeView(r).summarize(); len(h.Line) > 60 || !strings.HasSuffix(h.Line, ".") {
			t.Errorf("%d letters: %s", len(h.Line), h.Line)
		}
	}
}

// mostPage is the size that a page of the tree may have.
const mostPage = 150_000

// Example pages are small, and the commits that they name are in the history: "-" is one that is not known.
func TestExamplesAreSmallAndTheirCommitsExist(t *testing.T) {
	shallow, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--is-shallow-repository").Output()
	whole := err == nil && strings.TrimSpace(string(shallow)) == "false"
	for _, name := range listExamples(t) {
		for _, file := range []string{name, DataName(name)} {
			if i, err := os.Stat(file); err != nil || i.Size() > mostPage {
				t.Errorf("%s: larger than %d bytes, or %v", file, mostPage, err)
			}
		}
		r := readExample(t, name)
		commits := []string{r.Culvert}
		for _, m := range r.Machines {
			for _, tool := range m.Tools {
				if tool.Name == "culvert" {
					commits = append(commits, tool.Value)
				}
			}
		}
		for _, c := range commits {
			if c == "-" || c == "" || !whole {
				continue
			}
			if out, err := exec.CommandContext(t.Context(), "git", "merge-base", "--is-ancestor", c, "HEAD").CombinedOutput(); err != nil {
				t.Errorf("%s names the commit %s, which is not in the history: %s", name, c, out)
			}
		}
	}
}
