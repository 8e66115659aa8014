package layout

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// The packages that carry RPC methods, and that name them.
const (
	rpcFolder = "internal/rpc"
	apiFolder = "internal/api"
)

// methodArgument has the index of the argument that is the name of a method, for
// functions of package rpc and of its Server.
var methodArgument = map[string]int{"Call": 2, "Stream": 2, "Converse": 2, "Handle": 0, "HandleStream": 0, "HandleDialog": 0}

// checkMethods finds names of RPC methods that are written out outside package api.
// In programs it finds every such text, in tests only names of methods that culvertd
// serves. The tests of package rpc have methods of their own.
func checkMethods(tree fs.FS) ([]string, error) {
	served, err := methodNames(tree)
	if err != nil {
		return nil, err
	}
	var complaints []string
	err = eachSource(tree, func(name string, set *token.FileSet, f *ast.File) {
		test := strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/")
		if path.Dir(name) == rpcFolder || !slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(module+"/"+rpcFolder) }) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			text, ok := methodText(n)
			if ok && (!test || slices.Contains(served, text)) {
				complaints = append(complaints, fmt.Sprintf("%s:%d: the RPC method %q is written out: use its constant of package api (internal/api/method.go)", name, set.Position(n.Pos()).Line, text))
			}
			return true
		})
	})
	return complaints, err
}

// methodText returns the text that a call passes as the name of a method.
func methodText(n ast.Node) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", false
	}
	called, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	i, ok := methodArgument[called.Sel.Name]
	if !ok || i >= len(call.Args) {
		return "", false
	}
	return literal(call.Args[i])
}

// literal returns the value of a string literal.
func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// methodNames returns the values of the constants Method... of package api.
func methodNames(tree fs.FS) ([]string, error) {
	var out []string
	err := eachSource(tree, func(name string, _ *token.FileSet, f *ast.File) {
		if path.Dir(name) != apiFolder {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "Method") || len(spec.Values) == 0 {
				return true
			}
			if text, ok := literal(spec.Values[0]); ok {
				out = append(out, text)
			}
			return true
		})
	})
	return out, err
}

// eachSource parses the Go files of a tree, all but testdata.
func eachSource(tree fs.FS, see func(name string, set *token.FileSet, f *ast.File)) error {
	names, err := files(tree)
	if err != nil {
		return err
	}
	for _, name := range names {
		if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
			continue
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		see(name, set, f)
	}
	return nil
}

func TestMethodsAreNamedInAPI(t *testing.T) {
	tree := repository(t)
	if served, err := methodNames(tree); err != nil || len(served) < 10 {
		t.Errorf("package api has the methods %q, %v", served, err)
	}
	complaints, err := checkMethods(tree)
	report(t, complaints, err)
}

func TestCheckMethods(t *testing.T) {
	file := func(pkg, body string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("package " + pkg + "\nimport \"" + module + "/" + rpcFolder + "\"\nfunc f() {\n" + body + "\n}\n")}
	}
	got, err := checkMethods(fstest.MapFS{
		"internal/api/method.go":         {Data: []byte("package api\nconst (\n MethodStatus = \"status\"\n Other = \"x\"\n)\n")},
		"cmd/a/bad.go":                   file("main", `rpc.Call(ctx, s, "status", nil, nil); rpc.Stream(ctx, s, "y", nil, nil)`),
		"cmd/a/good.go":                  file("main", `rpc.Call(ctx, s, api.MethodStatus, "status", nil); x.Handle(1)`),
		"internal/node/daemon/server.go": file("daemon", `srv.HandleDialog("z", nil)`),
		"internal/node/daemon/a_test.go": file("daemon", "srv.Handle(\"ask\", nil)\nsrv.Handle(\"status\", nil)"),
		"internal/rpc/rpc_test.go":       file("rpc", `s.Handle("status", nil)`),
		"web/web.go":                     {Data: []byte("package web\nfunc f() { mux.Handle(\"/status\", nil) }\n")},
	})
	want := []string{`cmd/a/bad.go:4: the RPC method "status"`, `cmd/a/bad.go:4: the RPC method "y"`, `internal/node/daemon/a_test.go:5: the RPC method "status"`, `internal/node/daemon/server.go:4: the RPC method "z"`}
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], " is written out")
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
