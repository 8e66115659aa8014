package main

import (
	"os"
	"path/filepath"
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
		got, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("docs/%s is not current; run tools/go run ./tools/refdoc (-want +got):\n%s", name, diff)
		}
	}
}

func TestNamed(t *testing.T) {
	got := namedInvariants("TestI2Something: I4, I1-I3 and I4; not I.")
	if diff := cmp.Diff([]string{"I2", "I4", "I1", "I3"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
