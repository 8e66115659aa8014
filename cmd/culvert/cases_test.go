package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// Files after the manifests and reports of people have the right outcome: that of culvert net check, and
// of culvert migrate convert where the file is for another stack. -update writes the outcomes.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.[yj]*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		commands := []string{"net check"}
		if strings.Contains(string(text), "sriovnetwork.openshift.io") || strings.Contains(string(text), "kind: ConfigMap") {
			commands = append(commands, "migrate convert")
		}
		var b strings.Builder
		for _, c := range commands {
			out, err := run(t.Context(), t, "", append(strings.Fields(c), file)...)
			b.WriteString("$ culvert " + c + "\n" + out)
			if err != nil {
				b.WriteString("error: " + excerpt.Line(err.Error()) + "\n")
			}
		}
		golden := strings.TrimSuffix(file, filepath.Ext(file)) + ".out"
		if *update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), b.String()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", file, diff)
		}
	}
}
