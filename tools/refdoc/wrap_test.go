package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrapLines(t *testing.T) {
	long := strings.Repeat("abcd ", 18)
	for _, c := range []struct{ name, text, want string }{
		{"a short line", "a b", "a b"},
		{"a line of 100 columns", long + "abcdefghij", long + "abcdefghij"},
		{"a line of 101 columns", long + "abcdefghijk", strings.TrimSpace(long) + "\nabcdefghijk"},
		{"an item of a list", "- " + long + "efghijkl mn", "- " + strings.TrimSpace(long) + " efghijkl" + "\n  mn"},
		{"a code span", long + "`a b c d e f`", strings.TrimSpace(long) + "\n`a b c d e f`"},
		{"code", "\tvfs: 7  # " + long + long, "    vfs: 7  # " + long + long},
		{"a table", "| " + long + long + "|", "| " + long + long + "|"},
	} {
		if diff := cmp.Diff(c.want, wrapLines(c.text)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.name, diff)
		}
	}
}
