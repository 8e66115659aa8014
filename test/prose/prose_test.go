package prose

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindHelp(t *testing.T) {
	long := strings.Repeat("word ", 31) + "ends."
	got := FindHelp("Shows the VFs, e.g. all.\n\n  a table  " + long + "\n\nWho has one, it tells. " + long + "\n")
	want := []string{
		`begins with "Who": Who has one, it tells.`,
		`"tells": name the actor: Who has one, it tells.`,
		"32 words, at most 30: " + long,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
