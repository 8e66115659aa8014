package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/promises"
)

// The command of docs/release.md reaches this program with each of its values.
func TestPageIsUnderstood(t *testing.T) {
	text, err := os.ReadFile("../../docs/release.md")
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, command := range promises.Commands(string(text)) {
		line, isMake := strings.CutPrefix(command, "make release ")
		if !isMake {
			continue
		}
		made++
		words, err := exec.CommandContext(t.Context(), "bash", "-c", "printf '%s\n' "+line).Output()
		if err != nil {
			t.Fatal(err)
		}
		args := strings.Split(strings.TrimSuffix(string(words), "\n"), "\n")
		recipe, err := promises.Make(t.Context(), "../..", append([]string{"--dry-run", "release"}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		_, own, found := strings.Cut(string(recipe), " ./tools/release ")
		if !found {
			t.Fatalf("make does not run this program:\n%s", recipe)
		}
		r, _, err := parseArgs(strings.Fields(own))
		if err != nil || r.Version != "v0.1.0" || r.Key != "release-key" || r.Image != "registry.example.org/culvert" || r.URL != "https://example.org/culvert/v0.1.0" {
			t.Errorf("%s: %v: %+v", command, err, r)
		}
	}
	if made != 1 {
		t.Errorf("%d commands of the page make a release", made)
	}
}
