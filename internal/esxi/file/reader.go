package file

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/suggest"
)

// value is one value of the file, and the path of keys to it.
type value struct {
	node *yaml.Node
	path string
}

// reader collects all mistakes of a file.
type reader struct {
	name string
	errs []error
}

// addMistake reports a mistake at a value.
func (r *reader) addMistake(v value, format string, args ...any) {
	text := fmt.Sprintf("%s:%d: ", r.name, v.node.Line)
	if v.path != "" {
		text += v.path + ": "
	}
	r.errs = append(r.errs, errors.New(text+fmt.Sprintf(format, args...)))
}

// rejectValue reports a value that is not of the wanted form.
func (r *reader) rejectValue(v value, want string) {
	r.addMistake(v, "%s: want %s", describeNode(v.node), want)
}

// describeNode returns a value of the file for a message.
func describeNode(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a map"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case isEmpty(n):
		return "nothing"
	}
	return excerpt.Quote(n.Value)
}

func isEmpty(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && (n.Tag == "!!null" || n.Value == "")
}

// object is a map of the file, whose keys are all known.
type object struct {
	*reader
	value
	fields map[string]value
}

// readObject reads a map. It refuses unknown keys and keys that come twice.
func (r *reader) readObject(v value, known ...string) object {
	o := object{reader: r, value: v, fields: map[string]value{}}
	if v.node.Kind != yaml.MappingNode {
		r.rejectValue(v, "a map with "+strings.Join(known, ", "))
		return o
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		path := strings.TrimPrefix(v.path+"."+excerpt.Clean(key.Value), ".")
		first, twice := o.fields[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || !slices.Contains(known, key.Value):
			r.addMistake(value{key, path}, "unknown key%s", suggestKey(key.Value, known))
		case twice:
			r.addMistake(value{key, path}, "given twice, first on line %d: keep one", first.node.Line)
		default:
			o.fields[key.Value] = value{v.node.Content[i+1], path}
		}
	}
	return o
}

// suggestKey returns the known key that is near, or all known keys.
func suggestKey(key string, known []string) string {
	if s := suggest.DidYouMean(key, known); s != "" {
		return s
	}
	return ": known are " + strings.Join(known, ", ")
}

// readItems returns the values of a list. A missing list has none.
func (o object) readItems(key, want string) []value {
	v, found := o.fields[key]
	if !found || isEmpty(v.node) {
		return nil
	}
	if v.node.Kind != yaml.SequenceNode {
		o.rejectValue(v, "a list of "+want)
		return nil
	}
	items := make([]value, len(v.node.Content))
	for i, n := range v.node.Content {
		items[i] = value{n, fmt.Sprintf("%s[%d]", v.path, i)}
	}
	return items
}

// readScalar returns the text of a key, and whether there is one. A key with another kind of value is a
// mistake.
func (o object) readScalar(key, want string) (string, bool) {
	v, found := o.fields[key]
	if !found {
		return "", false
	}
	if v.node.Kind != yaml.ScalarNode || isEmpty(v.node) {
		o.rejectValue(v, want)
		return "", false
	}
	return v.node.Value, true
}

// readText returns the text of a key that parse accepts. parse returns the text in its usual form.
func (o object) readText(key, want string, parse func(string) (string, bool)) string {
	s, found := o.readScalar(key, want)
	if !found {
		return ""
	}
	t, ok := parse(s)
	if !ok {
		o.rejectValue(o.fields[key], want)
	}
	return t
}

// requireText is readText for a key that must be there.
func (o object) requireText(key, want string, parse func(string) (string, bool)) string {
	if _, found := o.fields[key]; !found && o.node.Kind == yaml.MappingNode {
		o.addMistake(o.value, "%s is missing: want %s", key, want)
	}
	return o.readText(key, want, parse)
}

// readNumber returns the number of a key, or otherwise where the key is missing.
func (o object) readNumber(key string, least, most, otherwise int) int {
	want := fmt.Sprintf("a number from %d to %d", least, most)
	s, found := o.readScalar(key, want)
	if !found {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		o.rejectValue(o.fields[key], want)
	}
	return n
}

// readBool returns true or false, or nil where the key is missing.
func (o object) readBool(key string) *bool {
	s, found := o.readScalar(key, "true or false")
	if !found {
		return nil
	}
	if s != "true" && s != "false" {
		o.rejectValue(o.fields[key], "true or false")
	}
	is := s == "true"
	return &is
}
