package membership

import (
	"strings"
	"testing"
)

// The NodeState says which ranges of addresses it lacks, and nothing while it lacks none.
func TestOmittedRangesAreAProblem(t *testing.T) {
	if got := omittedProblems(""); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	got := omittedProblems("d/long, d/longer")
	if len(got) != 1 || got[0].Object != "addresses" || !strings.Contains(got[0].Reason, "leaves out some of d/long, d/longer") {
		t.Errorf("%+v", got)
	}
}
