// Command refdoc writes the parts of docs/reference that are said better
// elsewhere: host.md from the package documentation of desired, so that what
// people read about host.yaml is what its parser's author wrote, and
// invariants.md from the tests. Its own tests fail when a file is not current:
//
//	tools/go run ./tools/refdoc
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "refdoc:", err)
		os.Exit(1)
	}
}

// run writes the reference below the project's folder root.
func run(root string) error {
	host, err := hostReference(filepath.Join(root, "desired"))
	if err != nil {
		return err
	}
	invariants, err := invariantsReference(root)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"host.md": host, "invariants.md": invariants} {
		if err := os.WriteFile(filepath.Join(root, "docs", "reference", name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
