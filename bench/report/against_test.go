package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
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
	return bench.Compare(before, after, rules)
}

func TestAgainst(t *testing.T) {
	a := compareSlower(t)
	text := AgainstText(a, screen.Look{})
	golden(t, "against.txt", text)
	checkText(t, text)
	golden(t, "against.md", AgainstMarkdown(a))
	var junit, data bytes.Buffer
	if err := AgainstJUnit(&junit, a); err != nil {
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
	for name, a := range map[string]bench.Against{"odd": bench.Compare(before, after, []bench.Rule{rule}), "same": bench.Compare(before, odd(), nil), "empty": {}} {
		checkText(t, AgainstText(a, screen.Look{}))
		for line := range strings.Lines(AgainstMarkdown(a)) {
			if strings.HasPrefix(line, "# ") || strings.Contains(line, "<") || strings.Contains(strings.ReplaceAll(line, `\|`, ""), "/C calc|") {
				t.Errorf("%s: Markdown: %q", name, line)
			}
		}
		var junit, data bytes.Buffer
		if err := AgainstJUnit(&junit, a); err != nil {
			t.Fatal(err)
		}
		var read struct {
			Tests    int `xml:"tests,attr"`
			Failures []struct {
				Message string `xml:"message,attr"`
			} `xml:"testcase>failure"`
		}
		if err := xml.Unmarshal(junit.Bytes(), &read); err != nil || read.Tests != len(a.Broken)+len(a.Unclear)+len(a.Passed) || len(read.Failures) != len(a.Broken) {
			t.Errorf("%s: JUnit: %v, %+v", name, err, read)
		}
		if err := AgainstJSON(&data, a); err != nil || !json.Valid(data.Bytes()) {
			t.Errorf("%s: JSON: %v", name, err)
		}
	}
}
