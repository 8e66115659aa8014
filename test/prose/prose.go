// Package prose counts the places of a document, a help text or a message that are not
// plain English: long sentences and lines, and words that do not name the actor. In go
// texts; out come places. Tests of test/layout, and test/helptext for the commands, call
// it.
package prose

import (
	"fmt"
	"regexp"
	"strings"
)

// The limits of documents. They hold for each page, so that a good page does not
// make up for a bad one.
const (
	riddlesPer1000 = 2   // sentences that begin with a word of riddle
	vaguePer10000  = 3   // words of vague among all words
	mostWords      = 30  // of a sentence
	mostColumns    = 100 // of a line that is no table, code or lone link
)

var (
	riddle = regexp.MustCompile(`^(What|Whatever|Whoever|Who|Whom|Of|One that|One who|That which)\b`)
	vague  = regexp.MustCompile(`(?i)\b(somebody|nobody|told|tells|whoever)\b`)

	codeSpan   = regexp.MustCompile("`[^`]*`")
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
	listMark   = regexp.MustCompile(`^\s*(?:[-*]|\d+\.)\s+`)
	word       = regexp.MustCompile(`[\pL\pN][\pL\pN'.,-]*`)
)

// sentence is one sentence of a document and the line where its block begins.
type sentence struct {
	line int
	text string
}

// document is a text without its code.
type document struct {
	sentences []sentence
	wide      []int // lines of more than mostColumns
	words     int
}

// parseDocument reads Markdown: paragraphs, items of lists and cells of tables
// become sentences; code, fences and headings do not.
func parseDocument(text string) document {
	var p document
	var block []string
	begin, fenced, blank := 0, false, true
	flush := func() {
		p.addSentences(begin, strings.Join(block, " "))
		block = nil
	}
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		code := !fenced && strings.HasPrefix(line, "    ") && (blank || len(block) == 0)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fenced = !fenced
			flush()
		case fenced:
		case trimmed == "" || code || strings.HasPrefix(line, "#"):
			flush()
		case strings.HasPrefix(trimmed, "|"):
			flush()
			for cell := range strings.SplitSeq(codeSpan.ReplaceAllString(trimmed, "x"), "|") {
				p.addSentences(i+1, cell)
			}
		default:
			if listMark.MatchString(line) {
				flush()
			}
			if len(block) == 0 {
				begin = i + 1
			}
			block = append(block, listMark.ReplaceAllString(trimmed, ""))
			if len([]rune(line)) > mostColumns && strings.Contains(trimmed, " ") {
				p.wide = append(p.wide, i+1)
			}
		}
		blank = trimmed == "" || code
	}
	flush()
	return p
}

// addSentences splits a block at each full stop and question mark that ends a
// word.
func (p *document) addSentences(line int, block string) {
	block = linkTarget.ReplaceAllString(codeSpan.ReplaceAllString(block, "x"), "]")
	var current []string
	end := func() {
		if text := strings.Join(current, " "); word.MatchString(text) {
			p.sentences = append(p.sentences, sentence{line, text})
			p.words += len(word.FindAllString(text, -1))
		}
		current = nil
	}
	for field := range strings.FieldsSeq(block) {
		current = append(current, strings.TrimLeft(field, `*_("[`))
		if bare := strings.TrimRight(field, `*_)"']`); strings.HasSuffix(bare, ".") || strings.HasSuffix(bare, "?") {
			if bare != "e.g." && bare != "i.e." {
				end()
			}
		}
	}
	end()
}

// Report has the counts of a text.
type Report struct {
	Sentences, Words int
	// Hits has a line for each place that is not plain.
	Hits []string
	// Exceeds says whether the places are more than the limits allow.
	Exceeds bool
}

// Check counts the places of a document in Markdown that are not plain. name begins
// each hit.
func Check(name, text string) Report {
	d := parseDocument(text)
	r := Report{Sentences: len(d.sentences), Words: d.words}
	riddles, vagues := 0, 0
	for _, s := range d.sentences {
		at := fmt.Sprintf("%s:%d: ", name, s.line)
		for _, hit := range findWords(s.text) {
			r.Hits = append(r.Hits, at+hit)
		}
		if riddle.MatchString(s.text) {
			riddles++
		}
		vagues += len(vague.FindAllString(s.text, -1))
		if hit := findLength(s.text); hit != "" {
			r.Exceeds = true
			r.Hits = append(r.Hits, at+hit)
		}
	}
	for _, line := range d.wide {
		r.Exceeds = true
		r.Hits = append(r.Hits, fmt.Sprintf("%s:%d: more than %d columns", name, line, mostColumns))
	}
	r.Exceeds = r.Exceeds || riddles*1000 > riddlesPer1000*r.Sentences || vagues*10000 > vaguePer10000*r.Words
	return r
}

// FindHelp returns the places of a command's help that are not plain. Its lines that
// begin with a space are code, tables or examples.
func FindHelp(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, " ") {
			lines[i] = ""
		}
	}
	var hits []string
	for _, s := range parseDocument(strings.Join(lines, "\n")).sentences {
		hits = append(hits, findWords(s.text)...)
		if hit := findLength(s.text); hit != "" {
			hits = append(hits, hit)
		}
	}
	return hits
}

// FindWords returns the places of a message that begin with a word of riddle, or that
// do not name the actor.
func FindWords(text string) []string {
	var hits []string
	for _, s := range parseDocument(text).sentences {
		hits = append(hits, findWords(s.text)...)
	}
	return hits
}

func findWords(sentence string) []string {
	var hits []string
	if m := riddle.FindString(sentence); m != "" {
		hits = append(hits, fmt.Sprintf("begins with %q: %s", m, sentence))
	}
	for _, m := range vague.FindAllString(sentence, -1) {
		hits = append(hits, fmt.Sprintf("%q: name the actor: %s", m, sentence))
	}
	return hits
}

// findLength returns the place of a sentence that is too long; otherwise it is empty.
func findLength(sentence string) string {
	if n := len(word.FindAllString(sentence, -1)); n > mostWords {
		return fmt.Sprintf("%d words, at most %d: %s", n, mostWords, sentence)
	}
	return ""
}
