package layout

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/test/prose"
)

// The limits of code without its tests, over the whole tree: the counts that the last change of
// names and comments has reached. They may only be lowered.
// go test ./test/layout -run CodeUsesPlainWords -v prints the counts and every place.
const (
	oneWordFunctionsPer10000 = 550 // functions named by one lower-case word, among all
	codeRiddlesPer10000      = 10  // sentences of comments that begin with a word of riddle
	codeVaguePer10000        = 1   // words of vague among the words of comments
)

var oneWord = regexp.MustCompile(`^[a-z][a-z0-9]*$`)

// codeWords counts the words of Go code. A place is "file:line: what is found there".
type codeWords struct {
	functions, sentences, words int
	oneWord, riddles, vagues    []string
}

// addFile counts one file of Go.
func (c *codeWords) addFile(set *token.FileSet, f *ast.File) {
	c.addFunctions(set, f)
	names := documentedNames(f)
	for _, group := range f.Comments {
		c.addComment(set, group, names[group])
	}
}

// addFunctions counts the functions and methods that a file declares.
func (c *codeWords) addFunctions(set *token.FileSet, f *ast.File) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			c.functions++
			if oneWord.MatchString(fn.Name.Name) {
				c.oneWord = append(c.oneWord, fmt.Sprintf("%s: function %s", set.Position(fn.Pos()), fn.Name.Name))
			}
		}
	}
}

// addComment counts the sentences and words of a comment. A comment may begin with the name that
// it documents, whatever that is.
func (c *codeWords) addComment(set *token.FileSet, group *ast.CommentGroup, documented string) {
	text := strings.ReplaceAll(group.Text(), "\t", "    ")
	if documented != "" {
		text = strings.Replace(text, documented+" ", "it ", 1)
	}
	at := set.Position(group.Pos()).String() + ": "
	for _, hit := range prose.FindWords(text) {
		if strings.HasPrefix(hit, "begins with ") {
			c.riddles = append(c.riddles, at+hit)
		} else {
			c.vagues = append(c.vagues, at+hit)
		}
	}
	counts := prose.Check("", text)
	c.sentences += counts.Sentences
	c.words += counts.Words
}

// documentedNames returns the names of functions and methods, by the comments that document them.
func documentedNames(f *ast.File) map[*ast.CommentGroup]string {
	names := map[*ast.CommentGroup]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			names[n.Doc] = n.Name.Name
		case *ast.Field:
			if len(n.Names) > 0 {
				names[n.Doc] = n.Names[0].Name
			}
		}
		return true
	})
	return names
}

// countCode counts all Go files but tests.
func countCode(tree fs.FS) (c codeWords, err error) {
	err = eachSource(tree, func(name string, set *token.FileSet, f *ast.File) {
		if !strings.HasSuffix(name, "_test.go") {
			c.addFile(set, f)
		}
	})
	return c, err
}

// checkLimit fails if there are more places than limit of 10,000.
func checkLimit(t *testing.T, places []string, total, limit int, of string) {
	t.Helper()
	rate := float64(len(places)) * 10000 / float64(max(total, 1))
	t.Logf("%d of %d %s: %.1f of 10,000, at most %d", len(places), total, of, rate, limit)
	if testing.Verbose() {
		t.Logf("%s", strings.Join(places, "\n"))
	}
	if rate > float64(limit) {
		t.Errorf("more than before: -v prints every place; see CONTRIBUTING.md")
	}
}

func TestCodeUsesPlainWords(t *testing.T) {
	c, err := countCode(repository(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("functions", func(t *testing.T) {
		checkLimit(t, c.oneWord, c.functions, oneWordFunctionsPer10000, "functions have a name of one word")
	})
	t.Run("sentences", func(t *testing.T) {
		checkLimit(t, c.riddles, c.sentences, codeRiddlesPer10000, "sentences begin with a word such as What")
	})
	t.Run("words", func(t *testing.T) {
		checkLimit(t, c.vagues, c.words, codeVaguePer10000, "words of comments are vague")
	})
}

func TestCountCode(t *testing.T) {
	tree := fstest.MapFS{
		"a/a.go": {Data: []byte("// Package a is told. What it is\n// is said.\npackage a\n\n// Of returns nobody.\nfunc Of() {}\n\n// obey it.\n//\n//\tWhoever: code\nfunc (t T) obey() {}\n\n" +
			"//go:generate told\n\nfunc applySpec() {\n\tx() // Who told it?\n}\n")},
		"a/a_test.go":       {Data: []byte("package a\n\nfunc run() {} // Whoever.\n")},
		"a/testdata/bad.go": {Data: []byte("no Go\n")},
	}
	got, err := countCode(tree)
	if err != nil {
		t.Fatal(err)
	}
	want := codeWords{
		functions: 3, sentences: 5, words: 17,
		oneWord: []string{"a/a.go:11:1: function obey"},
		riddles: []string{`a/a.go:1:1: begins with "What": What it is is said.`, `a/a.go:16:6: begins with "Who": Who told it?`},
		vagues: []string{
			`a/a.go:1:1: "told": name the actor: Package a is told.`, `a/a.go:5:1: "nobody": name the actor: it returns nobody.`,
			`a/a.go:16:6: "told": name the actor: Who told it?`,
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(codeWords{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
