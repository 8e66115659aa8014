package excerpt_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/culvert-net/culvert/internal/excerpt"
)

func TestExcerpts(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"plain", excerpt.Line("enp1s0 ä €"), "enp1s0 ä €"},
		{"lines", excerpt.Clean("a\nb\tc\r"), "a b c "},
		{"several lines", excerpt.Lines("a\tb\n\x1b[2Jc\r\n"), "a b\n\\x1b[2Jc \n"},
		{"terminal", excerpt.Clean("\x1b[2J\a\u202eevil\u200b"), `\x1b[2J\a\u202eevil\u200b`},
		{"not UTF-8", excerpt.Clean("a\xff\xc3b\ufffd"), `a\xff\xc3b` + "\ufffd"},
		{"bounded", excerpt.Line(strings.Repeat("ä", 102)), strings.Repeat("ä", 100) + "... (2 more characters)"},
		{"exact", excerpt.Line(strings.Repeat("ä", 100)), strings.Repeat("ä", 100)},
		{"bounded, not UTF-8", excerpt.Line(strings.Repeat("\xff", 103)), strings.Repeat(`\xff`, 100) + "... (3 more characters)"},
		{"empty", excerpt.Line(""), ""},
		{"quote", excerpt.Quote("a\n\"b\"\x1b"), `"a\n\"b\"\x1b"`},
		{"long quote", excerpt.Quote(strings.Repeat("ä", 103)), `"` + strings.Repeat("ä", 100) + `"... (3 more characters)`},
		{"output", excerpt.QuoteOutput("abcd" + strings.Repeat("ä", 299) + "\n"), `(4 characters) ..."` + strings.Repeat("ä", 299) + `\n"`},
		{"short output", excerpt.QuoteOutput("äb"), `"äb"`},
		{"fits", excerpt.Fit("a\nb", 3), "a b"},
		{"fit", excerpt.Fit(strings.Repeat("ä", 100), 50), strings.Repeat("ä", 12) + "... (88 more characters)"},
		{"error", excerpt.Error(errors.Join(errors.New("one"), errors.New("two\x1b"))), `one; two\x1b`},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}

// For any input, the output is printable, on one line, valid UTF-8, and bounded.
func FuzzExcerpts(f *testing.F) {
	f.Add("a\nb\x1b[2J\xff\u202e", uint8(3))
	f.Add(strings.Repeat("€", 300), uint8(100))
	f.Fuzz(func(t *testing.T, text string, room uint8) {
		for name, got := range map[string]string{
			"Clean": excerpt.Clean(text), "Line": excerpt.Line(text), "Quote": excerpt.Quote(text),
			"QuoteOutput": excerpt.QuoteOutput(text), "Fit": excerpt.Fit(text, 64+int(room)), "Error": excerpt.Error(errors.New(text)),
		} {
			if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%s: %q", name, got)
			}
		}
		if n := len(excerpt.Fit(text, 64+int(room))); n > 64+int(room) {
			t.Errorf("Fit: %d bytes", n)
		}
		if n := utf8.RuneCountInString(excerpt.Line(text)); n > 10*100+40 {
			t.Errorf("Line: %d characters", n)
		}
	})
}
