package layout

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// checkPipes finds scripts, also in strings of Go, that pipe into a grep that
// stops at the first match. SIGPIPE may then kill the program before grep, and
// with pipefail the script fails at random.
func checkPipes(tree fs.FS) ([]string, error) {
	all, err := files(tree)
	if err != nil {
		return nil, err
	}
	var complaints []string
	for _, name := range all {
		switch path.Ext(name) {
		case ".go", ".sh", ".txtar", "":
		default:
			continue
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			if strings.Contains(line, "| "+"grep -q") {
				complaints = append(complaints, fmt.Sprintf("%s:%d: grep stops at the first match and kills what it reads from; grep ... >/dev/null", name, number))
			}
		}
	}
	return complaints, nil
}

func TestPipesAreReadToTheirEnd(t *testing.T) {
	complaints, err := checkPipes(repository(t))
	report(t, complaints, err)
}

func TestCheckPipes(t *testing.T) {
	got, err := checkPipes(fstest.MapFS{
		"run":   {Data: []byte("set -o pipefail\nlist | " + "grep -q it\n")},
		"a.go":  {Data: []byte("package a\n")},
		"b.md":  {Data: []byte("list | " + "grep -q it\n")},
		"c.txt": {Data: []byte("")},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"run:2: grep stops at the first match and kills what it reads from; grep ... >/dev/null"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
