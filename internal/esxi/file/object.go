package file

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/strictyaml"
)

// reader collects all mistakes of a file.
type reader struct{ strictyaml.Reader }

func newReader(name string) *reader {
	return &reader{strictyaml.Reader{File: name}}
}

// value is one value of the file.
type value = strictyaml.Value

// readDocument returns the one document of a text. secret texts are not in its errors.
func readDocument(name string, text []byte, want string, secret bool) (*yaml.Node, error) {
	root, err := strictyaml.ReadDocument(name, text)
	var m strictyaml.Mistake
	switch {
	case err != nil && !errors.As(err, &m) && secret:
		return nil, fmt.Errorf("%s: not YAML: want %s, each on a line, such as user: root", name, want)
	case err != nil && !errors.As(err, &m):
		return nil, fmt.Errorf("%s: not YAML: %s: %s", name, strings.TrimPrefix(excerpt.Line(err.Error()), "yaml: "), strictyaml.SyntaxAdvice)
	case err != nil:
		return nil, err
	case root == nil:
		return nil, fmt.Errorf("%s: the file is empty: want %s", name, want)
	}
	return root, nil
}

// joinMistakes returns all mistakes, in the order of their lines.
func (r *reader) joinMistakes() error {
	var all []error
	for _, m := range r.Sorted() {
		all = append(all, m)
	}
	return errors.Join(all...)
}

// object is a map of the file, whose keys are all known.
type object struct {
	*reader
	value
	fields map[string]value
	isMap  bool
}

func (r *reader) readObject(v value, known ...string) object {
	o := object{reader: r, value: v}
	o.fields, o.isMap = r.ReadFields(v, known...)
	return o
}

// readItems returns the values of a list. A missing list has none.
func (o object) readItems(key, want string) []value {
	v, found := o.fields[key]
	if !found {
		return nil
	}
	return o.ReadItems(v, "a list of "+want)
}

// readText returns the text of a key that parse accepts. parse returns the text in its usual form.
func (o object) readText(key, want string, parse func(string) (string, bool)) string {
	v, found := o.fields[key]
	if !found {
		return ""
	}
	s, ok := o.ReadText(v, want)
	if !ok {
		return ""
	}
	t, ok := parse(s)
	if !ok {
		o.Reject(v, want)
	}
	return t
}

// requireText is readText for a key that must be there.
func (o object) requireText(key, want string, parse func(string) (string, bool)) string {
	o.require(key, want)
	return o.readText(key, want, parse)
}

// require reports a key that is missing.
func (o object) require(key, want string) {
	if _, found := o.fields[key]; !found && o.isMap {
		o.AddMistake(o.value, "%s is missing: want %s", key, want)
	}
}

// readNumber returns the number of a key, or otherwise where the key is missing.
func (o object) readNumber(key string, least, most, otherwise int) int {
	v, found := o.fields[key]
	if !found {
		return otherwise
	}
	want := fmt.Sprintf("a number from %d to %d", least, most)
	s, ok := o.ReadText(v, want)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		o.Reject(v, want)
	}
	return n
}

// readBool returns true or false, or nil where the key is missing.
func (o object) readBool(key string) *bool {
	v, found := o.fields[key]
	if !found {
		return nil
	}
	is := o.ReadBool(v)
	return &is
}
