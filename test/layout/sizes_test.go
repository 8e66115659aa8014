package layout

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// A type of the product has at most mostMethods methods. Those of embedded types count, and so do
// functions of its package whose first parameter it is. An interface has at most mostInInterface
// methods. Larger ones are several things under one name.
const (
	mostMethods     = 50
	mostInInterface = 6
)

// wideTypes may have more methods. The kernel and its fake mirror each other by subject, and what
// stands for one of them has its methods.
var wideTypes = []string{"internal/kernel.Kernel", "internal/kernel/fake.Kernel", "internal/kernel/faulty.under", "internal/node.Kernel"}

// typeName is a type of the module: its folder and its name.
type typeName struct{ folder, name string }

func (n typeName) String() string { return n.folder + "." + n.name }

// shape is what the source says about one type.
type shape struct {
	isInterface bool
	methods     []string
	functions   int // whose first parameter it is
	embedded    []typeName
}

// shapes returns the types that the product declares.
func shapes(tree fs.FS) (map[typeName]*shape, error) {
	names, err := files(tree)
	if err != nil {
		return nil, err
	}
	out := map[typeName]*shape{}
	for _, name := range names {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.Contains("/"+name, "/testdata/") {
			continue
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		addShapes(out, path.Dir(name), f)
	}
	return out, nil
}

func addShapes(out map[typeName]*shape, folder string, f *ast.File) {
	at := func(n typeName) *shape {
		if out[n] == nil {
			out[n] = &shape{}
		}
		return out[n]
	}
	imports := importedFolders(f)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				one := at(namedType(d.Recv.List[0].Type, folder, nil))
				one.methods = append(one.methods, d.Name.Name)
			} else if params := d.Type.Params.List; len(params) > 0 {
				at(namedType(params[0].Type, folder, nil)).functions++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					at(typeName{folder, t.Name.Name}).addMembers(t.Type, folder, imports)
				}
			}
		}
	}
}

// addMembers adds the embedded types of a struct or an interface, and the methods of an interface.
func (s *shape) addMembers(of ast.Expr, folder string, imports map[string]string) {
	var fields *ast.FieldList
	switch of := of.(type) {
	case *ast.StructType:
		fields = of.Fields
	case *ast.InterfaceType:
		s.isInterface, fields = true, of.Methods
	default:
		return
	}
	for _, field := range fields.List {
		if len(field.Names) == 0 {
			s.embedded = append(s.embedded, namedType(field.Type, folder, imports))
		} else if s.isInterface {
			s.methods = append(s.methods, field.Names[0].Name)
		}
	}
}

// importedFolders returns the folders of the module that a file imports, by the names that it has for
// them.
func importedFolders(f *ast.File) map[string]string {
	out := map[string]string{}
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil || !strings.HasPrefix(p, module+"/") {
			continue
		}
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		out[name] = strings.TrimPrefix(p, module+"/")
	}
	return out
}

// namedType returns the type that an expression names, without pointers and type parameters. It
// returns the zero value for other expressions, and for types of other modules.
func namedType(of ast.Expr, folder string, imports map[string]string) typeName {
	switch of := of.(type) {
	case *ast.Ident:
		return typeName{folder, of.Name}
	case *ast.StarExpr:
		return namedType(of.X, folder, imports)
	case *ast.IndexExpr:
		return namedType(of.X, folder, imports)
	case *ast.IndexListExpr:
		return namedType(of.X, folder, imports)
	case *ast.SelectorExpr:
		if x, ok := of.X.(*ast.Ident); ok && imports[x.Name] != "" {
			return typeName{imports[x.Name], of.Sel.Name}
		}
	}
	return typeName{}
}

// methodsOf returns the names of the methods of a type with those that it gets from embedded types.
func methodsOf(all map[typeName]*shape, of typeName) map[string]bool {
	out := map[string]bool{}
	s := all[of]
	if s == nil {
		return out
	}
	for _, name := range s.methods {
		out[name] = true
	}
	for _, inner := range s.embedded {
		maps.Copy(out, methodsOf(all, inner))
	}
	return out
}

// checkTypes returns what is too large. table lists the ten types that are no interfaces and have
// the most methods.
func checkTypes(tree fs.FS) (complaints []string, table string, err error) {
	all, err := shapes(tree)
	if err != nil {
		return nil, "", err
	}
	var sizes []string
	for name, s := range all {
		n, most, what := len(methodsOf(all, name)), mostInInterface, "methods"
		if !s.isInterface {
			n, most, what = n+s.functions, mostMethods, "methods and functions on it"
		}
		if name.name == "" {
			continue
		}
		if !s.isInterface {
			sizes = append(sizes, fmt.Sprintf("%4d  %s", n, name))
		}
		if n > most && !slices.Contains(wideTypes, name.String()) {
			complaints = append(complaints, fmt.Sprintf("%s has %d %s, and may have %d: make several types of it", name, n, what, most))
		}
	}
	slices.Sort(complaints)
	slices.Sort(sizes)
	slices.Reverse(sizes)
	return complaints, strings.Join(sizes[:min(10, len(sizes))], "\n"), nil
}

// TestTypesAreSmall prints the ten largest types with -v.
func TestTypesAreSmall(t *testing.T) {
	complaints, table, err := checkTypes(repository(t))
	report(t, complaints, err)
	t.Logf("methods, and functions on the type\n%s", table)
}

func TestCheckTypes(t *testing.T) {
	var wide, functions strings.Builder
	for i := range mostMethods - 1 {
		fmt.Fprintf(&wide, "func (w *wide[T]) m%d() {}\n", i)
	}
	fmt.Fprintf(&functions, "func one(w *wide[int]) {}\nfunc two(ctx any, w *wide[int]) {}\n")
	got, _, err := checkTypes(fstest.MapFS{
		"a/wide.go":   {Data: []byte("package a\ntype wide[T any] struct{}\n" + wide.String() + functions.String())},
		"b/more.go":   {Data: []byte("package b\nimport \"" + module + "/a\"\ntype More struct { *a.Inner; x int }\nfunc (More) one() {}\n")},
		"a/inner.go":  {Data: []byte("package a\ntype Inner struct{ wide[int] }\nfunc (i Inner) m0() {}\nfunc (i *Inner) own() {}\n")},
		"c/face.go":   {Data: []byte("package c\ntype six interface { a(); b(); c(); d(); e(); f() }\ntype seven interface { six; error; g() }\ntype plain map[string]int\n")},
		"c/t_test.go": {Data: []byte("package c\ntype eight interface { seven; h() }\n")},
	})
	want := []string{
		"b.More has 51 methods and functions on it, and may have 50: make several types of it",
		"c.seven has 7 methods, and may have 6: make several types of it",
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}
