package report

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

// FuzzReport: every result that Read accepts can be written in every form, and breaks none of them:
// text keeps to its columns, the page to its drawings, JUnit to XML.
func FuzzReport(f *testing.F) {
	for _, r := range []bench.Result{odd(), {Schema: bench.Schema}} {
		var b bytes.Buffer
		if err := bench.Write(&b, r); err != nil {
			f.Fatal(err)
		}
		f.Add(b.String())
	}
	f.Fuzz(func(t *testing.T, raw string) {
		r, err := bench.Read(strings.NewReader(raw))
		if err != nil || len(r.Arms) > 8 || len(r.Runs) > 20 {
			return // wrong, or right and slow
		}
		checkText(t, Text(r, screen.Look{Unicode: true}))
		page := drawPage(t, r)
		for _, drawing := range svgs.FindAllString(page, -1) {
			checkDrawing(t, "fuzzed", drawing)
		}
		if strings.Contains(page, "<script") {
			t.Error("the page has a script")
		}
		if err := CSV(io.Discard, r); err != nil {
			t.Error(err)
		}
		a := bench.CompareResults(r, odd(), []bench.Rule{{Metric: "throughput", Below: true, Part: -0.05}})
		if len(r.Sides) > 0 {
			a = bench.CompareSides(r, []bench.Rule{{Metric: "throughput", Below: true, Part: -0.05}})
		}
		checkText(t, AgainstText(a, screen.Look{}))
		AgainstMarkdown(a)
		var junit bytes.Buffer
		if err := AgainstJUnit(&junit, a, false); err != nil {
			t.Error(err)
		}
		if err := xml.Unmarshal(junit.Bytes(), new(struct{})); err != nil {
			t.Error(err)
		}
		if err := AgainstJSON(io.Discard, a); err != nil {
			t.Error(err)
		}
	})
}
