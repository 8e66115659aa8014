package claims

import (
	"regexp"
	"strings"
)

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

// mostJoined is how many lines the value of a variable may have.
const mostJoined = 200

var (
	// openValue matches an assignment whose list or quoted text may go on in the next lines.
	openValue = regexp.MustCompile(`^(?:(?:export|local|readonly|declare|typeset)\s+(?:-\w+\s+)*)?[A-Za-z_]\w*\+?=(?:\(|"|')`)
	// remark matches a comment at the end of a line.
	remark = regexp.MustCompile(`\s+#.*$`)
)

// joinValues joins the lines of a list NAME=( ... ) and of a quoted value, so that an assignment is
// one line.
func joinValues(lines []textLine) []textLine {
	var out []textLine
	notBefore := 0 // the lines up to here have no end of a value
	for i := 0; i < len(lines); i++ {
		n := lines[i]
		if m := openValue.FindString(n.text); m != "" && i >= notBefore {
			text, more := joinValue(lines[i:], m[len(m)-1:], n.text[len(m):])
			switch {
			case more > 0:
				n.text = text
				i += more
			case text != "":
				notBefore = i + mostJoined
			}
		}
		out = append(out, n)
	}
	return out
}

// joinValue joins the first line with those up to the end of its value, and returns how many it
// adds: 0 if the value ends in the first line or is too long. after is the first line's part after
// the opening quote.
func joinValue(lines []textLine, quote, after string) (joined string, more int) {
	ends, clean := quote, func(text string) string { return text }
	if quote == "(" {
		ends, clean = ")", func(text string) string { return remark.ReplaceAllString(text, "") }
	}
	if strings.Contains(clean(after), ends) {
		return "", 0
	}
	var b strings.Builder
	b.WriteString(clean(lines[0].text))
	for i := 1; i < min(len(lines), mostJoined); i++ {
		text := clean(lines[i].text)
		b.WriteString(" " + text)
		if strings.Contains(text, ends) {
			return b.String(), i
		}
	}
	return b.String(), 0
}
