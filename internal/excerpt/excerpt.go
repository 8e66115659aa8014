// Package excerpt shows foreign text (a manifest, a driver, a command) in errors, tables and
// events: on one line, without control characters that a terminal would act upon, and no longer
// than the place allows. It counts the characters that it leaves out.
package excerpt

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean returns text on one line: it replaces line breaks and tabs with a space, and escapes
// characters that are not printable as Go does (\x1b, \u202e, \xff).
func Clean(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			b.WriteByte(' ')
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
		i += n
	}
	return b.String()
}

// Lines returns text with each of its lines cleaned.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Clean(line)
	}
	return strings.Join(lines, "\n")
}

// How many characters a message repeats of a value and of the output of a command.
const (
	longestValue  = 100
	longestOutput = 300
)

// Line returns the beginning of a value, cleaned, and how many characters follow.
func Line(value string) string {
	head, left := cutText(value, longestValue)
	return Clean(head) + formatMore(left)
}

// Quote returns Line in Go's quotes, with line breaks as \n.
func Quote(value string) string {
	head, left := cutText(value, longestValue)
	return strconv.Quote(head) + formatMore(left)
}

// QuoteOutput quotes the end of a command's output, which is its most useful part, with the number
// of characters that precede it.
func QuoteOutput(text string) string {
	left := utf8.RuneCountInString(text) - longestOutput
	if left <= 0 {
		return strconv.Quote(text)
	}
	head, _ := cutText(text, left)
	return fmt.Sprintf("(%d characters) ...%s", left, strconv.Quote(text[len(head):]))
}

// Fit shortens like Line for fields that Kubernetes limits: the whole result has at most bytes
// bytes, which must have room for the count.
func Fit(text string, bytes int) string {
	text = Clean(text)
	if len(text) <= bytes {
		return text
	}
	head := strings.ToValidUTF8(text[:bytes-len(formatMore(len(text)))], "")
	return head + formatMore(utf8.RuneCountInString(text[len(head):]))
}

// longestList is how many entries a message repeats of a list.
const longestList = 10

// List returns the beginning of a list in brackets and how many entries follow, to which
// more are added that are not in all.
func List[T any](all []T, more int) string {
	var parts []string
	for _, v := range all[:min(len(all), longestList)] {
		parts = append(parts, fmt.Sprint(v))
	}
	if more += len(all) - len(parts); more > 0 {
		parts = append(parts, More(more))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// Join returns the beginning of a list as a sentence has it: "a, b and 3 more".
func Join[T any](all []T) string {
	var parts []string
	for _, v := range all[:min(len(all), longestList)] {
		parts = append(parts, fmt.Sprint(v))
	}
	text := strings.Join(parts, ", ")
	if more := len(all) - len(parts); more > 0 {
		text += " " + More(more)
	}
	return text
}

// More says how many entries of a list are left out: "and 119,990 more".
func More(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return "and " + digits + " more"
}

// Error returns the text of err for a place that has one line: parts of a joined error are
// separated by "; ".
func Error(err error) string {
	return Clean(strings.ReplaceAll(err.Error(), "\n", "; "))
}

// cutText returns the first most characters and how many are left.
func cutText(text string, most int) (head string, left int) {
	if len(text) <= most {
		return text, 0
	}
	end := len(text)
	for i := range text {
		if most == 0 {
			end = i
			break
		}
		most--
	}
	return text[:end], utf8.RuneCountInString(text[end:])
}

func formatMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("... (%d more characters)", n)
}
