package layout

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// parsers are the functions that parse the texts of a CNI call, with the number of their calls that
// one ADD and one DEL of a pod with one network may make. -1 stands for any number, which is only
// printed.
var parsers = []struct {
	file, function string
	add, del       int
}{
	{"internal/node/intake/cni/args.go", "ParseArguments", 1, 1},
	{"internal/node/intake/cni/call.go", "NewCall", 1, 1},
	{"internal/network/config/config.go", "parse", 1, 1},
	{"internal/network/config/definition.go", "ParseDefinition", 0, 0}, // an earlier ADD has parsed this version
	{"internal/network/netconf/plugin.go", "ParsePlugin", -1, -1},      // the ledger and files of the runtime's folder
	{"internal/network/netconf/plugin.go", "editKeys", -1, -1},
}

// TestACallParsesItsTextsOnce counts the calls of parsers in an ADD and a DEL of a pod, by the
// counters of go test -cover. The calls before it have parsed the network's definition. With -v it
// prints the counts.
func TestACallParsesItsTextsOnce(t *testing.T) {
	if _, err := sources(repository(t)); err != nil { // so that go test caches the result only while these files are the same
		t.Fatal(err)
	}
	top := root(t)
	var counts []map[string]int // after two, three and four calls
	for _, calls := range []string{"two", "three", "four"} {
		profile := filepath.Join(t.TempDir(), "profile")
		goes(t, top, "test", "-count=1", "-run", "^TestCallsInTurn$/^"+calls+"$", "-covermode=count", "-coverprofile="+profile,
			"-coverpkg=./internal/node/intake/...,./internal/network/...", "./internal/node/intake/pod")
		counts = append(counts, readProfile(t, profile))
	}
	table := "ADD DEL function\n"
	for _, p := range parsers {
		place := fmt.Sprintf("%s/%s:%d", module, p.file, lineOf(t, filepath.Join(top, p.file), p.function))
		if counts[0][place] == 0 {
			t.Errorf("%s: function %s is not counted", p.file, p.function)
		}
		add, del := counts[1][place]-counts[0][place], counts[2][place]-counts[1][place]
		table += fmt.Sprintf("%3d %3d %s %s\n", add, del, p.file, p.function)
		if p.add >= 0 && add != p.add || p.del >= 0 && del != p.del {
			t.Errorf("%s: an ADD calls %s %d times and a DEL %d times, want %d and %d: take what NewCall has parsed", p.file, p.function, add, del, p.add, p.del)
		}
	}
	t.Logf("\n%s", table)
}

// readProfile returns the counts of a profile of go test -cover by the file and line where a block
// begins.
func readProfile(t *testing.T, name string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line) // file:line.column,line.column statements count
		if len(words) != 3 {
			continue
		}
		place, _, _ := strings.Cut(words[0], ".go:")
		at, _, _ := strings.Cut(strings.TrimPrefix(words[0], place+".go:"), ".")
		n, err := strconv.Atoi(words[2])
		if err != nil {
			t.Fatal(err)
		}
		if key := place + ".go:" + at; n > counts[key] {
			counts[key] = n
		}
	}
	return counts
}

// lineOf returns the line on which the body of a function begins.
func lineOf(t *testing.T, file, function string) int {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == function {
			return set.Position(fn.Body.Lbrace).Line
		}
	}
	t.Fatalf("%s has no function %s", file, function)
	return 0
}
