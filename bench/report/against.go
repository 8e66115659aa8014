package report

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/excerpt"
	"github.com/culvert-net/culvert/screen"
)

// AgainstText is a comparison for a terminal, in at most 100 columns.
func AgainstText(a bench.Against, look screen.Look) string {
	var b strings.Builder
	paragraph(&b, "", verdict(a))
	t := screen.NewTable("ARM", "METRIC", ">FIRST -> SECOND", ">CHANGE", ">95 %", ">P", ">EFFECT", "VERDICT")
	for _, c := range a.Changes {
		t.Add(screen.Words(c.Arm, c.Metric.Name, bench.Number(c.Was.Value)+" -> "+bench.Number(c.Is.Value)+" "+c.Metric.Unit,
			change(c.Part()), changes(c), p(c), effect(c), short(c.Verdict()))...)
	}
	write(&b, t)
	section(&b, look, "rules that are broken", broken(a))
	var kept []string
	for _, r := range a.Passed {
		kept = append(kept, r.String())
	}
	section(&b, look, "rules that are kept", kept)
	section(&b, look, "not compared", missing(a))
	section(&b, look, "unlike", a.Unlike)
	return b.String()
}

// verdict counts what changed.
func verdict(a bench.Against) string {
	counts := map[string]int{}
	for _, c := range a.Changes {
		counts[c.Verdict()]++
	}
	var parts []string
	for _, v := range []string{"worse", "better", "no difference", "too few runs"} {
		if counts[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	if parts == nil {
		return "Nothing could be compared."
	}
	return fmt.Sprintf("Of %d figures: %s.", len(a.Changes), strings.Join(parts, ", "))
}

func change(part float64) string {
	switch {
	case math.IsNaN(part) || math.IsInf(part, 0):
		return "-"
	case part >= 100:
		return fmt.Sprintf("+%.1g %%", 100*part)
	}
	return fmt.Sprintf("%+.1f %%", 100*part)
}

func changes(c bench.Change) string {
	if c.N[0] < 2 || c.N[1] < 2 || math.IsNaN(c.Part()) {
		return "-"
	}
	return strings.ReplaceAll(change(c.Ratio.Low-1)+" to "+change(c.Ratio.High-1), " %", "")
}

func p(c bench.Change) string {
	if math.IsNaN(c.P) {
		return "-"
	}
	return chance(c.P)
}

func effect(c bench.Change) string {
	if math.IsNaN(c.Effect) {
		return "-"
	}
	return fmt.Sprintf("%+.2f", c.Effect)
}

// short is a verdict where only what changed is to be seen.
func short(verdict string) string {
	switch verdict {
	case "no difference":
		return "-"
	case "too few runs":
		return "too few"
	}
	return verdict
}

func broken(a bench.Against) []string {
	var out []string
	for _, r := range a.Broken {
		out = append(out, r.String()+": "+r.Why)
	}
	return out
}

// missing are arms that could not be compared.
func missing(a bench.Against) []string {
	out := append([]string(nil), a.Missing...)
	for _, name := range a.Added {
		out = append(out, "arm "+name+" is only in the second")
	}
	return out
}

// AgainstMarkdown is the comparison as a job's summary shows it.
func AgainstMarkdown(a bench.Against) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### culvert bench\n\n%s\n", verdict(a))
	list := func(head string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n**%s**\n\n", head)
		}
		for _, l := range lines {
			b.WriteString("- " + unmarked(l) + "\n")
		}
	}
	list("Rules that are broken", broken(a))
	if len(a.Changes) > 0 {
		b.WriteString("\n| arm | metric | first | second | change | p | n | effect | verdict |\n|---|---|--:|--:|--:|--:|--:|---|---|\n")
	}
	for _, c := range a.Changes {
		cells := []string{c.Arm, c.Metric.Title, bench.Number(c.Was.Value), bench.Number(c.Is.Value) + " " + c.Metric.Unit, change(c.Part()), p(c), fmt.Sprintf("%d, %d", c.N[1], c.N[0]), effect(c), c.Verdict()}
		for i := range cells {
			cells[i] = unmarked(cells[i])
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	list("Not compared", missing(a))
	list("Unlike", a.Unlike)
	return b.String()
}

// unmarked keeps foreign text from being Markdown or HTML.
func unmarked(s string) string {
	var b strings.Builder
	for _, r := range excerpt.Clean(s) {
		switch {
		case r == '&':
			b.WriteString("&amp;")
		case r == '<':
			b.WriteString("&lt;")
		case strings.ContainsRune("\\`*_{}[]#|~!@", r):
			b.WriteString(`\` + string(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// AgainstJUnit is the comparison as CI servers read it: a test case for each rule,
// failed where it is broken, with the changes as its output.
func AgainstJUnit(out io.Writer, a bench.Against) error {
	type failure struct {
		Message string `xml:"message,attr"`
	}
	type testCase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Failure *failure `xml:"failure,omitempty"`
	}
	type output struct {
		Text string `xml:",cdata"`
	}
	suite := struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testCase `xml:"testcase"`
		Output   output     `xml:"system-out"`
	}{Name: "culvert bench compare", Tests: len(a.Broken) + len(a.Passed), Failures: len(a.Broken), Output: output{AgainstText(a, screen.Look{})}}
	for _, r := range a.Broken {
		suite.Cases = append(suite.Cases, testCase{"culvert.bench", r.String(), &failure{excerpt.Clean(r.Why)}})
	}
	for _, r := range a.Passed {
		suite.Cases = append(suite.Cases, testCase{Class: "culvert.bench", Name: r.String()})
	}
	if _, err := io.WriteString(out, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(out)
	enc.Indent("", "  ")
	if err := enc.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(out, "\n")
	return err
}

// AgainstJSON is the comparison for programs. What is not known is null.
func AgainstJSON(out io.Writer, a bench.Against) error {
	type changed struct {
		Arm     string     `json:"arm"`
		Metric  string     `json:"metric"`
		Unit    string     `json:"unit"`
		First   *float64   `json:"first"`
		Second  *float64   `json:"second"`
		Change  *float64   `json:"change"`         // as a part of the first: -0.05
		Between []*float64 `json:"changeInterval"` // 95 %
		P       *float64   `json:"p"`
		Effect  *float64   `json:"cliffsDelta"`
		Runs    [2]int     `json:"runs"` // first, second
		Verdict string     `json:"verdict"`
	}
	type rule struct {
		Rule   string `json:"rule"`
		Broken string `json:"broken,omitempty"` // why
	}
	all := struct {
		Changes []changed `json:"changes"`
		Rules   []rule    `json:"rules"`
		Missing []string  `json:"missing"`
		Added   []string  `json:"added"`
		Unlike  []string  `json:"unlike"`
	}{Changes: []changed{}, Rules: []rule{}, Missing: append([]string{}, a.Missing...), Added: append([]string{}, a.Added...), Unlike: append([]string{}, a.Unlike...)}
	for _, c := range a.Changes {
		all.Changes = append(all.Changes, changed{
			c.Arm, c.Metric.Name, c.Metric.Unit, known(c.Was.Value), known(c.Is.Value), known(c.Part()),
			[]*float64{known(c.Ratio.Low - 1), known(c.Ratio.High - 1)}, known(c.P), known(c.Effect), [2]int{c.N[1], c.N[0]}, c.Verdict(),
		})
	}
	for _, r := range a.Broken {
		all.Rules = append(all.Rules, rule{r.String(), r.Why})
	}
	for _, r := range a.Passed {
		all.Rules = append(all.Rules, rule{Rule: r.String()})
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(all)
}

// known makes what JSON has no number for nil.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
