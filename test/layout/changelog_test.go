package layout

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// shortSentence is the length in bytes up to which a sentence may stand in the changelog twice.
const shortSentence = 60

var sentenceEnd = regexp.MustCompile(`\.\s+`)

// checkChangelog finds sentences that the changelog has twice, as a bad merge leaves them.
func checkChangelog(tree fs.FS) ([]string, error) {
	text, err := fs.ReadFile(tree, "CHANGELOG.md")
	if err != nil {
		return nil, err
	}
	var complaints []string
	seen := map[string]bool{}
	for _, s := range sentenceEnd.Split(strings.ReplaceAll(string(text), "\n- ", "\n. "), -1) {
		s = strings.Join(strings.Fields(s), " ")
		if len(s) > shortSentence && seen[s] {
			complaints = append(complaints, fmt.Sprintf("CHANGELOG.md has this twice: %s", s))
		}
		seen[s] = true
	}
	return complaints, nil
}

func TestChangelogSaysNothingTwice(t *testing.T) {
	complaints, err := checkChangelog(repository(t))
	report(t, complaints, err)
}

func TestCheckChangelog(t *testing.T) {
	const long = "A pod with a link-local address on a VF network kept all pods out"
	got, err := checkChangelog(fstest.MapFS{"CHANGELOG.md": {Data: []byte("# Changelog\n\n- Short. " + long + ".\n- Short. Other\n  text.\n- " + strings.Replace(long, " on", "\n  on", 1) + ".\n")}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"CHANGELOG.md has this twice: " + long}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
