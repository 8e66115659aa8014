package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReferenceIsCurrent(t *testing.T) {
	root := filepath.Join("..", "..")
	all, err := listReferences(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range all {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not current; run tools/go run ./tools/refdoc (-want +got):\n%s", name, diff)
		}
	}
}

// Each metric that package metrics declares is on its page.
func TestMetricsReferenceHasEveryMetric(t *testing.T) {
	root := filepath.Join("..", "..")
	var code []byte
	for _, name := range []string{"metrics.go", "status.go"} {
		one, err := os.ReadFile(filepath.Join(root, "internal/node/metrics", name))
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, one...)
	}
	page, err := metricsReference()
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`"(culvert_\w+[a-z])"`).FindAllSubmatch(code, -1)
	if len(declared) < 25 {
		t.Fatalf("only %d metrics found in the code, so this test no longer sees them", len(declared))
	}
	for _, m := range declared {
		if !bytes.Contains(page, []byte("| `"+string(m[1])+"` |")) {
			t.Errorf("the page lacks %s: give the status of metricsReference something to count", m[1])
		}
	}
}

// A field without a comment, a value without one and a reason without a type are refused.
func TestUndocumentedIsRefused(t *testing.T) {
	var out bytes.Buffer
	s := schema{Properties: map[string]schema{"a": {Type: "string"}}}
	if err := writeFields(&out, s, "spec"); err == nil || err.Error() != "field spec.a has no comment" {
		t.Error(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"values.yaml": "# A.\na: 1\nb: 2\n", "reasons.go": "package reasons\n\n// Events.\nconst (\n\t// A VF is lost.\n\tLost = \"Lost\"\n)\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := readChartValues(filepath.Join(dir, "values.yaml")); err == nil || !strings.HasSuffix(err.Error(), "value b has no comment") {
		t.Error(err)
	}
	if _, err := eventsReference(dir); err == nil || !strings.HasPrefix(err.Error(), "reason Lost: ") {
		t.Error(err)
	}
}

func TestNamed(t *testing.T) {
	got := namedInvariants("TestI2Something: I4, I1-I3 and I4; not I.")
	if diff := cmp.Diff([]string{"I2", "I4", "I1", "I3"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
