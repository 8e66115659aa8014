package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

const hostIntro = `# host.yaml

This file declares a host's SR-IOV NICs to Culvert: how many VFs each PF has, and which pools they
are in. culvertd reads ` + "`/etc/culvert/host.yaml`" + ` when it starts and at ` + "`culvert host apply`" + `.

` + "`culvert host validate`" + ` finds mistakes. ` + "`culvert host plan`" + ` shows the changes, and the pods and
guests that they would affect.

<!-- Written by tools/refdoc from the documentation of package desired: change it there. -->
`

// hostReference returns the reference of host.yaml in Markdown: the package's
// documentation from its first heading on, and the part about drivers of the type
// Selector's documentation.
func hostReference(dir string) ([]byte, error) {
	pkg, err := loadPackage(dir)
	if err != nil {
		return nil, err
	}
	_, text, found := strings.Cut(pkg.Doc, "# host.yaml\n")
	if !found {
		return nil, errors.New("the documentation of package desired has no heading \"host.yaml\"")
	}
	drivers, err := selectorDoc(pkg)
	if err != nil {
		return nil, err
	}
	text = strings.Replace(text, "see Selector", "see drivers below", 1) + "\n# drivers\n\n" + drivers
	p := pkg.Parser()
	printer := pkg.Printer()
	printer.HeadingLevel = 2
	printer.HeadingID = func(*comment.Heading) string { return "" }
	var out bytes.Buffer
	out.WriteString(hostIntro + "\n")
	out.WriteString(wrapLines(string(printer.Markdown(p.Parse(text)))))
	return out.Bytes(), nil
}

// selectorDoc returns the documentation of the type Selector without its first
// paragraph, which is about the Go type.
func selectorDoc(pkg *doc.Package) (string, error) {
	for _, t := range pkg.Types {
		if t.Name == "Selector" {
			_, rest, _ := strings.Cut(t.Doc, "\n\n")
			return rest, nil
		}
	}
	return "", errors.New("package desired has no type Selector")
}

// loadPackage parses a package for its documentation.
func loadPackage(dir string) (*doc.Package, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no Go files in %s", dir)
	}
	return doc.NewFromFiles(set, files, "github.com/culvert-net/culvert/"+filepath.Base(dir))
}
