package claims

import "strings"

// textLine is a line of a file with the lines that continue it.
type textLine struct {
	number int // of its first line
	text   string
}

// joinLines returns the lines of a text without empty lines and comments, and joins the lines that
// a backslash at the end continues. Each character of comments starts a comment line, also between
// continued lines.
func joinLines(text []byte, comments string) []textLine {
	var (
		out     []textLine
		joined  strings.Builder
		start   int
		ongoing bool
	)
	number := 0
	for raw := range strings.Lines(string(text)) {
		number++
		s := strings.TrimSpace(raw)
		if !ongoing {
			start = number
			joined.Reset()
		}
		if s == "" || strings.IndexByte(comments, s[0]) >= 0 {
			continue
		}
		s, ongoing = strings.CutSuffix(s, `\`)
		joined.WriteString(s)
		if ongoing {
			joined.WriteByte(' ')
			continue
		}
		out = append(out, textLine{start, strings.TrimSpace(joined.String())})
	}
	return out
}
