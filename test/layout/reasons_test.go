package layout

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// reasonsPackage declares the reasons of events and conditions. docs/reference/events.md is generated
// from it, so a reason of another package would be in no document.
const reasonsPackage = "internal/reasons"

// takesReason matches the names of functions that take a reason.
var takesReason = regexp.MustCompile(`^(.*[eE]vents?f?|putLoan|DetachLease|ReleaseLocked|ReleaseVF|FreeVF|tendVF|warn|setCondition|condition)$`)

// reasonWord matches a literal that could be a reason.
var reasonWord = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

// checkReasons finds reasons that are literals, and declared reasons that no code uses.
func checkReasons(tree fs.FS) ([]string, error) {
	var complaints []string
	unused := map[string]bool{}
	used := map[string]bool{}
	err := eachSource(tree, func(name string, set *token.FileSet, f *ast.File) {
		switch {
		case strings.HasSuffix(name, "_test.go") || !strings.HasPrefix(name, "internal/"):
		case strings.HasPrefix(name, reasonsPackage+"/"):
			for _, declared := range constantsOf(f) {
				unused[declared] = true
			}
		default:
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && isIdent(s.X, "reasons") {
					used[s.Sel.Name] = true
				}
				for _, e := range reasonsAt(n) {
					if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
						if word, err := strconv.Unquote(lit.Value); err == nil && reasonWord.MatchString(word) {
							complaints = append(complaints, fmt.Sprintf("%s: reason %q: declare it in %s, with its meaning", set.Position(lit.Pos()), word, reasonsPackage))
						}
					}
				}
				return true
			})
		}
	})
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		if !used[name] {
			complaints = append(complaints, fmt.Sprintf("%s: no code uses the reason %s: take it out", reasonsPackage, name))
		}
	}
	return complaints, err
}

// reasonsAt returns the expressions of a node at places for reasons: arguments, fields of events,
// conditions and troubles, and assignments to a field Reason.
func reasonsAt(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		if takesReason.MatchString(calledName(n.Fun)) {
			return n.Args
		}
	case *ast.KeyValueExpr:
		if isIdent(n.Key, "Reason") || isIdent(n.Key, "Begins") || isIdent(n.Key, "Ends") {
			return []ast.Expr{n.Value}
		}
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			if s, ok := to.(*ast.SelectorExpr); ok && s.Sel.Name == "Reason" && len(n.Rhs) == len(n.Lhs) {
				return n.Rhs[i : i+1]
			}
		}
	}
	return nil
}

// calledName returns the last part of the name of a function or method.
func calledName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// constantsOf returns the names of the constants that a file declares.
func constantsOf(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, s := range decl.Specs {
			if spec, ok := s.(*ast.ValueSpec); ok {
				names = append(names, spec.Names[0].Name)
			}
		}
	}
	return names
}

func TestReasonsHaveOneOwner(t *testing.T) {
	complaints, err := checkReasons(repository(t))
	report(t, complaints, err)
}

func TestCheckReasons(t *testing.T) {
	got, err := checkReasons(fstest.MapFS{
		"internal/reasons/reasons.go": {Data: []byte("package reasons\n\nconst (\n\tUsed = \"Used\"\n\tUnused = \"Unused\"\n)\n")},
		"internal/a/a.go": {Data: []byte("package a\n\nfunc f() {\n\temitPodEvent(x, \"Lost\", \"its VF is gone\")\n\ttx.Event(E{Reason: reasons.Used, Text: \"Text\"})\n" +
			"\tc.Status, c.Reason = s, \"Pending\"\n\tg.Reason = \"it is gone\"\n\t_ = T{Begins: \"LinkDown\", Ends: reasons.Used}\n}\n")},
		"internal/a/a_test.go": {Data: []byte("package a\n\nvar _ = E{Reason: \"Any\"}\n")},
		"lab/a.go":             {Data: []byte("package lab\n\nvar _ = E{Reason: \"Any\"}\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`internal/a/a.go:4:18: reason "Lost": declare it in internal/reasons, with its meaning`,
		`internal/a/a.go:6:26: reason "Pending": declare it in internal/reasons, with its meaning`,
		`internal/a/a.go:8:16: reason "LinkDown": declare it in internal/reasons, with its meaning`,
		"internal/reasons: no code uses the reason Unused: take it out",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
