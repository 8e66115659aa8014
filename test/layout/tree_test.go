package layout

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/culvert-net/culvert"

// repository returns the source tree that this test is part of.
func repository(t *testing.T) fs.FS {
	t.Helper()
	return os.DirFS(root(t))
}

// root returns the folder of that tree.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above this test")
		}
		dir = up
	}
}

// files lists the regular files of the project, without those of .git and
// build.
func files(tree fs.FS) ([]string, error) {
	var all []string
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "build"):
			return fs.SkipDir
		case d.Type().IsRegular():
			all = append(all, name)
		}
		return nil
	})
	return all, err
}

// source is one Go file with its imports.
type source struct {
	name    string
	pkg     string // folder, "." for the module's own
	imports []imported
}

type imported struct {
	path string
	line int
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

// sources parses the Go files as far as their imports.
func sources(tree fs.FS) ([]source, error) {
	names, err := files(tree)
	if err != nil {
		return nil, err
	}
	var all []source
	for _, name := range names {
		if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
			continue
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, text, parser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		s := source{name: name, pkg: path.Dir(name)}
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
			}
			s.imports = append(s.imports, imported{p, set.Position(spec.Pos()).Line})
		}
		all = append(all, s)
	}
	return all, nil
}

// report fails the test with every complaint.
func report(t *testing.T, complaints []string, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range complaints {
		t.Error(c)
	}
}
