// Package strictyaml reads the YAML that people write, and collects all mistakes in it with their lines.
// It refuses keys that it does not know, keys that are given twice, and values of another kind than the
// wanted one.
//
// A tree of YAML nodes goes in. Maps, lists and scalars come out, each with the path of keys that leads
// to it. The parsers of host.yaml and of an ESXi host's file (packages desired and file) call it, and
// judge what the values mean.
package strictyaml

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// SyntaxAdvice is the next step after an error of package yaml, which says little more than a line.
const SyntaxAdvice = "check the indentation, the colons and the quotes up to there, or name another file"

// Mistake is one thing that is wrong with a file.
type Mistake struct {
	File string
	Line int    // counted from 1; 0 when the whole file is meant
	Path string // e.g. pools[0].selectors.pfNames[1]; empty at the top
	Text string
}

func (m Mistake) Error() string {
	text := m.Text
	if m.Path != "" {
		text = m.Path + ": " + text
	}
	return m.place() + ": " + text
}

func (m Mistake) place() string {
	if m.Line == 0 {
		return m.File
	}
	return m.File + ":" + strconv.Itoa(m.Line)
}

// Value is one value of a file: its node and the path that led there. A value that was not read from
// text has the line 0, and messages name its path in place of the line.
type Value struct {
	*yaml.Node
	Path string
}

// Reader walks a YAML tree and collects all mistakes, so that a person sees them at once.
type Reader struct {
	File string
	// Lenient makes the reader read like Go's encoding/json, for files that were written for a
	// program which uses that package. It accepts keys in any case, and the last of two values.
	// Unknown keys and the first of two values become warnings.
	Lenient bool
	// Secret makes messages show neither a value nor an unknown key, unless the key is misspelled.
	Secret bool
	// Foreign has keys of other tools, or of other places in the file, with the advice for each.
	Foreign map[string]string

	Mistakes, Warnings []Mistake
}

// ReadDocument returns the one document of a YAML text, or nil when it is empty. An error that is no
// Mistake is the YAML parser's.
func ReadDocument(file string, text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, next yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	switch err := decoder.Decode(&next); {
	case err == nil:
		return nil, Mistake{File: file, Line: next.Line, Text: "a second document: want one only, remove what follows ---"}
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	if len(doc.Content) == 0 || IsNull(Value{Node: doc.Content[0]}) {
		return nil, nil
	}
	return doc.Content[0], nil
}

// MostMistakes bounds the mistakes that a person is shown; a file with more is the wrong file.
const MostMistakes = 50

// Sorted returns the mistakes in the order of their lines, and after many of them only how many more
// there are.
func (r *Reader) Sorted() []Mistake {
	all := slices.Clone(r.Mistakes)
	slices.SortStableFunc(all, func(a, b Mistake) int { return cmp.Compare(a.Line, b.Line) })
	if more := len(all) - MostMistakes; more > 0 {
		all = append(all[:MostMistakes], Mistake{File: r.File, Text: fmt.Sprintf("and %d more", more)})
	}
	return all
}

// AddMistake reports a mistake at a value.
func (r *Reader) AddMistake(v Value, format string, args ...any) {
	r.Mistakes = append(r.Mistakes, r.Describe(v, format, args...))
}

// AddWarning reports a part of the file that has no effect, or another one than it seems to have.
func (r *Reader) AddWarning(v Value, format string, args ...any) {
	r.Warnings = append(r.Warnings, r.Describe(v, format, args...))
}

// Describe returns a mistake at a value without reporting it.
func (r *Reader) Describe(v Value, format string, args ...any) Mistake {
	return Mistake{File: r.File, Line: v.Line, Path: v.Path, Text: fmt.Sprintf(format, args...)}
}

// Reject reports an invalid value, with a description of the wanted one.
func (r *Reader) Reject(v Value, want string) {
	r.AddMistake(v, "%s: want %s", r.NameValue(v), want)
}

// NameValue returns a value for a message, by its kind or as it is written.
func (r *Reader) NameValue(v Value) string {
	switch {
	case v.Kind == yaml.MappingNode:
		return "a map"
	case v.Kind == yaml.SequenceNode:
		return "a list"
	case v.Kind == yaml.AliasNode && r.Secret:
		return "an alias"
	case v.Kind == yaml.AliasNode:
		return "an alias (*" + NameKey(v.Value) + ")"
	case IsNull(v):
		return "nothing"
	case r.Secret:
		return "a text"
	}
	return excerpt.Quote(v.Value)
}

// NameKey returns a key for a message: unchanged, unless it is long or has characters that a
// terminal would act upon.
func NameKey(s string) string {
	if q := excerpt.Quote(s); q != `"`+s+`"` {
		return q
	}
	return s
}

// IsNull reports whether a value is missing: empty, ~ or null.
func IsNull(v Value) bool { return v.Kind == yaml.ScalarNode && v.Tag == "!!null" }
