package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestNetworkReferenceHasEveryKey compares docs/reference/cni.md with the keys
// that the parsers know, both ways.
func TestNetworkReferenceHasEveryKey(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "reference", "cni.md"))
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, dir := range []string{"internal/network/config", "internal/network/ipam"} {
		known = append(known, parsedKeys(t, filepath.Join(root, filepath.FromSlash(dir)))...)
	}
	if len(known) < 40 {
		t.Fatalf("only %d keys found in the parsers, so this test no longer sees how they name them: %q", len(known), known)
	}
	for _, key := range known {
		if !strings.Contains(string(text), "`"+key+"`") {
			t.Errorf("docs/reference/cni.md does not have the key %s", key)
		}
	}
	for _, key := range tableKeys(string(text)) {
		if !slices.Contains(known, key) {
			t.Errorf("docs/reference/cni.md has the key %s, which no parser knows", key)
		}
	}
}

// parsedKeys returns the words in lists called ...Keys and in calls of Known.
func parsedKeys(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	words := func(list []ast.Expr) {
		for _, e := range list {
			if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				word, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				keys = append(keys, word)
			}
		}
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Known" {
					words(n.Args)
				}
			case *ast.ValueSpec:
				if list, ok := firstValue(n).(*ast.CompositeLit); ok && strings.HasSuffix(n.Names[0].Name, "Keys") {
					words(list.Elts)
				}
			}
			return true
		})
	}
	return keys
}

func firstValue(n *ast.ValueSpec) ast.Expr {
	if len(n.Values) == 0 {
		return nil
	}
	return n.Values[0]
}

// tableKeys returns the words in backquotes in the first column of the tables
// of keys.
func tableKeys(text string) []string {
	var keys []string
	table := false
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		switch {
		case strings.HasPrefix(line, "| key "):
			table = true
		case !strings.HasPrefix(line, "|"):
			table = false
		case table && len(cells) > 2:
			for i, word := range strings.Split(cells[1], "`") {
				if i%2 == 1 {
					keys = append(keys, word)
				}
			}
		}
	}
	return keys
}
