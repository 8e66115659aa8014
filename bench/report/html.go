package report

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"strings"
	"unicode"

	"github.com/culvert-net/culvert/bench"
)

//go:embed page.html
var page string

// sheet has the content of the page.
type sheet struct {
	Title, Sentence, About string
	Cares, Voids, Apart    []string
	Emulated               string
	Figures, Series        []figure
	Rows                   []row
	Shares                 []shared
	Trips                  []tripped
	Loads                  []loaded
	Counts                 []counted
	Relays                 []relayed
	Processors             []busied
	Queues                 []queued
	Limits                 []limit
	Beside                 []beside
	Places                 []place
	Machines               []bench.Machine
	Result                 bench.Result // the raw data
}

// HTML writes the report as one file that needs no other, no network and no script. The result
// has to be valid. The page contains all of it, as JSON, in the element "result".
func HTML(out io.Writer, r bench.Result) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"machine": describeMachine, "card": describeCard, "between": formatInterval, "tripNames": tripNames, "join": strings.Join,
		"value": row.formatValue, "settings": bench.Machine.Settings, "part": row.formatPart, "cost": row.formatCost,
	}).Parse(page)
	if err != nil {
		return err
	}
	title := "culvert bench"
	if r.Preset != "" {
		title += " " + r.Preset
	}
	raw, cares := r, listCares(r)
	r = r.WithoutFalseWires()
	var b bytes.Buffer
	err = t.Execute(&b, sheet{
		Title: title, Sentence: Sentence(r), About: describeResult(r), Cares: cares, Voids: listVoids(r), Apart: bench.Apart(r),
		Emulated: describeEmulation(r), Figures: firstFigures(r), Series: seriesFigures(r),
		Rows: listRows(r), Shares: listShares(r), Trips: listTrips(r), Loads: listLoads(r), Counts: countArms(r), Relays: listRelays(r), Processors: listProcessors(r), Queues: listQueues(r), Limits: listLimits(r), Beside: listPrinted(r), Places: listPlaces(r), Machines: r.Machines, Result: raw,
	})
	if err != nil {
		return err
	}
	// Invisible characters can reverse the direction of the text after them, so they are removed
	// from the visible part. The data keeps them.
	shown, data, _ := strings.Cut(b.String(), rawData)
	_, err = io.WriteString(out, visibleText(shown)+rawData+data)
	return err
}

// rawData separates the visible part of the page from the data.
const rawData = `<script type="application/json"`

func visibleText(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, s)
}
