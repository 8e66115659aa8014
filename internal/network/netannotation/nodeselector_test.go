package netannotation

import (
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

func TestParseNodeSelector(t *testing.T) {
	for text, want := range map[string]string{
		"rack=7": "rack: 7", " a.b/rack = x_1.y ": "a.b/rack: x_1.y", "fast": "fast: ", "fast=": "fast: ",
		"a b=c": "", "a=b=c": "", "": "", "/x=y": "", "a.b/=y": "", "a/b/c=y": "", "A.b/c=y": "", "-a=b": "", "a=b-": "",
		strings.Repeat("a", 64) + "=b": "", "a=" + strings.Repeat("b", 64): "", strings.Repeat("a", 254) + "/b=c": "",
	} {
		key, value, err := ParseNodeSelector(map[string]string{NodeSelector: text})
		if got := key + ": " + value; want != "" && (got != want || err != nil) || want == "" && !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("%q: %s %v, want %q", text, got, err, want)
		}
	}
	if key, _, err := ParseNodeSelector(nil); key != "" || err != nil {
		t.Error(key, err)
	}
}
