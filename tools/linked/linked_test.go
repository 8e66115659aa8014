package linked

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/soak"
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

// Every module that a program links has its licence in the document, and so has the standard
// library. The document is in each package, in the archives of a release and in the image. The
// list of modules is that of go version -m.
func TestTextsOfAllPrograms(t *testing.T) {
	soak.Only(t, "it compiles all programs; TestModulesHaveLicences looks at the same modules")
	bin := t.TempDir()
	runGo(t, "build", "-o", bin+"/", "./cmd/...")
	programs, err := filepath.Glob(filepath.Join(bin, "*"))
	if err != nil || len(programs) < 8 {
		t.Fatal(programs, err)
	}
	for _, program := range programs {
		text, err := Texts(t.Context(), "../..", []string{program})
		if err != nil {
			t.Fatal(err)
		}
		listed := runGo(t, "version", "-m", program)
		_, goVersion, _ := strings.Cut(strings.SplitN(listed, "\n", 2)[0], ": ")
		want := []string{"std " + goVersion}
		for line := range strings.Lines(listed) {
			switch f := strings.Fields(line); {
			case len(f) >= 3 && f[0] == "dep":
				want = append(want, f[1]+" "+f[2])
			case len(f) >= 3 && f[0] == "=>":
				want[len(want)-1] = f[1] + " " + f[2]
			}
		}
		for _, m := range want {
			if !strings.Contains(string(text), "\n  "+m+"\n") || !strings.Contains(string(text), "\n"+m+": ") {
				t.Errorf("%s links %s, and the document does not have its licence", filepath.Base(program), m)
			}
		}
		t.Logf("%s: %d modules, %d KiB of licences", filepath.Base(program), len(want), len(text)>>10)
	}
}

// Every module with a package that some program imports has a licence.
func TestModulesHaveLicences(t *testing.T) {
	cache, err := FindCache(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Module]bool{}
	const format = "{{with .Module}}{{with .Replace}}{{.Path}} {{.Version}}{{else}}{{.Path}} {{.Version}}{{end}}{{end}}"
	for line := range strings.Lines(runGo(t, "list", "-deps", "-f", format, "./cmd/...")) {
		path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		if m := (Module{Path: path, Version: version}); path != "" && path != own && !seen[m] {
			seen[m] = true
			if _, err := cache.Licences(m); err != nil {
				t.Error(err)
			}
		}
	}
	if len(seen) < 40 {
		t.Errorf("the programs link only %d modules", len(seen))
	}
}

// runGo runs the go command at the top of the tree, for the programs as they are shipped.
func runGo(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "tools/go", args...)
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
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
