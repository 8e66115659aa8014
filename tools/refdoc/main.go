// Command refdoc writes the parts of docs that are said better
// elsewhere: host.md from the package documentation of desired, so that what
// people read about host.yaml is what its parser's author wrote,
// bench-result.md from the types in bench, invariants.md from the tests, migrate.md
// from the table of package migrate, and docs/compatibility.md from the cases of
// test/compat. Its own tests fail when a file is not current:
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

// listReferences returns the files below docs that are written here.
func listReferences(root string) (map[string][]byte, error) {
	host, err := hostReference(filepath.Join(root, "desired"))
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
