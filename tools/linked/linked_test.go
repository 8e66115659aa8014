package linked

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program's list has the standard library at least, and the document has Culvert's licence and
// that of each module. tools/release.TestArchiveKrewAndModules has a program with more modules.
func TestTexts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	modules, err := Modules([]string{self, self})
	if err != nil || len(modules) == 0 || modules[len(modules)-1].Path != "std" {
		t.Errorf("the test links %v (%v)", modules, err)
	}
	all, err := Texts(t.Context(), "../..", []string{self})
	if err != nil || !strings.Contains(string(all), "  std go1.") || !strings.Contains(string(all), "The Go Authors") || !strings.Contains(string(all), "Apache License") {
		t.Errorf("the document lacks a licence (%v):\n%.400s", err, all)
	}
}

// A module without a licence is an error, and files of a module's tests are no licences.
func TestLicences(t *testing.T) {
	cache := Cache{modules: t.TempDir()}
	for name, body := range map[string]string{
		"example.org/a@v1.0.0/LICENSE": "MIT\nPermission is hereby granted, free of\ncharge", "example.org/a@v1.0.0/testdata/LICENSE": "x",
		"example.org/a@v1.0.0/third/license.md": "other", "example.org/b@v1.0.0/license.go": "package b",
	} {
		at := filepath.Join(cache.modules, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	texts, err := cache.Licences(Module{Path: "example.org/a", Version: "v1.0.0"})
	if err != nil || len(texts) != 2 || NameLicence(texts) != "MIT" {
		t.Errorf("got %v, %v", texts, err)
	}
	marked := []Text{{"third/LICENSE", []byte("MIT")}, {"LICENSE.md", []byte("Apache License\n====\n_Version 2.0_\n<http://www.apache.org/licenses/>\n")}}
	if got := NameLicence(marked); got != "Apache-2.0" {
		t.Errorf("a licence in Markdown is %s", got)
	}
	if _, err := cache.Licences(Module{Path: "example.org/b", Version: "v1.0.0"}); err == nil || !strings.Contains(err.Error(), "has no licence") {
		t.Errorf("got %v", err)
	}
}
