// Command budgets reads the figures of tools/bench, prints which budgets of the design are met, and
// compares the figures with the last ones that were kept:
//
//	tools/go run ./tools/budgets -last test/bench/last.txt build/bench/fast.txt build/bench/whole.txt
//
// A file that is not there is left out. -keep writes the figures into the file of last figures,
// where they replace those of the same parts.
//
// The status is 0 whether budgets are met or not and whether figures got worse or not: a busy
// machine fails no build, and the author of a change weighs its cost. The last line is the verdict.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
)

func main() {
	last := flag.String("last", "", "file of the last figures to compare with")
	replace := flag.Bool("keep", false, "write these figures into the file of the last ones")
	flag.Parse()
	if err := runBudgets(os.Stdout, *last, *replace, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "budgets:", err)
		os.Exit(1)
	}
}

func runBudgets(out io.Writer, lastFile string, replace bool, files []string) error {
	var now []*section
	for _, name := range files {
		s, err := readFile(name)
		if err != nil {
			return err
		}
		now = append(now, s...)
	}
	if _, err := fmt.Fprint(out, formatTable(now)); err != nil || lastFile == "" {
		return err
	}
	last, err := readFile(lastFile)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(out, "\n", describeChanges(last, now)); err != nil || !replace {
		return err
	}
	return os.WriteFile(lastFile, []byte(formatSections(mergeSections(last, now))), 0o644)
}

// readFile parses a file. A missing file has no sections.
func readFile(name string) ([]*section, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := parseSections(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, nil
}
