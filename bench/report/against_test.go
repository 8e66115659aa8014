package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

// compareSlower is the example with a VF that carries less, and with other circumstances.
func compareSlower(t *testing.T) bench.Against {
	t.Helper()
	before, after := makeExample(), makeExample()
	only(0, 1, 12, 13)(&before)
	only(0, 1, 12, 13)(&after)
	for i := range after.Runs {
		if after.Runs[i].Arm == 1 {
			after.Runs[i].Gbps *= 0.9
		}
	}
	after.Machines[0].Kernel = "6.1.0"
	after.Arms[3].Name = "new"
	var rules []bench.Rule
	for _, s := range []string{"throughput<-5%", "cpu>20%", "p99>10%"} {
		r, err := bench.ParseRule(s)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	out := bench.CompareFolders(folderOf(before), folderOf(after), rules)
	out.Unlike = bench.Unlike(before, after)
	return out
}

// folderOf returns a folder of results: the n-th has the n-th run of each arm that counts.
func folderOf(r bench.Result) (folder []bench.Observation) {
	for n := 0; ; n++ {
		one := r
		one.Runs = nil
		for i := range r.Arms {
			if runs := r.Counted(i); n < len(runs) {
				one.Runs = append(one.Runs, runs[n])
			}
		}
		if len(one.Runs) == 0 {
			return folder
		}
		folder = append(folder, bench.Observe(one))
	}
}

// asSides returns an A/B measurement with the arms and runs of r on side A, and changed ones on side B.
func asSides(r bench.Result, change func(arm int, run *bench.Run)) bench.Result {
	out := r
	out.Arms, out.Runs = nil, nil
	for side, name := range bench.SideNames {
		out.Sides = append(out.Sides, bench.Side{Name: name, Command: "set " + name, At: []string{"this host"}, Machines: r.Machines, Says: "v0.4." + name})
		for _, a := range r.Arms {
			a.Name, a.Side = a.Name+" "+name, name
			out.Arms = append(out.Arms, a)
		}
		for _, run := range r.Runs {
			if side == 1 {
				change(run.Arm, &run)
			}
			run.Arm += side * len(r.Arms)
			out.Runs = append(out.Runs, run)
		}
	}
	out.Printed = nil
	return out
}

// makeSides is the example as an A/B measurement, whose side B carries a tenth less. In one round an arm
// of it has no run that counts.
func makeSides() bench.Result {
	n := 0
	r := asSides(makeExample(), func(_ int, run *bench.Run) {
		n++
		run.Gbps *= 0.9 + 0.001*float64(n%13)
	})
	first := slices.IndexFunc(r.Runs, func(run bench.Run) bool { return r.Arms[run.Arm].Side == "B" && !run.Discard && run.Void == "" })
	void := r.Runs[first]
	void.Void = "for the test"
	r.Runs = slices.Replace(r.Runs, first, first+1, void, void, void)
	return r
}

// TestSides: an A/B measurement is compared arm by arm, and its report has both commands and what
// they differ in. A tenfold loss in one arm breaks the rule, by sides and by folders.
func TestSides(t *testing.T) {
	tenth := func(arm int, run *bench.Run) {
		if arm == 4 {
			run.Gbps /= 10
		}
	}
	r := asSides(makeExample(), tenth)
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	text := Text(r, screen.Look{})
	checkText(t, text)
	for _, want := range []string{"Side B, set up on this host: set B", "A against B: the command printed: v0.4.A against v0.4.B", "VF B"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	var page bytes.Buffer
	if err := HTML(&page, r, ""); err != nil || !strings.Contains(page.String(), "set B") {
		t.Errorf("the page lacks the command of side B: %v", err)
	}
	rules := []bench.Rule{{Metric: "throughput", Below: true, Part: -0.05}}
	twice := makeExample() // six rounds of twelve streams can show nothing by round
	twice.Runs = append(twice.Runs, twice.Runs...)
	slower := makeExample()
	for i := range slower.Runs {
		tenth(slower.Runs[i].Arm, &slower.Runs[i])
	}
	for name, a := range map[string]bench.Against{"sides": bench.CompareSides(asSides(twice, tenth), rules), "folders": bench.CompareFolders(folderOf(makeExample()), folderOf(slower), rules)} {
		if len(a.Broken) != 1 || len(a.Changes) != 28 || !strings.HasPrefix(a.Broken[0].Why, "overlay 512 B: throughput -90.0 %") {
			t.Errorf("%s: %d changes, broken %q, unclear %q", name, len(a.Changes), a.Broken, a.Unclear)
		}
		checkText(t, AgainstText(a, screen.Look{}))
	}
}

// TestUnclearFails: JUnit has an unclear rule as failed, unless that is allowed. Two results are not
// judged, whatever is allowed.
func TestUnclearFails(t *testing.T) {
	rule := bench.Rule{Metric: "throughput", Below: true, Part: -0.001}
	unclear := bench.CompareFolders(folderOf(makeExample()), folderOf(makeExample()), []bench.Rule{rule})
	single := bench.CompareResults(makeExample(), makeExample(), []bench.Rule{rule})
	for name, c := range map[string]struct {
		a     bench.Against
		allow bool
		want  string
	}{
		"unclear":         {unclear, false, `failures="1" skipped="0"`},
		"allowed":         {unclear, true, `failures="0" skipped="1"`},
		"singles":         {single, false, `failures="1" skipped="0"`},
		"singles allowed": {single, true, `failures="1" skipped="0"`},
	} {
		var junit bytes.Buffer
		if err := AgainstJUnit(&junit, c.a, c.allow); err != nil || !strings.Contains(junit.String(), c.want) {
			t.Errorf("%s: %v, want %s in\n%s", name, err, c.want, junit.String())
		}
	}
	text := AgainstText(single, screen.Look{})
	if checkText(t, text); !strings.Contains(text, "28 figures, estimated and not judged") || strings.Contains(text, "VERDICT") || !strings.Contains(text, "culvert bench run --ab") {
		t.Errorf("two results:\n%s", text)
	}
}

func TestAgainst(t *testing.T) {
	a := compareSlower(t)
	text := AgainstText(a, screen.Look{})
	golden(t, "against.txt", text)
	checkText(t, text)
	golden(t, "against.md", AgainstMarkdown(a))
	var junit, data bytes.Buffer
	if err := AgainstJUnit(&junit, a, true); err != nil {
		t.Fatal(err)
	}
	golden(t, "against.xml", junit.String())
	if err := AgainstJSON(&data, a); err != nil {
		t.Fatal(err)
	}
	golden(t, "against.json", data.String())
}

// TestAgainstOdd: every form of a comparison stays well-formed with malicious names and with
// figures that are not known.
func TestAgainstOdd(t *testing.T) {
	before := odd()
	after := odd()
	after.Arms[0].Name, after.Machines[0].Kernel = "other", "<b>\n# head"
	rule, err := bench.ParseRule("throughput<-5%")
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]bench.Against{"odd": bench.CompareFolders(folderOf(before), folderOf(after), []bench.Rule{rule}), "singles": bench.CompareResults(before, after, []bench.Rule{rule}), "same": bench.CompareResults(before, odd(), nil), "empty": {}} {
		checkText(t, AgainstText(a, screen.Look{}))
		for line := range strings.Lines(AgainstMarkdown(a)) {
			if strings.HasPrefix(line, "# ") || strings.Contains(line, "<") || strings.Contains(strings.ReplaceAll(line, `\|`, ""), "/C calc|") {
				t.Errorf("%s: Markdown: %q", name, line)
			}
		}
		var junit, data bytes.Buffer
		if err := AgainstJUnit(&junit, a, true); err != nil {
			t.Fatal(err)
		}
		var read struct {
			Tests    int `xml:"tests,attr"`
			Failures []struct {
				Message string `xml:"message,attr"`
			} `xml:"testcase>failure"`
		}
		if err := xml.Unmarshal(junit.Bytes(), &read); err != nil || read.Tests != len(a.Broken)+len(a.Unclear)+len(a.Passed) || len(read.Failures) < len(a.Broken) {
			t.Errorf("%s: JUnit: %v, %+v", name, err, read)
		}
		if err := AgainstJSON(&data, a); err != nil || !json.Valid(data.Bytes()) {
			t.Errorf("%s: JSON: %v", name, err)
		}
	}
}
