package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const invariantsIntro = `# The invariants and their tests

These tests fail when an invariant of Culvert (docs/concepts.md) is broken. docs/failures.md has the
opposite direction: from a failure to Culvert's reaction.
`

// proof is a test, or a story, that names an invariant.
type proof struct{ path, name, what string }

var (
	promise   = regexp.MustCompile(`(?m)^- \*\*(I[0-9]+)\*\* (.*(?:\n  .*)*)`)
	invariant = regexp.MustCompile(`I[0-9]+(?:-I[0-9]+)?`)
)

// invariantsReference lists, for each invariant, the tests that name it.
func invariantsReference(root string) ([]byte, error) {
	concepts, err := os.ReadFile(filepath.Join(root, "docs", "concepts.md"))
	if err != nil {
		return nil, err
	}
	proofs, err := findProofs(root)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(invariantsIntro)
	for _, m := range promise.FindAllStringSubmatch(string(concepts), -1) {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n", m[1], wrapLines(strings.Join(strings.Fields(m[2]), " ")))
		all := proofs[m[1]]
		slices.SortFunc(all, func(a, b proof) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.name, b.name)) })
		for _, p := range all {
			fmt.Fprintln(&out, wrapLines(fmt.Sprintf("- `%s` in `%s`: %s", p.name, p.path, p.what)))
		}
	}
	return out.Bytes(), nil
}

// findProofs returns all tests and stories by the invariants that they name.
func findProofs(root string) (map[string][]proof, error) {
	all := map[string][]proof{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || rel == "build" || rel == filepath.Join("test", "layout")):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			return testsOf(path, rel, all)
		case filepath.Ext(path) == ".txtar" && strings.Contains(rel, "scenario"):
			return storyOf(path, rel, all)
		}
		return nil
	})
	return all, err
}

func testsOf(path, rel string, all map[string][]proof) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Name.Name == "TestMain" || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
			continue
		}
		what := strings.Join(strings.Fields(new(doc.Package).Synopsis(f.Doc.Text())), " ")
		for _, i := range namedInvariants(f.Name.Name + " " + f.Doc.Text()) {
			all[i] = append(all[i], proof{filepath.ToSlash(filepath.Dir(rel)), f.Name.Name, cmp.Or(what, "see there")})
		}
	}
	return nil
}

// storyOf adds the paragraphs of a story's comments that name an invariant.
func storyOf(path, rel string, all map[string][]proof) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	script, _, _ := strings.Cut(string(text), "\n-- ")
	var paragraph []string
	for _, line := range append(strings.Split(script, "\n"), "") {
		if words, ok := strings.CutPrefix(line, "# "); ok {
			paragraph = append(paragraph, words)
			continue
		}
		what := strings.Join(paragraph, " ")
		paragraph = nil
		for _, i := range namedInvariants(what) {
			all[i] = append(all[i], proof{filepath.ToSlash(filepath.Dir(rel)), filepath.Base(path), what})
		}
	}
	return nil
}

// namedInvariants returns the invariants that a text names. I1-I8 names all from I1
// to I8.
func namedInvariants(text string) []string {
	var out []string
	for _, m := range invariant.FindAllString(text, -1) {
		var first, last int
		if n, _ := fmt.Sscanf(m, "I%d-I%d", &first, &last); n == 1 {
			last = first
		}
		for i := first; i <= last; i++ {
			if name := fmt.Sprintf("I%d", i); !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}
