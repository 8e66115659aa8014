// Command refdoc generates parts of the documentation from the code. It writes
// host.md from the package documentation of desired, and bench-result.md from the types
// in bench. It writes migrate.md from the table of package migrate, and docs/compatibility.md from the cases of
// test/compat. It writes api.md from the CRDs, which are made of the types in api/v1alpha1,
// events.md from internal/reasons and metrics.md from internal/node/metrics. It writes alerts.md
// from the rules for Prometheus. It writes chart.md,
// and the README.md and values.schema.json of the chart, from the chart's values.yaml. Its own tests
// fail if a file is not current:
//
//	tools/go run ./tools/refdoc
//
// With the argument invariants it prints the tests of each invariant instead, from their comments:
//
//	tools/go run ./tools/refdoc invariants
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

// run does what the arguments of the program ask for, in the project's folder root.
func run(root string) error {
	switch {
	case len(os.Args) == 1:
		return writeReference(root)
	case len(os.Args) == 2 && os.Args[1] == "invariants":
		text, err := invariantsReference(root)
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(text)
		return err
	}
	return fmt.Errorf("arguments %q: want none, or invariants", os.Args[1:])
}

// writeReference writes the reference below the project's folder root.
func writeReference(root string) error {
	all, err := listReferences(root)
	if err != nil {
		return err
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(root, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// listReferences returns the content of the files that refdoc writes, by their paths below root.
func listReferences(root string) (map[string][]byte, error) {
	host, err := hostReference(filepath.Join(root, "internal/node/desired"))
	if err != nil {
		return nil, err
	}
	result, err := resultReference(filepath.Join(root, "bench"))
	if err != nil {
		return nil, err
	}
	compatibility, err := compatibilityPage()
	if err != nil {
		return nil, err
	}
	conditions, err := readConditions(filepath.Join(root, "api/v1alpha1"))
	if err != nil {
		return nil, err
	}
	reasons, err := readConstants(filepath.Join(root, "internal/reasons"))
	if err != nil {
		return nil, err
	}
	api, err := apiReference(filepath.Join(root, "dist/kubernetes/crds"), conditions, reasons)
	if err != nil {
		return nil, err
	}
	events, err := eventsReference(filepath.Join(root, "internal/reasons"))
	if err != nil {
		return nil, err
	}
	metrics, err := metricsReference()
	if err != nil {
		return nil, err
	}
	alerts, err := alertsReference(filepath.Join(root, "dist/prometheus/culvert-rules.yaml"))
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{
		"docs/reference/alerts.md": alerts, "docs/reference/api.md": api, "docs/reference/events.md": events, "docs/reference/metrics.md": metrics,
		"docs/reference/host.md": host, "docs/reference/bench-result.md": result,
		"docs/reference/migrate.md": migrateReference(), "docs/compatibility.md": compatibility,
	}
	return all, addChart(root, all)
}
