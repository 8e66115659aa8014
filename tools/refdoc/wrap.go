package main

import "strings"

// columns is the greatest width that test/layout allows for lines that are no table or
// code.
const columns = 100

// wrapLines breaks each line of Markdown text that is wider than columns, and indents
// the lines of code by four spaces in place of a tab. Lines of tables and headings stay
// as they are. The lines after the first one of a list's item are indented by two
// spaces.
func wrapLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		switch code, isCode := strings.CutPrefix(line, "\t"); {
		case isCode:
			lines[i] = "    " + code
		case strings.HasPrefix(line, "|"), strings.HasPrefix(line, "#"):
		default:
			lines[i] = wrapLine(line)
		}
	}
	return strings.Join(lines, "\n")
}

// wrapLine breaks one line at spaces outside of code spans.
func wrapLine(line string) string {
	indent := ""
	if strings.HasPrefix(line, "- ") {
		indent = "  "
	}
	var out strings.Builder
	width := 0
	for i, word := range markdownWords(line) {
		size := len([]rune(word))
		switch {
		case i == 0:
		case width+1+size > columns:
			out.WriteString("\n" + indent)
			width = len(indent)
		default:
			out.WriteString(" ")
			width++
		}
		out.WriteString(word)
		width += size
	}
	return out.String()
}

// markdownWords splits a line at spaces. A code span is part of one word.
func markdownWords(line string) []string {
	inCode := false
	return strings.FieldsFunc(line, func(r rune) bool {
		if r == '`' {
			inCode = !inCode
		}
		return r == ' ' && !inCode
	})
}
