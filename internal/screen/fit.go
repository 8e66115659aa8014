package screen

import (
	"strings"
	"unicode/utf8"
)

// Fit breaks the lines of text that exceed the width, between words and within words that are longer.
// The rest of a line is indented by two columns more than its start. Colours do not count. Programs call
// it with all that they show people, as the last step.
func (l Look) Fit(text string) string {
	if l.Width <= 0 || l.Wide {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, end := strings.CutSuffix(line, "\n")
		b.WriteString(strings.Join(l.fitLine(line), "\n"))
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func (l Look) fitLine(line string) []string {
	if visible(line) <= l.Width {
		return []string{line}
	}
	indent := min(len(line)-len(strings.TrimLeft(line, " ")), l.Width/2)
	lead := strings.Repeat(" ", indent)
	out := []string{}
	for _, word := range strings.Split(strings.TrimLeft(line, " "), " ") {
		last := len(out) - 1
		if last >= 0 && visible(out[last])+1+visible(word) <= l.Width {
			out[last] += " " + word
			continue
		}
		if last >= 0 {
			out[last] = strings.TrimRight(out[last], " ")
			lead = strings.Repeat(" ", indent+2)
		}
		for visible(lead+word) > l.Width {
			head, rest := cutVisible(word, l.Width-len(lead))
			out = append(out, lead+head)
			lead, word = strings.Repeat(" ", indent+2), rest
		}
		out = append(out, lead+word)
	}
	return out
}

// visible returns the columns of s without its colours.
func visible(s string) (n int) {
	for rest := s; rest != ""; {
		size, shown := nextRune(rest)
		if shown {
			n++
		}
		rest = rest[size:]
	}
	return n
}

// cutVisible cuts s after so many columns.
func cutVisible(s string, columns int) (head, rest string) {
	at := 0
	for at < len(s) {
		size, shown := nextRune(s[at:])
		if shown {
			if columns == 0 {
				break
			}
			columns--
		}
		at += size
	}
	return s[:at], s[at:]
}

// nextRune returns the size of the first rune of s, or of the first colour as a whole, which is not
// shown.
func nextRune(s string) (size int, shown bool) {
	if strings.HasPrefix(s, "\x1b[") {
		if end := strings.IndexByte(s, 'm'); end > 0 {
			return end + 1, false
		}
	}
	_, size = utf8.DecodeRuneInString(s)
	return size, true
}
