package outcome

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var some = []Test{
	{"pass", 1.5, "./attach", "TestA", "tools/go test -run '^TestA$' ./attach"},
	{"cached", 0, "./vf", "TestB", "b"},
	{"skip", 0, "./vf", "TestC", "c"},
	{"fail", 70.25, "./test/e2e", "TestD", "d"},
	{"fail", 2, "./rpc", "", "tools/go test ./rpc"},
}

func TestReadFolderReadsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	for name, tests := range map[string][]Test{"lab" + Extension: some[:2], "unit" + Extension: some[2:], "unit.log": nil} {
		var text bytes.Buffer
		if err := Write(&text, tests); err != nil {
			t.Fatal(err)
		}
		if tests == nil {
			text.WriteString("not a test\n")
		}
		if err := os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadFolder(dir)
	if diff := cmp.Diff(some, got); err != nil || diff != "" {
		t.Errorf("%v; -want +got:\n%s", err, diff)
	}
}

func TestReadRefusesOtherText(t *testing.T) {
	for _, text := range []string{"pass\t1\n", "pass\tx\t./a\tTestA\tr\n"} {
		if got, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestReport(t *testing.T) {
	var out strings.Builder
	Report(&out, some, 2)
	want := `tests: 2 passed (1 of them cached), 1 skipped, 2 failed
slowest tests:
    70.2 s  ./test/e2e TestD
     2.0 s  ./rpc 
to repeat ./test/e2e TestD: d
to repeat ./rpc: tools/go test ./rpc
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A run whose tests are all cached took no time, and names no slowest test.
func TestReportOfCachedTests(t *testing.T) {
	var out strings.Builder
	Report(&out, some[1:3], 5)
	if want := "tests: 1 passed (1 of them cached), 1 skipped, 0 failed\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	out.Reset()
	Report(&out, nil, 5)
	if out.String() != "" {
		t.Errorf("a report of no tests: %q", out.String())
	}
}
