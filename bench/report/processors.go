package report

import (
	"math"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

// busied says how many processors each kind of work kept busy in the runs of an arm.
type busied struct {
	Arm                                                          string
	Gross, Before, Net, Parts, Interrupts, Others, Unseen, Names string
}

// listProcessors returns the busy processors of the arms whose machines were also watched before
// the rounds.
func listProcessors(r bench.Result) (out []busied) {
	for i, arm := range r.Arms {
		p, found := r.Processors(i)
		if !found || math.IsNaN(p.Background) {
			continue
		}
		out = append(out, busied{
			Arm: arm.Name, Gross: bench.Number(p.Gross), Before: bench.Number(p.Background), Net: bench.Number(p.Net), Parts: bench.Number(p.Parts),
			Interrupts: bench.Number(p.Interrupts), Others: bench.Number(p.Others), Unseen: bench.Number(p.Unexplained),
			Names: strings.Join(p.Names[:min(3, len(p.Names))], ", "),
		})
	}
	return out
}

func processorTable(list []busied) *screen.Table {
	t := screen.NewTable("PROCESSORS BUSY", ">GROSS", ">BEFORE", ">NET", ">ENGINES", ">IRQS", ">OTHERS", ">UNSEEN", "MOST OTHER")
	t.Columns[8].Least = 16 // the names of arms are cut first
	for _, l := range list {
		most, _, _ := strings.Cut(l.Names, ", ")
		t.Add(screen.Words(l.Arm, l.Gross, l.Before, l.Net, l.Parts, l.Interrupts, l.Others, l.Unseen, most)...)
	}
	return t
}
