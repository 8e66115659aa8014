package claims

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// functions are the functions of a script and of the files that it sources.
type functions struct {
	bodies map[string][]textLine
	called map[string]bool
	active map[string]bool // those that are being scanned
}

func newFunctions() *functions {
	return &functions{bodies: map[string][]textLine{}, called: map[string]bool{}, active: map[string]bool{}}
}

var (
	// definition matches the beginning of a function: name() {, function name {.
	definition = regexp.MustCompile(`^(?:function\s+([\w.:-]+)\s*(?:\(\s*\))?|([A-Za-z_][\w.:-]*)\s*\(\s*\))\s*(\{.*)?$`)
	quoted     = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	hereWord   = regexp.MustCompile(`(?:^|[^<])<<-?\s*["'\\]?([A-Za-z_]\w*)`)
)

// takeFunction keeps a function whose definition begins at a line, and returns the number of its lines;
// 0 if none begins there.
func (f *functions) takeFunction(lines []textLine) int {
	m := definition.FindStringSubmatch(lines[0].text)
	if m == nil || f == nil {
		return 0
	}
	first, used := m[3], 1
	if first == "" && len(lines) > 1 && strings.HasPrefix(lines[1].text, "{") {
		first, used = lines[1].text, 2
	}
	if first == "" {
		return 0
	}
	rest := append([]textLine{{lines[used-1].number, strings.TrimSpace(first[1:])}}, lines[used:]...)
	body, more := cutBody(rest)
	f.bodies[m[1]+m[2]] = body
	return used + more - 1
}

// cutBody returns the lines before the brace that closes a function, and the number of lines up to
// that brace.
func cutBody(lines []textLine) (body []textLine, used int) {
	depth, ends := 1, ""
	for i, n := range lines {
		if ends != "" {
			if n.text == ends {
				ends = ""
			}
			body = append(body, n)
			continue
		}
		if m := hereWord.FindStringSubmatch(n.text); m != nil {
			ends = m[1]
		}
		after, end := countBraces(n.text, depth)
		if depth = after; depth == 0 {
			if before := strings.TrimSpace(n.text[:end]); before != "" {
				body = append(body, textLine{n.number, before})
			}
			return body, i + 1
		}
		if n.text != "" {
			body = append(body, n)
		}
	}
	return body, len(lines)
}

// countBraces adds the words { and } of a line to the depth, and stops at 0. It returns the place of
// the last brace.
func countBraces(line string, depth int) (after, at int) {
	line = quoted.ReplaceAllStringFunc(line, func(q string) string { return strings.Repeat("x", len(q)) })
	end := 0
	for _, w := range strings.Fields(line) {
		at = end + strings.Index(line[end:], w)
		switch strings.Trim(w, ";)&|'\"") {
		case "{":
			depth++
		case "}":
			depth--
		}
		if depth == 0 {
			return 0, at
		}
		end = at + len(w)
	}
	return depth, at
}

// callFunction scans the body of a function with the arguments of a call, and reports whether there is
// a function of that name.
func (s *scanner) callFunction(src *source, n textLine, name string, arguments words) bool {
	f := src.functions
	if f == nil {
		return false
	}
	body, ok := f.bodies[name]
	if !ok {
		return false
	}
	f.called[name] = true
	s.work += len(src.vars)
	for _, line := range body {
		s.work += len(line.text)
	}
	if s.work > maxWork {
		s.reportBound(src, n)
	}
	if s.full || f.active[name] {
		return true
	}
	f.active[name] = true
	outer := src.vars.dropArguments()
	src.vars.setArguments(arguments)
	s.scanLines(src, body)
	src.vars.dropArguments()
	maps.Copy(src.vars, outer)
	delete(f.active, name)
	return true
}

// scanUncalled scans the functions that no line of the script calls: a trap or another program may.
func (s *scanner) scanUncalled(src *source) {
	src.vars.dropArguments()
	for _, name := range slices.Sorted(maps.Keys(src.functions.bodies)) {
		if !src.functions.called[name] {
			s.callFunction(src, textLine{}, name, nil)
		}
	}
}
