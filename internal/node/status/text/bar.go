package text

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/screen"
)

// barCells is how many VFs a bar shows with a cell each; of more VFs it shows the proportions.
const barCells = 16

// drawBar draws VFs as a bar: used, free, quarantined, being made, unmanaged.
func drawBar(c api.Counts, o Options) screen.Cell {
	marks := [...]string{"#", ".", "q", "+", "?"}
	if o.Unicode {
		marks = [...]string{"█", "░", "×", "+", "?"}
	}
	parts := scaleParts([...]int{c.Used, c.Free, c.Quarantined, c.Making, c.Unmanaged}, barCells)
	styles := [...]screen.Style{screen.Cyan, screen.Plain, screen.Red, screen.Yellow, screen.Yellow}
	var bare, painted strings.Builder
	for i, n := range parts {
		s := strings.Repeat(marks[i], n)
		bare.WriteString(s)
		painted.WriteString(o.Paint(s, styles[i]))
	}
	return screen.Cell{Text: "[" + bare.String() + "]", Painted: "[" + painted.String() + "]"}
}

// scaleParts scales parts down so that they have the given number of cells together. A part that is
// not zero keeps at least one cell, which the largest part loses.
func scaleParts(parts [5]int, cells int) [5]int {
	total := 0
	for _, n := range parts {
		total += n
	}
	if total <= cells {
		return parts
	}
	left, largest := cells, 0
	var out [5]int
	for i, n := range parts {
		out[i] = n * cells / total
		if n > 0 && out[i] == 0 {
			out[i] = 1
		}
		if n > parts[largest] {
			largest = i
		}
		left -= out[i]
	}
	out[largest] += left
	return out
}

// describeCounts returns the counts of a bar as text, without those that are 0.
func describeCounts(c api.Counts) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{c.Used, "used"}, {c.Free, "free"}, {c.Quarantined, "quarantined"}, {c.Making, "making"}, {c.Unmanaged, "unmanaged"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
