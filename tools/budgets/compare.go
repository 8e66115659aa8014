package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// A change of a median by less than smallest, as a part of the median, is noise. If each side has
// enough values for a test (four), the change must also be significant. Otherwise it must exceed
// smallestAlone.
const (
	smallest      = 0.05
	smallestAlone = 0.10
)

// judgeUnit says whether values of a unit can be compared between machines, and whether less is
// better. Times cannot: those of an emulated or busy machine are only shown.
func judgeUnit(unit string) (judged, less bool) {
	switch {
	case strings.HasPrefix(unit, "x-faster"), strings.HasPrefix(unit, "x-of-"):
		return true, false
	case strings.HasPrefix(unit, "x-"), strings.HasSuffix(unit, "MiB"), strings.HasSuffix(unit, "-files"),
		unit == "MB", unit == "B/op", unit == "allocs/op":
		return true, true
	}
	return false, true
}

// change is a figure of two runs. A run that does not have it has no values.
type change struct {
	name
	was, is []float64
}

// The verdicts on a figure.
const (
	worse     = "worse"
	better    = "better"
	noise     = ""
	notJudged = "not judged"
	missing   = "missing"
	added     = "new"
)

func (c change) judgeChange() string {
	judged, less := judgeUnit(c.unit)
	switch part := c.relativeChange(); {
	case len(c.is) == 0:
		return missing
	case len(c.was) == 0:
		return added
	case c.isNoise():
		return noise
	case !judged:
		return notJudged
	case part > 0 == less:
		return worse
	}
	return better
}

// relativeChange returns the change of the median as a part of the earlier median.
func (c change) relativeChange() float64 {
	was, is := bench.Median(c.was), bench.Median(c.is)
	if was == is {
		return 0
	}
	return (is - was) / was // infinite if the earlier median was 0
}

func (c change) isNoise() bool {
	part := math.Abs(c.relativeChange())
	if d := bench.Differ(c.is, c.was); d.CanTell() {
		return !d.Significant() || part <= smallest
	}
	return part <= smallestAlone
}

// sectionOf returns the section of a part, nil when there is none.
func sectionOf(all []*section, part string) *section {
	for _, s := range all {
		if s.part == part {
			return s
		}
	}
	return nil
}

// compareFigures pairs the figures of now with the last ones, in the order in which they were
// measured. It leaves out parts that only one side has.
func compareFigures(last, now []*section) []change {
	var all []change
	for _, s := range now {
		old := sectionOf(last, s.part)
		if old == nil {
			continue
		}
		for _, n := range s.order {
			all = append(all, change{n, old.values[n], s.values[n]})
		}
		for _, n := range old.order {
			if s.values[n] == nil {
				all = append(all, change{n, old.values[n], nil})
			}
		}
	}
	return all
}

// describeChanges returns a table of the figures that changed beyond noise, those that got worse
// first, and the verdict.
func describeChanges(last, now []*section) string {
	all := compareFigures(last, now)
	var rows []string
	count := map[string]int{}
	for _, verdict := range []string{worse, better, missing, added, notJudged} {
		for _, c := range all {
			if c.judgeChange() != verdict {
				continue
			}
			if len(count) == 0 {
				rows = append(rows, "AGAINST THE LAST FIGURES\tNODE\tUNIT\tLAST\tNOW\tCHANGE\tP\t")
			}
			count[verdict]++
			rows = append(rows, strings.Join(append(c.formatCells(), verdict), "\t"))
		}
	}
	return alignRows(rows) + describeMissing(last, now) + formatVerdict(all, count) + "\n"
}

func (c change) formatCells() []string {
	show := func(values []float64) string {
		if len(values) == 0 {
			return "-"
		}
		return fmt.Sprintf("%.4g", bench.Median(values))
	}
	part, p := "-", "-"
	if len(c.was) > 0 && len(c.is) > 0 {
		part = fmt.Sprintf("%+.0f %%", 100*c.relativeChange())
		if d := bench.Differ(c.is, c.was); d.CanTell() {
			p = fmt.Sprintf("%.2g", d.P)
		}
	}
	benchmark := strings.TrimPrefix(c.benchmark, "Benchmark")
	return []string{benchmark, c.name.part, c.unit, show(c.was), show(c.is), part, p}
}

// describeMissing names the parts that have no last figures, and those whose last figures are of
// another machine.
func describeMissing(last, now []*section) string {
	var text strings.Builder
	for _, s := range now {
		switch l := sectionOf(last, s.part); {
		case l == nil:
			fmt.Fprintf(&text, "%s: there are no last figures; tools/bench --keep %s writes these into test/bench/last.txt\n", s.part, s.part)
		case l.machine != s.machine:
			fmt.Fprintf(&text, "%s: the last figures are of commit %s on another machine (%s)\n", s.part, l.commit, l.machine)
		}
	}
	return text.String()
}

// formatVerdict returns the verdict in one line.
func formatVerdict(all []change, count map[string]int) string {
	compared := 0
	for _, c := range all {
		if judged, _ := judgeUnit(c.unit); judged && len(c.was) > 0 {
			compared++
		}
	}
	switch {
	case compared == 0:
		return "verdict: nothing was compared"
	case count[worse]+count[missing] == 0:
		return fmt.Sprintf("verdict: none of %d figures got worse beyond noise, %d better", compared, count[better])
	}
	return fmt.Sprintf("verdict: %d of %d figures GOT WORSE beyond noise, %d better, %d missing", count[worse], compared, count[better], count[missing])
}
