package excerpt

import (
	"fmt"
	"strings"
)

// Kubeconfig returns why a kubeconfig cannot be used, and the next step. client-go's text has the
// file's name once more, Go types, and the words of its decoder.
func Kubeconfig(file string, err error) string {
	text := WithoutGoTypes(Error(err))
	for _, words := range []string{fmt.Sprintf("error loading config file %q: ", file), "invalid configuration: ", "couldn't get version/kind; json parse error: ", "yaml: "} {
		text = strings.TrimPrefix(text, words)
	}
	return fmt.Sprintf("%s cannot be read: %s: name another one, or correct it until kubectl --kubeconfig %[1]s get nodes works", file, text)
}

// WithoutGoTypes returns an error's text without the Go types that package encoding/json names: people
// have written a file, and know its fields.
func WithoutGoTypes(text string) string {
	before, rest, found := strings.Cut(text, "json: cannot unmarshal ")
	if !found {
		return text
	}
	kind, to, _ := strings.Cut(rest, " into Go ")
	if field, ok := strings.CutPrefix(to, "struct field "); ok {
		name, _, _ := strings.Cut(field, " of type ")
		if _, path, ok := strings.Cut(name, "."); ok {
			name = path
		}
		return before + "field " + name + " cannot be a " + kind
	}
	return before + "it is a " + kind + " and has no fields"
}

// WithoutLogLines returns the output of a Kubernetes program without the lines of its log (package
// klog: a letter, the month and day). The program says the same again for people.
func WithoutLogLines(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		if !isLogLine(line) {
			out = append(out, strings.TrimRight(line, "\n"))
		}
	}
	return strings.Join(out, "\n")
}

func isLogLine(line string) bool {
	if len(line) < 6 || !strings.ContainsRune("IWEF", rune(line[0])) || line[5] != ' ' {
		return false
	}
	return strings.Trim(line[1:5], "0123456789") == ""
}
