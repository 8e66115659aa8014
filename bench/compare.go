package bench

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Way is what was measured over one between two containers: one entry a
// run in each list.
type Way struct {
	Name        string
	Gbps        []float64
	Retransmits []float64
	Gigabits    []float64 // that were received
	CPU         []float64 // processors busy for each Gb/s, sender and receiver together
	PingMS      float64   // average round trip
}

// perGigabit are the retransmits of each run for each gigabit.
func (p Way) perGigabit() []float64 {
	var out []float64
	for i := range min(len(p.Retransmits), len(p.Gigabits)) {
		out = append(out, p.Retransmits[i]/p.Gigabits[i])
	}
	return out
}

// Printed is what somebody else measured and printed. Zero was not printed.
type Printed struct {
	Name                                string
	Gbps, Retransmits, Gigabits, PingMS float64
}

// Comparison is a slow and a fast path, beside what was printed of the like.
type Comparison struct {
	Slow, Fast       Way
	Source           string // of what was printed
	OldSlow, OldFast Printed
}

// Gain is how much the fast path's throughput is larger.
func (c Comparison) Gain() Interval { return Ratio(c.Fast.Gbps, c.Slow.Gbps) }

// Look says how text is drawn.
type Look struct{ Colour, Unicode bool }

// Text draws the comparison as a table and bars, in at most 100 columns.
func (c Comparison) Text(l Look) string {
	var b strings.Builder
	line := func(cells ...string) { b.WriteString(columns(cells) + "\n") }
	rule := strings.Repeat(l.pick("─", "-"), 98) + "\n"
	line("", c.Slow.Name, c.Fast.Name, c.Fast.Name+" : "+c.Slow.Name, c.OldSlow.Name, c.OldFast.Name, "ratio")
	b.WriteString(l.paint(rule, dim))
	slow, fast, gain := Summarize(c.Slow.Gbps), Summarize(c.Fast.Gbps), c.Gain()
	line("Gb/s, median", Number(slow.Median), Number(fast.Median), times(gain.Value),
		printed(c.OldSlow.Gbps), printed(c.OldFast.Gbps), quotient(c.OldFast.Gbps, c.OldSlow.Gbps))
	line(fmt.Sprintf("  spread of %d and %d", slow.N, fast.N), Number(slow.Min)+" - "+Number(slow.Max), Number(fast.Min)+" - "+Number(fast.Max),
		times(gain.Low)+" - "+times(gain.High))
	line("retransmits, median", Number(Median(c.Slow.Retransmits)), Number(Median(c.Fast.Retransmits)), "",
		printed(c.OldSlow.Retransmits), printed(c.OldFast.Retransmits))
	slowPer, fastPer := Median(c.Slow.perGigabit()), Median(c.Fast.perGigabit())
	line("  for each Gb", Number(slowPer), Number(fastPer), quotient(fastPer, slowPer),
		printed(c.OldSlow.Retransmits/c.OldSlow.Gigabits), printed(c.OldFast.Retransmits/c.OldFast.Gigabits))
	slowCPU, fastCPU := Median(c.Slow.CPU), Median(c.Fast.CPU)
	line("CPUs per Gb/s, median", Number(slowCPU), Number(fastCPU), quotient(fastCPU, slowCPU), printed(0), printed(0))
	line("ping, ms average", Number(c.Slow.PingMS), Number(c.Fast.PingMS), quotient(c.Fast.PingMS, c.Slow.PingMS),
		printed(c.OldSlow.PingMS), printed(c.OldFast.PingMS))
	b.WriteString("\n")
	c.bars(&b, l)
	return b.String()
}

// bars draws the throughput of both pairs, each pair to its own scale.
func (c Comparison) bars(b *strings.Builder, l Look) {
	pair := func(title, slowName, fastName string, slow, fast float64) {
		b.WriteString(l.paint(title, bold) + "\n")
		most := math.Max(slow, fast)
		for _, bar := range []struct {
			name   string
			value  float64
			colour string
		}{{slowName, slow, yellow}, {fastName, fast, green}} {
			drawn := l.Bar(bar.value/most, 60)
			fmt.Fprintf(b, "  %-10s %s%s %s Gb/s\n", bar.name, l.paint(drawn, bar.colour),
				strings.Repeat(" ", 60-utf8.RuneCountInString(drawn)), Number(bar.value))
		}
	}
	pair("this run, median", c.Slow.Name, c.Fast.Name, Median(c.Slow.Gbps), Median(c.Fast.Gbps))
	pair(c.Source, c.OldSlow.Name, c.OldFast.Name, c.OldSlow.Gbps, c.OldFast.Gbps)
}

// widths of a table's columns: what is measured, then what was printed.
var widths = [...]int{23, 17, 17, 17, 10, 7, 7}

func columns(cells []string) string {
	var b strings.Builder
	for i, cell := range cells {
		pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
		if i == 0 {
			b.WriteString(cell + pad)
		} else {
			b.WriteString(pad + cell)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// Number prints three significant digits, and whole numbers whole.
func Number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v == math.Trunc(v) || math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf("%.*f", min(decimals, 6), v)
}

func printed(v float64) string {
	if v == 0 || math.IsNaN(v) {
		return "-"
	}
	return Number(v)
}

func times(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.2fx", v)
}

// quotient is of two single figures, of which the second may be missing.
func quotient(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return times(a / b)
}

// SGR sequences (ECMA-48).
const (
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	reset  = "\x1b[0m"
)

func (l Look) paint(s, how string) string {
	if !l.Colour {
		return s
	}
	return how + s + reset
}

func (l Look) pick(unicode, ascii string) string {
	if l.Unicode {
		return unicode
	}
	return ascii
}

// Bold paints s so, where there are colours.
func (l Look) Bold(s string) string { return l.paint(s, bold) }

// Bar draws a part of width, to an eighth of a column where there is Unicode.
// What is not nothing is seen.
func (l Look) Bar(part float64, width int) string {
	if math.IsNaN(part) || part <= 0 {
		return ""
	}
	eighths := max(1, int(math.Round(min(part, 1)*float64(width*8))))
	if !l.Unicode {
		return strings.Repeat("#", max(1, (eighths+4)/8))
	}
	return strings.Repeat("█", eighths/8) + []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}[eighths%8]
}
