package vf_test

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

func TestParseSegment(t *testing.T) {
	for _, good := range []string{"a", "0", "storage", "rack-7", "vlan100", strings.Repeat("a", 63)} {
		if got, err := vf.ParseSegment(good); err != nil || string(got) != good {
			t.Errorf("%q: %q, %v", good, got, err)
		}
	}
	for _, bad := range []string{"", "-", "-a", "a-", "Storage", "a.b", "a b", "a/b", "a_b", "ä", "a\n", strings.Repeat("a", 64)} {
		if got, err := vf.ParseSegment(bad); err == nil || got != "" {
			t.Errorf("%q: %q, %v", bad, got, err)
		}
	}
}

func TestSegmentConflicts(t *testing.T) {
	for _, tc := range []struct {
		a, b vf.Segment
		want bool
	}{{"", "", false}, {"a", "", false}, {"", "a", false}, {"a", "a", false}, {"a", "b", true}} {
		if got := tc.a.Conflicts(tc.b); got != tc.want {
			t.Errorf("%q and %q: %t", tc.a, tc.b, got)
		}
	}
}
