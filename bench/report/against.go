package report

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// AgainstText is a comparison for a terminal, in at most 100 columns.
func AgainstText(a bench.Against, look screen.Look) string {
	b := newScreenText(look)
	writeParagraph(b, "", describeVerdict(a))
	heads := []string{"ARM", "METRIC", ">" + headOf(a), ">CHANGE", ">BOUNDS", ">P", "VERDICT", ">TO TELL"}
	columns := len(heads)
	if a.Design == bench.ByResults {
		columns = 4
	}
	t := screen.NewTable(heads[:columns]...)
	for _, c := range a.Changes {
		cells := []string{c.Arm, c.Metric.Name, bench.Number(c.Was.Value) + " -> " + bench.Number(c.Is.Value) + " " + c.Metric.Unit,
			formatChange(c.Part()), formatBounds(c), formatP(c), shortVerdict(c), neededRounds(c)}
		t.Add(screen.Words(cells[:columns]...)...)
	}
	writeTable(b, t)
	writeSection(b, "rules that are broken", listJudged(a.Broken))
	writeSection(b, "rules of which the runs cannot tell", listJudged(a.Unclear))
	var kept []string
	for _, r := range a.Passed {
		kept = append(kept, r.String())
	}
	writeSection(b, "rules that are kept", kept)
	writeSection(b, "not compared", listMissing(a))
	writeSection(b, "unlike", a.Unlike)
	return b.String()
}

// headOf names the two that are compared, and unitOf what is counted of each.
func headOf(a bench.Against) string {
	if a.Design == bench.BySides {
		return "A -> B"
	}
	return "FIRST -> SECOND"
}

func unitOf(a bench.Against) string {
	if a.Design == bench.ByFolders {
		return "results"
	}
	return "rounds"
}

