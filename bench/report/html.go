package report

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/culvert-net/culvert/bench"
)

//go:embed page.html
var page string

// sheet has the content of the page.
type sheet struct {
	Head                headed
	About               string
	Cares, Voids, Apart []string
	Emulated            string
	Questions           []answer
	Tables              []table
	Places              []place
	Machines            []bench.Machine
	Settings            []settingsOf
	Numbers, Names      template.CSS // of the tables' columns: alignment, and heads on a narrow screen
	Data                string       // the file with the measurements, beside the page
}

// answer is a question with its pictures.
type answer struct {
	question
	Figures, Series []figure
	Said            []string // in place of pictures
	Open            bool     // show the series at once
}

// settingsOf has settings that several machines have in common, or those of one alone.
type settingsOf struct {
	Name     string
	Settings []bench.Setting
}

// HTML writes the report as one page that needs no network and no script. The result has to be
// valid. The page has a link to data, a file in the same folder that [Data] writes; "" is no link.
func HTML(out io.Writer, r bench.Result, data string) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"machine": describeMachine, "card": describeCard, "join": strings.Join,
	}).Parse(page)
	if err != nil {
		return err
	}
	v := makeView(r)
	s := sheet{
		Head: v.summarize(), About: describeResult(r), Cares: v.cares, Voids: listVoids(v.Result), Apart: bench.Apart(r), Emulated: describeEmulation(r),
		Tables: v.listTables(), Places: listPlaces(v.Result), Machines: r.Machines, Settings: shareSettings(r.Machines), Data: data,
	}
	s.Numbers, s.Names = styleColumns(s.Tables)
	for i, q := range v.questions {
		open := i == 0 || r.Arms[q.Arms[0]].Workload.Pulled
		s.Questions = append(s.Questions, answer{q, v.listFigures(q), v.seriesFigures(q.Arms), v.describeUnenforced(q), open})
	}
	var b bytes.Buffer
	if err := t.Execute(&b, s); err != nil {
		return err
	}
	_, err = io.WriteString(out, visibleText(b.String()))
	return err
}

// DataName returns the name of the file with the measurements beside a page: lab.json.gz beside lab.html.
func DataName(page string) string { return strings.TrimSuffix(page, ".html") + ".json.gz" }

// Data writes the result, compressed, as the file to which a page links. [bench.Read] reads it.
func Data(out io.Writer, r bench.Result) error {
	w, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := bench.Write(w, r); err != nil {
		return err
	}
	return w.Close()
}

// styleColumns returns the style of the tables' columns: numbers are to the right, and on a narrow screen
// each cell has its column's head beside it.
func styleColumns(tables []table) (numbers, names template.CSS) {
	var right, heads strings.Builder
	for _, t := range tables {
		for i, h := range t.Heads {
			if i == 0 {
				continue
			}
			style := "padding-left: 12px;"
			if h.Right {
				style += " text-align: right; white-space: nowrap;"
			}
			fmt.Fprintf(&right, ".%s tr:not(.q) > :nth-child(%d) { %s }\n", t.Class, i+1, style)
			fmt.Fprintf(&heads, "  .%s td:nth-child(%d)::before { content: %q; }\n", t.Class, i+1, h.Text)
		}
	}
	return template.CSS(right.String()), template.CSS(heads.String()) //nolint:gosec // heads and classes are this package's own
}

// shareSettings returns the settings that all machines have with the same value, and those in which
// each differs.
func shareSettings(machines []bench.Machine) []settingsOf {
	var all [][]bench.Setting
	for _, m := range machines {
		all = append(all, m.Settings())
	}
	everywhere := func(s bench.Setting) bool {
		return len(all) > 1 && !slices.ContainsFunc(all, func(one []bench.Setting) bool { return !slices.Contains(one, s) })
	}
	var out []settingsOf
	for i, m := range machines {
		own := settingsOf{Name: m.Name}
		shared := settingsOf{Name: "all machines"}
		for _, s := range all[i] {
			if everywhere(s) {
				shared.Settings = append(shared.Settings, s)
			} else {
				own.Settings = append(own.Settings, s)
			}
		}
		if i == 0 && shared.Settings != nil {
			out = append(out, shared)
		}
		if own.Settings != nil {
			out = append(out, own)
		}
	}
	return out
}

// visibleText removes invisible characters: they can reverse the direction of the text after them.
func visibleText(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, s)
}
