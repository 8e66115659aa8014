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

// quoted is a test or a story as documents name it.
var quoted = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Za-z0-9_]+|[a-z-]+\\.txtar)`")

// checkProofs finds tests that documents name but that do not exist.
func checkProofs(tree fs.FS) ([]string, error) {
	all, err := files(tree)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Za-z0-9_]+)\(`)
	for _, name := range all {
		there[name[strings.LastIndex(name, "/")+1:]] = true
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			there[m[1]] = true
		}
	}
	var complaints []string
	for _, name := range all {
		if !strings.HasSuffix(name, ".md") || name == "CHANGELOG.md" {
			continue
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
			if !there[m[1]] {
				complaints = append(complaints, fmt.Sprintf("%s names %s, which is not there", name, m[1]))
			}
		}
	}
	return complaints, nil
}

func TestDocumentsNameTestsThatAreThere(t *testing.T) {
	complaints, err := checkProofs(repository(t))
	report(t, complaints, err)
}

func TestCheckProofs(t *testing.T) {
	tree := fstest.MapFS{
		"docs/failures.md":            {Data: []byte("`TestA`, `TestGone`, `drift.txtar`, `lost.txtar`, `BenchmarkB`\n")},
		"attach/attach_test.go":       {Data: []byte("package attach\nfunc TestA(t *testing.T) {}\nfunc BenchmarkB(b *testing.B) {}\n")},
		"test/scenario/x/drift.txtar": {Data: []byte("pass\n")},
	}
	got, err := checkProofs(tree)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"docs/failures.md names TestGone, which is not there", "docs/failures.md names lost.txtar, which is not there"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
