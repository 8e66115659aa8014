package promises

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSteps(t *testing.T) {
	got := Steps("Use `make it`:\n\n    make one # first\n    make two \\\n        more\n\n```\n2 pods\n...\n```\n\n    make three\n\nThen:\n\n    make four\n```\nfour\n```\n")
	want := []Step{{"make one", ""}, {"make two more", "2 pods\n...\n"}, {"make three", ""}, {"make four", "four\n"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMissingLines(t *testing.T) {
	s := Step{Output: "NAME    READY\nserver-6d5f7c9b8d-x2x7k   1/1\n...\n[  5]  0.00-5.00  sec  38.1 MBytes  receiver\nfree\n"}
	out := "NAME READY\nserver-58cbb9db7-pq9wz  2/2\n[ 12]   0.00-5.01   sec  1 GBytes receiver\nattached\n"
	if diff := cmp.Diff([]string{"free"}, s.Missing(out)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A section ends at the next heading of its level or above. A # in an output is no heading.
func TestSection(t *testing.T) {
	const page = "# Page\n\n## One\n\ntext\n\n```\n# culvert\n```\n\n### More\n\nof one\n\n## Two\n\nlast\n"
	for heading, want := range map[string]string{
		"One": "\ntext\n\n```\n# culvert\n```\n\n### More\n\nof one\n\n", "More": "\nof one\n\n", "Two": "\nlast\n",
	} {
		if got, err := Section(page, heading); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", heading, got, err, want)
		}
	}
	if got, err := Section(page, "culvert"); err == nil {
		t.Errorf("a line of an output is a section: %q", got)
	}
}
