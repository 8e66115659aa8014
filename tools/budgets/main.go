// Command budgets reads what tools/bench measured, one file for each kind of
// node, and prints which budgets of the design are met:
//
//	tools/go run ./tools/budgets build/bench/fast.txt build/bench/whole.txt
//
// A file that is not there is left out. The status is 0 whether they are met or
// not: a figure of a busy machine fails nobody's build.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "budgets:", err)
		os.Exit(1)
	}
}

func run(files []string) error {
	var all []measured
	for _, name := range files {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		m, err := parse(strings.TrimSuffix(filepath.Base(name), ".txt"), f)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, m...)
	}
	fmt.Print(table(all))
	return nil
}
