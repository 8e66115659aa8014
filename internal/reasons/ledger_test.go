package reasons

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// LedgerEvents has the reasons of the block "Events of the ledger" and those whose comment says that
// the ledger has the event too, with the types that the comments name. Damaged stands for an entry
// that culvertd did not write.
func TestLedgerEventsAreThoseOfTheComments(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "reasons.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	have := LedgerEvents()
	found := 0
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		inLedger := strings.HasPrefix(decl.Doc.Text(), "Events of the ledger.")
		for _, s := range decl.Specs {
			spec := s.(*ast.ValueSpec)
			reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(strings.Fields(spec.Doc.Text()), " ")
			written := (inLedger || strings.Contains(text, "The ledger has this event too.")) && reason != Damaged
			for _, kind := range []string{"Normal", "Warning"} {
				want := written && (strings.HasPrefix(text, kind+":") || strings.Contains(text, "It is a "+kind))
				if want {
					found++
				}
				if got := slices.Contains(have, Event{kind, reason}); got != want {
					t.Errorf("%s %s: in LedgerEvents %t, want %t: %s", kind, reason, got, want, text)
				}
			}
		}
	}
	if found != len(have) {
		t.Errorf("the comments have %d kinds, LedgerEvents %d", found, len(have))
	}
}
