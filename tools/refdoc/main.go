// Command refdoc generates parts of the documentation from the code. It writes
// host.md from the package documentation of desired, bench-result.md from the types
// in bench, and invariants.md from the comments of tests. It writes migrate.md from
// the table of package migrate, and docs/compatibility.md from the cases of
// test/compat. Its own tests fail if a file is not current:
//
//	tools/go run ./tools/refdoc
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := writeReference("."); err != nil {
		fmt.Fprintln(os.Stderr, "refdoc:", err)
		os.Exit(1)
	}
}

// writeReference writes the reference below the project's folder root.
func writeReference(root string) error {
	all, err := listReferences(root)
	if err != nil {
		return err
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(root, "docs", name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// listReferences returns the content of the files below docs that refdoc writes.
func listReferences(root string) (map[string][]byte, error) {
	host, err := hostReference(filepath.Join(root, "internal/node/desired"))
	if err != nil {
		return nil, err
	}
	result, err := resultReference(filepath.Join(root, "bench"))
	if err != nil {
		return nil, err
	}
	invariants, err := invariantsReference(root)
	if err != nil {
		return nil, err
	}
	compatibility, err := compatibilityPage()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"reference/host.md": host, "reference/bench-result.md": result, "reference/invariants.md": invariants,
		"reference/migrate.md": migrateReference(), "compatibility.md": compatibility,
	}, nil
}
