package claims

import (
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// entry is one line of a file that sets something.
type entry struct {
	file       string
	line       int
	key, value string
}

func (e entry) formatWhere() string { return Claim{File: e.file, Line: e.line}.Where() }

func (e entry) formatSays() string {
	if e.value == "" && e.key == "" {
		return ""
	}
	return excerpt.Line(strings.Join(strings.Fields(e.key+"="+e.value), " "))
}

// section is a [name] with its entries, in order.
type section struct {
	name    string
	file    string
	line    int
	entries []entry
}

// parseINI reads the form that keyfiles (glib, "Key-value file parser") and
// systemd's units (systemd.syntax(7)) share: [section], key=value, comments
// that start a line with # or ;, and a backslash at the end of a line that
// continues it. parseINI skips all other lines, as both programs do.
func parseINI(file string, text []byte) []section {
	var out []section
	for _, n := range joinLines(text, "#;") {
		s := n.text
		if name, ok := strings.CutPrefix(s, "["); ok {
			if name, ok := strings.CutSuffix(name, "]"); ok {
				out = append(out, section{name: name, file: file, line: n.number})
			}
			continue
		}
		key, value, ok := strings.Cut(s, "=")
		if !ok || len(out) == 0 {
			continue
		}
		last := &out[len(out)-1]
		last.entries = append(last.entries, entry{file: file, line: n.number, key: strings.TrimSpace(key), value: strings.TrimSpace(value)})
	}
	return out
}

// lastEntry returns the last entry of a key: later ones win.
func (s section) lastEntry(key string) (entry, bool) {
	for i := len(s.entries) - 1; i >= 0; i-- {
		if s.entries[i].key == key {
			return s.entries[i], true
		}
	}
	return entry{}, false
}

// lastValue returns the value of the last entry of a key.
func (s section) lastValue(key string) string {
	e, _ := s.lastEntry(key)
	return e.value
}

// mergeSections returns all sections of one of the names as one. Its line is the first's.
func mergeSections(all []section, names ...string) (section, bool) {
	var out section
	found := false
	for _, s := range all {
		for _, name := range names {
			if s.name != name {
				continue
			}
			if !found {
				out = section{name: s.name, file: s.file, line: s.line}
				found = true
			}
			out.entries = append(out.entries, s.entries...)
		}
	}
	return out, found
}
