package layout

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// promise is an invariant as docs/concepts.md states it.
var promise = regexp.MustCompile(`(?m)^- \*\*(I[0-9]+)\*\* `)

// checkInvariants finds invariants that no test and no scenario names.
func checkInvariants(tree fs.FS) ([]string, error) {
	concepts, err := fs.ReadFile(tree, "docs/concepts.md")
	if err != nil {
		return nil, err
	}
	all, err := files(tree)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	word := regexp.MustCompile(`\bI[0-9]+\b`)
	for _, name := range all {
		if !strings.HasSuffix(name, "_test.go") && path.Ext(name) != ".txtar" || path.Dir(name) == "test/layout" {
			continue
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		for _, w := range word.FindAllString(string(text), -1) {
			named[w] = true
		}
	}
	var complaints []string
	promises := promise.FindAllStringSubmatch(string(concepts), -1)
	if len(promises) == 0 {
		complaints = append(complaints, "docs/concepts.md states no invariant")
	}
	for _, m := range promises {
		if !named[m[1]] {
			complaints = append(complaints, fmt.Sprintf("docs/concepts.md promises %s, and no test names it: write the test that fails when it is broken, and name it there", m[1]))
		}
	}
	return complaints, nil
}

func TestInvariantsHaveTests(t *testing.T) {
	complaints, err := checkInvariants(repository(t))
	report(t, complaints, err)
}

func TestCheckInvariants(t *testing.T) {
	tree := fstest.MapFS{
		"docs/concepts.md":          {Data: []byte("# A\n\n- **I1** One owner.\n- **I2** Clean.\n- **I3** Read back.\n- **I12** More.\n")},
		"attach/attach_test.go":     {Data: []byte("package attach\n// TestA (I1, I120)\n")},
		"attach/attach.go":          {Data: []byte("package attach\n// I3\n")},
		"test/scenario/reset.txtar": {Data: []byte("# I2: clean\n")},
		"test/layout/this_test.go":  {Data: []byte("package layout\n// I3 I12\n")},
	}
	got, err := checkInvariants(tree)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], ", and")
	}
	if diff := cmp.Diff([]string{"docs/concepts.md promises I3", "docs/concepts.md promises I12"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
