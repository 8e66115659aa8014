package helptext

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// CheckWrong runs the command lines of a file, each of which is wrong, and compares their errors with
// the lines below each. With the test's flag -update it writes the file anew. Besides, each error names the command or
// one of its flags, and has no text that only a programmer of Culvert understands.
//
// A command line of the file begins with "$ ". Its words have no quotes.
func CheckWrong(t *testing.T, file string, newRoot func() *cobra.Command) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			out.WriteString(line + "\n")
		}
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		root := newRoot()
		words := strings.Fields(strings.TrimPrefix(command, root.CommandPath()))
		said := errorOf(t, root, words)
		for _, fault := range faultsOf(said, root, words) {
			t.Errorf("%s: %s: %s", command, fault, said)
		}
		out.WriteString("$ " + command + "\n" + said + "\n")
	}
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(text), out.String()); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func errorOf(t *testing.T, root *cobra.Command, words []string) string {
	t.Helper()
	var b bytes.Buffer
	root.SetIn(strings.NewReader(""))
	root.SetOut(&b)
	root.SetErr(&b)
	root.SetArgs(words)
	if err := root.ExecuteContext(t.Context()); err != nil {
		return err.Error()
	}
	return "no error: " + b.String()
}

// foreign has texts of Go's packages that no error shows.
var foreign = []string{"strconv.", "arg(s)", "pflag", "json: cannot unmarshal", "%!", "0xc0", "&{", "map[", "no error", "struct {", `["`, "[]string", "<nil>", "flag needs", "invalid argument"}

func faultsOf(said string, root *cobra.Command, words []string) (out []string) {
	for _, text := range foreign {
		if strings.Contains(said, text) {
			out = append(out, "it has the text "+text)
		}
	}
	isNamed := strings.Contains(said, root.CommandPath())
	for _, w := range words {
		w, _, _ = strings.Cut(w, "=")
		isNamed = isNamed || len(w) > 1 && strings.Contains(said, w)
	}
	if !isNamed {
		out = append(out, "it does not name the command, the flag or the value")
	}
	if !strings.Contains(said, ": ") {
		out = append(out, "it has no next step")
	}
	return out
}
