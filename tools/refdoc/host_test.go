package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHostReferenceIsCurrent(t *testing.T) {
	root := filepath.Join("..", "..")
	want, err := hostReference(filepath.Join(root, "desired"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "docs", "reference", "host.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/reference/host.md is not what package desired says; run tools/go run ./tools/refdoc (-want +got):\n%s", diff)
	}
}