// describeVerdict counts the figures of each verdict, and says how many rounds would decide the
// unclear ones.
func describeVerdict(a bench.Against) string {
	counts := map[bench.Verdict]int{}
	most, part := 0, 0.0
	for _, c := range a.Changes {
		counts[c.Verdict()]++
		if n, _ := c.Needs(); c.Verdict() == bench.Unclear && n > most {
			most, part = n, c.Margin
		}
	}
	var parts []string
	for _, v := range []bench.Verdict{bench.Worse, bench.Better, bench.NotWorse, bench.Unclear, bench.Unjudged} {
		if counts[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	if parts == nil {
		return "Nothing could be compared."
	}
	if a.Design == bench.ByResults {
		return fmt.Sprintf("%d figures, estimated and not judged: results differ as days and machines do. To judge, compare both in one run (culvert bench run --ab), or two folders with several results each.", len(a.Changes))
	}
	said := fmt.Sprintf("%d figures: %s.", len(a.Changes), strings.Join(parts, ", "))
	if most > 0 {
		said += fmt.Sprintf(" About %d %s of each would tell a change of %s of them all.", most, unitOf(a), formatPercent(part))
	}
	return said
}

func formatChange(part float64) string {
	switch {
	case math.IsNaN(part) || math.IsInf(part, 0):
		return "-"
	case part >= 100:
		return fmt.Sprintf("+%.1g %%", 100*part)
	}
	return fmt.Sprintf("%+.1f %%", 100*part)
}

// formatBounds prints the bounds of a change, which go with its p. Whether a figure is "not worse" is
// judged by other bounds, those of the figure alone.
func formatBounds(c bench.Change) string {
	if math.IsNaN(c.Part()) || math.IsNaN(c.Ratio.Low) || math.IsInf(c.Ratio.Low, 0) || math.IsInf(c.Ratio.High, 0) {
		return "-"
	}
	return strings.ReplaceAll(formatChange(c.Ratio.Low-1)+" to "+formatChange(c.Ratio.High-1), " %", "")
}

func formatP(c bench.Change) string {
	if math.IsNaN(c.Adjusted) {
		return "-"
	}
	return formatChance(c.Adjusted)
}

func formatEffect(c bench.Change) string {
	if math.IsNaN(c.Effect) {
		return "-"
	}
	return fmt.Sprintf("%+.2f", c.Effect)
}

// shortVerdict returns a verdict with its margin.
func shortVerdict(c bench.Change) string {
	if v := c.Verdict(); v != bench.NotWorse {
		return string(v)
	}
	return fmt.Sprintf("not worse by %s", formatPercent(c.Margin))
}

// neededRounds says how many rounds or results would decide a change that the present ones do not.
func neededRounds(c bench.Change) string {
	n, _ := c.Needs()
	switch {
	case c.Verdict() != bench.Unclear:
		return "-"
	case n == 0:
		return "more"
	}
	return fmt.Sprint(n)
}

func listJudged(rules []bench.Judged) []string {
	var out []string
	for _, r := range rules {
		out = append(out, r.String()+": "+r.Why)
	}
	return out
}

// listMissing returns the arms that could not be compared.
func listMissing(a bench.Against) []string {
	out := append([]string(nil), a.Missing...)
	for _, name := range a.Added {
		out = append(out, "arm "+name+" is only in the second")
	}
	return out
}

// AgainstMarkdown is the comparison as a job's summary shows it.
func AgainstMarkdown(a bench.Against) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### culvert bench\n\n%s\n", describeVerdict(a))
	list := func(head string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n**%s**\n\n", head)
		}
		for _, l := range lines {
			b.WriteString("- " + unmarked(l) + "\n")
		}
	}
	list("Rules that are broken", listJudged(a.Broken))
	list("Rules of which the runs cannot tell", listJudged(a.Unclear))
	if len(a.Changes) > 0 {
		first, second := "first", "second"
		if a.Design == bench.BySides {
			first, second = "A", "B"
		}
		fmt.Fprintf(&b, "\n| arm | metric | %s | %s | change | p | n | effect | verdict | %s to tell |\n|---|---|--:|--:|--:|--:|--:|--:|---|--:|\n", first, second, unitOf(a))
	}
	for _, c := range a.Changes {
		cells := []string{c.Arm, c.Metric.Title, bench.Number(c.Was.Value), bench.Number(c.Is.Value) + " " + c.Metric.Unit, formatChange(c.Part()), formatP(c), fmt.Sprintf("%d, %d", c.N[1], c.N[0]), formatEffect(c), shortVerdict(c), neededRounds(c)}
		for i := range cells {
			cells[i] = unmarked(cells[i])
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	list("Not compared", listMissing(a))
	list("Unlike", a.Unlike)
	return b.String()
}

// unmarked escapes foreign text, so that it is neither Markdown nor HTML.
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

// AgainstJUnit is the comparison as CI servers read it: a test case for each rule, with the changes
// as its output. A rule that is broken or unclear is failed. If unclear ones are allowed, they are
// skipped.
func AgainstJUnit(out io.Writer, a bench.Against, allowUnclear bool) error {
	type failure struct {
		Message string `xml:"message,attr"`
	}
	type testCase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Failure *failure `xml:"failure,omitempty"`
		Skipped *failure `xml:"skipped,omitempty"`
	}
	type output struct {
		Text string `xml:",cdata"`
	}
	suite := struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Cases    []testCase `xml:"testcase"`
		Output   output     `xml:"system-out"`
	}{Name: "culvert bench", Tests: len(a.Broken) + len(a.Unclear) + len(a.Passed), Failures: len(a.Broken), Output: output{AgainstText(a, screen.Look{})}}
	for _, r := range a.Broken {
		suite.Cases = append(suite.Cases, testCase{Class: "culvert.bench", Name: r.String(), Failure: &failure{excerpt.Clean(r.Why)}})
	}
	for _, r := range a.Unclear {
		c, why := testCase{Class: "culvert.bench", Name: r.String()}, &failure{"unclear: " + excerpt.Clean(r.Why)}
		if allowUnclear && a.Design != bench.ByResults {
			c.Skipped = why
			suite.Skipped++
		} else {
			c.Failure = why
			suite.Failures++
		}
		suite.Cases = append(suite.Cases, c)
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

// AgainstJSON is the comparison for programs. Unknown values are null.
func AgainstJSON(out io.Writer, a bench.Against) error {
	type changed struct {
		Arm     string     `json:"arm"`
		Metric  string     `json:"metric"`
		Unit    string     `json:"unit"`
		First   *float64   `json:"first"`
		Second  *float64   `json:"second"`
		Change  *float64   `json:"change"`         // as a part of the first: -0.05
		Between []*float64 `json:"changeInterval"` // they go with adjustedP
		P       *float64   `json:"p"`
		Adjust  *float64   `json:"adjustedP"` // Holm's, among all changes
		Effect  *float64   `json:"cliffsDelta"`
		Counts  [2]int     `json:"counts"` // rounds, results or runs: first, second
		Verdict string     `json:"verdict"`
		Margin  float64    `json:"margin"`          // the loss that does not count as worse
		Needs   int        `json:"needs,omitempty"` // rounds or results of each, if the verdict is unclear
	}
	type rule struct {
		Rule    string `json:"rule"`
		Broken  string `json:"broken,omitempty"`  // why
		Unclear string `json:"unclear,omitempty"` // why
	}
	all := struct {
		Design  string    `json:"design"` // sides, folders or results
		Changes []changed `json:"changes"`
		Rules   []rule    `json:"rules"`
		Missing []string  `json:"missing"`
		Added   []string  `json:"added"`
		Unlike  []string  `json:"unlike"`
	}{Design: string(a.Design), Changes: []changed{}, Rules: []rule{}, Missing: append([]string{}, a.Missing...), Added: append([]string{}, a.Added...), Unlike: append([]string{}, a.Unlike...)}
	for _, c := range a.Changes {
		needs := 0
		if c.Verdict() == bench.Unclear {
			needs, _ = c.Needs()
		}
		all.Changes = append(all.Changes, changed{
			c.Arm, c.Metric.Name, c.Metric.Unit, known(c.Was.Value), known(c.Is.Value), known(c.Part()),
			[]*float64{known(c.Ratio.Low - 1), known(c.Ratio.High - 1)}, known(c.P), known(c.Adjusted), known(c.Effect), [2]int{c.N[1], c.N[0]},
			string(c.Verdict()), c.Margin, needs,
		})
	}
	for _, r := range a.Broken {
		all.Rules = append(all.Rules, rule{Rule: r.String(), Broken: r.Why})
	}
	for _, r := range a.Unclear {
		all.Rules = append(all.Rules, rule{Rule: r.String(), Unclear: r.Why})
	}
	for _, r := range a.Passed {
		all.Rules = append(all.Rules, rule{Rule: r.String()})
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(all)
}

// known returns nil for a value that JSON cannot express, such as NaN.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
