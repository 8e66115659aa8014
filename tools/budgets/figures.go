package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The keys of configuration lines that distinguish runs. tools/bench writes part, commit and
// machine at the head of each file, go test writes pkg.
var configKeys = []string{"part", "commit", "machine", "pkg"}

// name identifies a figure: a metric of one benchmark, on one kind of node.
type name struct{ part, pkg, benchmark, unit string }

// section is the output of one part of tools/bench, in Go's benchmark format.
type section struct {
	part, commit, machine string
	lines                 []string // configuration and results, without other output
	order                 []name
	values                map[name][]float64 // one for each line
}

// processors matches the number of processors, which go test appends to a benchmark's name.
var processors = regexp.MustCompile(`-\d+$`)

// parseSections reads Go's benchmark format: configuration lines ("key: value") and results, which are
// a name, the iterations, then a value and its unit again and again. A line "part: NAME" begins
// a section. Lines that are neither are skipped.
func parseSections(r io.Reader) ([]*section, error) {
	var all []*section
	pkg := ""
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case key == "part":
			all = append(all, &section{part: value, values: map[name][]float64{}})
			pkg = ""
		case len(all) == 0:
			continue
		case key == "commit":
			all[len(all)-1].commit = value
		case key == "machine":
			all[len(all)-1].machine = value
		case key == "pkg":
			pkg = value
		}
		s := all[len(all)-1]
		switch {
		case slices.Contains(configKeys, key):
			s.lines = append(s.lines, line)
		case strings.HasPrefix(line, "Benchmark"):
			if err := s.addResult(pkg, line); err != nil {
				return nil, err
			}
		}
	}
	return all, lines.Err()
}

// addResult takes one line's figures. A line of a benchmark that printed only its name has none.
func (s *section) addResult(pkg, line string) error {
	f := strings.Fields(line)
	if len(f) < 4 {
		return nil
	}
	s.lines = append(s.lines, line)
	benchmark := processors.ReplaceAllString(f[0], "")
	for i := 2; i+1 < len(f); i += 2 {
		v, err := strconv.ParseFloat(f[i], 64)
		if err != nil {
			return fmt.Errorf("%s: %w", f[0], err)
		}
		n := name{s.part, pkg, benchmark, f[i+1]}
		if s.values[n] == nil {
			s.order = append(s.order, n)
		}
		s.values[n] = append(s.values[n], v)
	}
	return nil
}

// mergeSections returns the sections of last, in which those of now replace the sections of the
// same part.
func mergeSections(last, now []*section) []*section {
	out := slices.Clone(last)
	for _, s := range now {
		i := slices.IndexFunc(out, func(old *section) bool { return old.part == s.part })
		if i < 0 {
			out = append(out, s)
			continue
		}
		out[i] = s
	}
	return out
}

// formatSections writes sections as parseSections reads them.
func formatSections(all []*section) string {
	var b strings.Builder
	for i, s := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, line := range s.lines {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
