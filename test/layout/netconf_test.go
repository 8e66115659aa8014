package layout

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// podNetworks are the packages that handle the networks of pods.
var podNetworks = []string{"internal/cluster/controller", "internal/node/daemon", "internal/admin/install", "internal/network/config", "internal/node/intake/...", "internal/node/journal", "internal/node/kube", "internal/network/netannotation", "internal/node/status"}

// checkPluginTypes finds constants of package netconf that another package of
// podNetworks writes out: the type sriov, and the bound on a text.
func checkPluginTypes(tree fs.FS) ([]string, error) {
	var complaints []string
	err := eachSource(tree, func(name string, set *token.FileSet, f *ast.File) {
		if strings.HasSuffix(name, "_test.go") || !isAny(podNetworks, path.Dir(name)) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			constant := ""
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, ok := literal(n); ok && text == "sriov" {
					constant = "TypeSRIOV"
				}
			case *ast.BinaryExpr:
				if n.Op == token.SHL && isNumber(n.X, "64") && isNumber(n.Y, "10") {
					constant = "MaxText"
				}
			}
			if constant != "" {
				complaints = append(complaints, fmt.Sprintf("%s:%d: use netconf.%s", name, set.Position(n.Pos()).Line, constant))
			}
			return true
		})
	})
	return complaints, err
}

func isNumber(e ast.Expr, text string) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Kind == token.INT && lit.Value == text
}

func TestPluginTypesHaveOneOwner(t *testing.T) {
	complaints, err := checkPluginTypes(repository(t))
	report(t, complaints, err)
}

func TestCheckPluginTypes(t *testing.T) {
	file := func(body string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("package x\n\nvar x = " + body + "\n")}
	}
	got, err := checkPluginTypes(fstest.MapFS{
		"internal/node/intake/cni/a.go":       file(`p.Type == "sriov"`),
		"internal/network/netannotation/b.go": file(`64 << 10`),
		"internal/node/intake/cni/c.go":       file(`32 << 10 + len("culvert")`),
		"internal/node/intake/cni/d_test.go":  file(`"sriov"`),
		"internal/network/netconf/plugin.go":  file(`"sriov"`),
		"internal/admin/doctor/nics.go":       file(`"sriov"`),
	})
	want := []string{"internal/network/netannotation/b.go:3: use netconf.MaxText", "internal/node/intake/cni/a.go:3: use netconf.TypeSRIOV"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
