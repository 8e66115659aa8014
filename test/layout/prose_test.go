package layout

import (
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

	"github.com/culvert-net/culvert/test/prose"
)

// unfinished lists the documents that exceed the limits of package prose. The list may only
// shrink: the test demands that a page leaves it as soon as it keeps the limits.
// go test ./test/layout -run PlainWords -v prints the counts of every page.
var unfinished = []string{}

// isPage says whether a file is a document for users or contributors.
func isPage(name string) bool {
	return strings.HasSuffix(name, ".md") && (path.Dir(name) == "." || strings.HasPrefix(name, "docs/"))
}

// eachPage calls visit with the name and the text of each page of the tree.
func eachPage(tree fs.FS, visit func(name, text string) error) error {
	all, err := files(tree)
	if err != nil {
		return err
	}
	for _, name := range all {
		if !isPage(name) {
			continue
		}
		text, err := fs.ReadFile(tree, name)
		if err == nil {
			err = visit(name, string(text))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkProse finds pages that exceed the limits, and listed pages that do not.
func checkProse(tree fs.FS, unfinished []string) ([]string, error) {
	var complaints []string
	err := eachPage(tree, func(name, text string) error {
		r := prose.Check(name, text)
		switch listed := slices.Contains(unfinished, name); {
		case r.Exceeds && !listed:
			complaints = append(complaints, r.Hits...)
		case !r.Exceeds && listed:
			complaints = append(complaints, name+" keeps the limits: take it out of the list of unfinished pages")
		}
		return nil
	})
	for _, name := range unfinished {
		if !exists(tree, name) {
			complaints = append(complaints, name+" is not in the tree: take it out of the list of unfinished pages")
		}
	}
	return complaints, err
}

func TestDocumentsUsePlainWords(t *testing.T) {
	complaints, err := checkProse(repository(t), unfinished)
	report(t, complaints, err)
	if testing.Verbose() {
		logProse(t, repository(t))
	}
}

// logProse prints the counts of all pages, and the hits of the unfinished ones.
func logProse(t *testing.T, tree fs.FS) {
	t.Helper()
	all, err := files(tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.DeleteFunc(all, func(name string) bool { return !isPage(name) }) {
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		r := prose.Check(name, string(text))
		t.Logf("%s: %d sentences, %d words, %d hits\n%s", name, r.Sentences, r.Words, len(r.Hits), strings.Join(r.Hits, "\n"))
	}
}

func TestCheckProse(t *testing.T) {
	long := strings.Repeat("word ", 31) + "ends."
	tree := fstest.MapFS{
		"README.md": {Data: []byte("# Who\n\nA VF has `one that` owner. What is free\nis free. Culvert tells `nobody`.\n\n    Whoever: code\n\n```\nOf code\n```\n\n" +
			"- an item\n- " + long + "\n\n| a | Who? b |\n")},
		"docs/wide.md":     {Data: []byte("Short. " + strings.Repeat("x", 94) + "\n")},
		"docs/plain.md":    {Data: []byte("A VF has one owner, e.g. a pod.\nhttps://example.org/" + strings.Repeat("x", 94) + "\n")},
		"docs/design/x.md": {Data: []byte("Whoever.\n")},
		"lab/doc/x.md":     {Data: []byte("Whoever.\n")},
	}
	got, err := checkProse(tree, []string{"docs/plain.md", "docs/gone.md"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`README.md:3: begins with "What": What is free is free.`,
		`README.md:3: "tells": name the actor: Culvert tells x.`,
		"README.md:13: 32 words, at most 30: " + long,
		`README.md:15: begins with "Who": Who?`,
		"README.md:13: more than 100 columns",
		`docs/design/x.md:1: begins with "Whoever": Whoever.`,
		`docs/design/x.md:1: "Whoever": name the actor: Whoever.`,
		"docs/plain.md keeps the limits: take it out of the list of unfinished pages",
		"docs/wide.md:1: more than 100 columns",
		"docs/gone.md is not in the tree: take it out of the list of unfinished pages",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// findVagueMessages finds texts in the code outside of tests that do not name the actor:
// messages, and descriptions of commands and flags. TestHelp of each program also checks
// the length of the sentences of its help.
func findVagueMessages(tree fs.FS) ([]string, error) {
	all, err := files(tree)
	if err != nil {
		return nil, err
	}
	var complaints []string
	for _, name := range all {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") {
			continue
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, isLiteral := n.(*ast.BasicLit)
			if !isLiteral || literal.Kind != token.STRING {
				return true
			}
			if words, err := strconv.Unquote(literal.Value); err == nil {
				for _, hit := range prose.FindWords(words) {
					complaints = append(complaints, set.Position(literal.Pos()).String()+": "+hit)
				}
			}
			return true
		})
	}
	return complaints, nil
}

func TestMessagesUsePlainWords(t *testing.T) {
	complaints, err := findVagueMessages(repository(t))
	report(t, complaints, err)
}

func TestFindVagueMessages(t *testing.T) {
	got, err := findVagueMessages(fstest.MapFS{
		"cmd/a/main.go":      {Data: []byte("package main\n\n// nobody\nvar a = \"VF %s: nobody has it\"\n")},
		"cmd/a/main_test.go": {Data: []byte("package main\n\nvar b = \"nobody\"\n")},
		"test/x/x.go":        {Data: []byte("package x\n\nvar c = \"nobody\"\n")},
		"vf/vf.go":           {Data: []byte("package vf\n\nvar c = \"free\" // whoever\n")},
		"cli/cli.go":         {Data: []byte("package cli\n\nvar d = `What is there`\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`cli/cli.go:3:9: begins with "What": What is there`,
		`cmd/a/main.go:4:9: "nobody": name the actor: VF %s: nobody has it`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
