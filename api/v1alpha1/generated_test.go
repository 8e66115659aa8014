package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The deep copies and the CRDs are those of the types as they are, and nobody
// has edited them.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	root := filepath.Join("..", "..")
	noted, err := os.ReadFile("generated.sum")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(noted)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want[name] = sum
	}
	got := map[string]string{}
	for _, pattern := range []string{"api/v1alpha1/*.go", "dist/kubernetes/crds/*.yaml", "test/tools/controller-gen/go.mod"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(content)
			rel, _ := filepath.Rel(root, name)
			got[filepath.ToSlash(rel)] = hex.EncodeToString(sum[:])
		}
	}
	if len(slices.Collect(maps.Keys(got))) < 8 {
		t.Fatalf("only %d files found", len(got))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("not as tools/generate wrote them; run it (-noted +there):\n%s", diff)
	}
}

func TestAddressPoolName(t *testing.T) {
	seen := map[string]string{}
	for network, want := range map[string]string{
		"sriov-network":          "sriov-network",
		"a":                      "a",
		"Sriov_net.1":            "sriov-net-1.",
		"sriov_net.1":            "sriov-net-1.",
		"-":                      "",
		strings.Repeat("x", 300): strings.Repeat("x", 200) + ".",
	} {
		got := AddressPoolName(network)
		if want == network && got != want || !strings.HasPrefix(got, want) || len(got) > 253 {
			t.Errorf("%s: %s, want %s", network, got, want)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%s and %s have one name: %s", network, other, got)
		}
		seen[got] = network
	}
}
