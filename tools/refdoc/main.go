// Command refdoc writes docs/reference/host.md from the package documentation
// of desired, so that what people read about host.yaml is what its parser's
// author wrote. Its test fails when the file is not current:
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
	text, err := hostReference(filepath.Join(root, "desired"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs", "reference", "host.md"), text, 0o644)
}
