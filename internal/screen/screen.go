// Package screen lays text out for people: tables and paragraphs that fit a width,
// bars and colours. Callers pass values and a Look, which describes what the writer can show, and
// get text. This package does not inspect the terminal or the environment; package cli does.
package screen

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Look says what text may use. The zero value is for a file: no colours, ASCII, any width.
type Look struct {
	Width   int  // columns to fit; 0 is unlimited
	Color   bool // with ANSI colours
	Unicode bool // block characters; otherwise ASCII
	Wide    bool // show all columns of a table, even if it exceeds Width
}

// Style is how a terminal shows text: parameters of the SGR sequence (ECMA-48).
type Style string

// The styles that texts use.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"
)

// Paint colours s, if colours are wanted.
func (l Look) Paint(s string, st Style) string {
	if !l.Color || st == Plain || s == "" {
		return s
	}
	return "\x1b[" + string(st) + "m" + s + "\x1b[0m"
}

// Bar draws a part of width, to an eighth of a column where there is Unicode.
// A part above 0 draws at least one mark.
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

// Columns returns the width of s on a terminal. Names in the kernel and in Kubernetes are of
// single-width characters.
func Columns(s string) int { return utf8.RuneCountInString(s) }

// Wrap breaks s between words into lines of at most width; 0 does not break. A
// word that is longer stays whole.
func Wrap(s string, width int) []string {
	var lines []string
	for _, word := range strings.Fields(s) {
		if last := len(lines) - 1; last >= 0 && (width <= 0 || Columns(lines[last])+1+Columns(word) <= width) {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	if lines == nil {
		return []string{""}
	}
	return lines
}

// WrapAll wraps like Wrap, and also breaks a word that is longer than width.
func WrapAll(s string, width int) []string {
	if width <= 0 {
		return Wrap(s, width)
	}
	var words []string
	for _, word := range strings.Fields(s) {
		for runes := []rune(word); len(runes) > width; runes = []rune(word) {
			words, word = append(words, string(runes[:width])), string(runes[width:])
		}
		words = append(words, word)
	}
	return Wrap(strings.Join(words, " "), width)
}

// cutMiddle keeps the first letters of a text that is wider than width, and as many of the last as fit.
func cutMiddle(s string, width, front int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return string(r[:front]) + ".." + string(r[len(r)-(max(2, width)-2-front):])
}

// ShortenAll shortens names to width columns so that different names stay different. It takes letters from their
// middle, since names of one table begin alike and end with what sets them apart, such as a size.
// If two short names are then alike, it cuts all names at another place, and numbers those that
// stay alike at any place.
func ShortenAll(names []string, width int) []string {
	least := len(names)
	var best []string
	usual := max(0, width-2) / 3
	fronts := []int{usual}
	for off := 1; off <= width; off++ { // the nearest to the usual first
		for _, front := range []int{usual + off, usual - off} {
			if front >= 0 && front <= width-2 {
				fronts = append(fronts, front)
			}
		}
	}
	for _, front := range fronts {
		out := make([]string, len(names))
		for i, name := range names {
			out[i] = cutMiddle(name, width, front)
		}
		alike := countAlike(names, out)
		if alike == 0 {
			return out
		}
		if alike < least || best == nil {
			least, best = alike, out
		}
	}
	return numberAlike(names, best, width)
}

// countAlike returns how many names share their short form with a different name.
func countAlike(names, short []string) (n int) {
	of := map[string]string{}
	for i, s := range short {
		if first, seen := of[s]; seen && first != names[i] {
			n++
		} else {
			of[s] = names[i]
		}
	}
	return n
}

// numberAlike ends short forms of different names with numbers.
func numberAlike(names, short []string, width int) []string {
	out := slices.Clone(short)
	taken := map[string]string{}
	for i, name := range names {
		for n := 2; taken[out[i]] != "" && taken[out[i]] != name; n++ {
			mark := fmt.Sprintf("~%d", n)
			kept := []rune(short[i])
			out[i] = string(kept[:max(0, min(len(kept), width-Columns(mark)))]) + mark
		}
		taken[out[i]] = name
	}
	return out
}

// Ago formats a span in at most two units: 12s, 4m10s, 3h5m, 2d4h.
func Ago(d time.Duration) string {
	d = max(0, d).Truncate(time.Second)
	s := int(d / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return formatPair(s/60, "m", s%60, "s")
	case s < 86400:
		return formatPair(s/3600, "h", s%3600/60, "m")
	}
	return formatPair(s/86400, "d", s%86400/3600, "h")
}

func formatPair(a int, unitA string, b int, unitB string) string {
	if b == 0 {
		return fmt.Sprintf("%d%s", a, unitA)
	}
	return fmt.Sprintf("%d%s%d%s", a, unitA, b, unitB)
}

// Plural returns a count with its noun: "1 node", "2 nodes". what is the noun in the singular.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") { // "address"
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}
