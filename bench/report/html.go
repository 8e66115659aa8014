package report

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/culvert-net/culvert/bench"
)

//go:embed page.html
var page string

// sheet is what the page shows.
type sheet struct {
	Title, Sentence, About string
	Cares, Voids, Apart    []string
	Figures                []figure
	Rows                   []row
	Shares                 []shared
	Relays                 []relayed
	Limits                 []limit
	Beside                 []beside
	Places                 []place
	Machines               []bench.Machine
	Result                 bench.Result // the raw data
}

// HTML writes the report as one file that needs no other, no network and no script.
// The result has to be valid; it is in the page whole, as JSON, in the element "result".
func HTML(out io.Writer, r bench.Result) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"machine": machine, "card": card, "between": between, "join": strings.Join,
		"value": row.value, "part": row.part, "cost": row.cost,
		"sign": func(s string) string { return strings.Replace(s, "+-", "±", 1) },
	}).Parse(page)
	if err != nil {
		return err
	}
	title := "culvert bench"
	if r.Preset != "" {
		title += " " + r.Preset
	}
	var b bytes.Buffer
	err = t.Execute(&b, sheet{
		Title: title, Sentence: Sentence(r), About: about(r), Cares: cares(r), Voids: voids(r), Apart: bench.Apart(r),
		Figures: slices.Concat(barFigures(r), sweepFigures(r), delayFigures(r), seriesFigures(r)),
		Rows:    rows(r), Shares: shares(r), Relays: relays(r), Limits: limits(r), Beside: printed(r), Places: places(r), Machines: r.Machines, Result: r,
	})
	if err != nil {
		return err
	}
	// Letters that are not seen can turn what follows them round; the data keep them.
	shown, data, _ := strings.Cut(b.String(), rawData)
	_, err = io.WriteString(out, visible(shown)+rawData+data)
	return err
}

// rawData is where the page ends and the data begin.
const rawData = `<script type="application/json"`

func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, s)
}
