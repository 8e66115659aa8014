// Package outcome holds the outcomes of tests. tools/gotest writes one file of
// them for each run of go test, and `make test` reads the files when all runs
// have ended.
package outcome

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Test is a top-level test that ended, or a package that failed outside of its
// tests.
type Test struct {
	Verdict string  // pass, skip, fail, or cached: an earlier run passed it
	Seconds float64 // 0 when cached
	Package string  // relative to the module: ./attach
	Name    string  // "" for a package that failed outside of its tests
	Repeat  string  // the command that runs it alone
}

// Extension is the end of the files' names.
const Extension = ".tests"

// Write writes one line for each test.
func Write(w io.Writer, tests []Test) error {
	for _, t := range tests {
		fields := []string{t.Verdict, strconv.FormatFloat(t.Seconds, 'f', 3, 64), t.Package, t.Name, t.Repeat}
		if _, err := fmt.Fprintln(w, strings.Join(fields, "\t")); err != nil {
			return err
		}
	}
	return nil
}

// Read reads what Write wrote.
func Read(r io.Reader) ([]Test, error) {
	var all []Test
	for in := bufio.NewScanner(r); in.Scan(); {
		f := strings.Split(in.Text(), "\t")
		if len(f) != 5 {
			return nil, fmt.Errorf("%q has %d fields, want 5", in.Text(), len(f))
		}
		seconds, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			return nil, err
		}
		all = append(all, Test{f[0], seconds, f[2], f[3], f[4]})
	}
	return all, nil
}

// ReadFolder reads every file of a folder that Write wrote.
func ReadFolder(dir string) ([]Test, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+Extension))
	if err != nil {
		return nil, err
	}
	var all []Test
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		tests, err := Read(strings.NewReader(string(text)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, tests...)
	}
	return all, nil
}

// Report prints the number of tests by outcome, the slowest tests, and for each
// failed test the command that repeats it.
func Report(w io.Writer, tests []Test, slowest int) {
	if len(tests) == 0 {
		return
	}
	count := map[string]int{}
	for _, t := range tests {
		count[t.Verdict]++
	}
	fmt.Fprintf(w, "tests: %d passed (%d of them cached), %d skipped, %d failed\n", count["pass"]+count["cached"], count["cached"], count["skip"], count["fail"])
	ranked := slices.Clone(tests)
	slices.SortStableFunc(ranked, func(a, b Test) int { return cmp.Compare(b.Seconds, a.Seconds) })
	for i, t := range ranked[:min(slowest, len(ranked))] {
		if t.Seconds == 0 {
			break
		}
		if i == 0 {
			fmt.Fprintln(w, "slowest tests:")
		}
		fmt.Fprintf(w, "%8.1f s  %s %s\n", t.Seconds, t.Package, t.Name)
	}
	PrintFailed(w, tests)
}

// PrintFailed prints for each test that failed the command that repeats it.
func PrintFailed(w io.Writer, tests []Test) {
	for _, t := range tests {
		if t.Verdict == "fail" {
			fmt.Fprintf(w, "to repeat %s: %s\n", strings.TrimSpace(t.Package+" "+t.Name), t.Repeat)
		}
	}
}
