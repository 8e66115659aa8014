package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const eventsIntro = `# Events, and the reasons of conditions

` + "`kubectl get events -A --field-selector source=culvertd`" + ` lists the events of the nodes' culvertd.
With ` + "`source=culvert`" + ` it lists those of the controller. On a node, ` + "`culvert events`" + ` lists
those of the ledger. The reason is one word, for people and alerts to look for. The text after it
names the object, the problem and the next step.

<!-- Written by tools/refdoc from the comments of internal/reasons: change them there. -->
`

// constantBlock is a parenthesised declaration of constants with its comment.
type constantBlock struct {
	title     string // the first paragraph of the comment, on one line
	text      string // the paragraphs after it
	constants []constant
}

// constant is a constant string with its comment, on one line.
type constant struct{ name, value, comment string }

// readConstants returns the blocks of constant strings of a package, in the order of its files.
func readConstants(dir string) ([]constantBlock, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []constantBlock
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if decl, ok := d.(*ast.GenDecl); ok && decl.Tok == token.CONST && decl.Lparen.IsValid() {
				block, err := readBlock(decl)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				all = append(all, block)
			}
		}
	}
	return all, nil
}

func readBlock(decl *ast.GenDecl) (constantBlock, error) {
	title, text, _ := strings.Cut(decl.Doc.Text(), "\n\n")
	block := constantBlock{title: joinLines(title), text: joinLines(text)}
	for _, s := range decl.Specs {
		spec, ok := s.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			continue
		}
		lit, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			continue
		}
		value, err := strconv.Unquote(lit.Value)
		if err != nil {
			return block, err
		}
		block.constants = append(block.constants, constant{spec.Names[0].Name, value, joinLines(spec.Doc.Text())})
	}
	return block, nil
}

// eventsReference returns the tables of the reasons that a package declares.
func eventsReference(dir string) ([]byte, error) {
	blocks, err := readConstants(dir)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(eventsIntro)
	for _, b := range blocks {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n| reason | %s | meaning |\n|---|---|---|\n", strings.TrimSuffix(b.title, "."), wrapLines(b.text), columnTitle(b))
		for _, c := range b.constants {
			kind, meaning, found := strings.Cut(c.comment, ": ")
			if !found || c.name != c.value {
				return nil, fmt.Errorf("reason %s: want a constant of that name, whose comment begins with Normal:, Warning: or the kind and its condition", c.value)
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", c.value, kind, upperFirst(meaning))
		}
	}
	return out.Bytes(), nil
}

// columnTitle names the column of the word before the colon of a block's comments.
func columnTitle(b constantBlock) string {
	if strings.HasPrefix(b.title, "Events") {
		return "type"
	}
	return "condition"
}

// upperFirst makes the first letter a capital one, unless it begins the name of a program.
func upperFirst(s string) string {
	if strings.HasPrefix(s, "culvert") {
		return s
	}
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}
