package desired

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/excerpt"
	"github.com/culvert-net/culvert/suggest"
	"github.com/culvert-net/culvert/vf"
)

// Error is one thing that is wrong with a file. It wraps vf.ErrInvalid.
type Error struct {
	File string
	Line int    // counted from 1; 0 when the whole file is meant
	Path string // e.g. pools[0].selectors.pfNames[1]; empty at the top
	Text string
}

func (e Error) Error() string {
	s := e.File
	if e.Line > 0 {
		s += ":" + strconv.Itoa(e.Line)
	}
	if e.Path != "" {
		s += ": " + e.Path
		if strings.HasPrefix(e.Text, `"`) {
			return s + " " + e.Text
		}
	}
	return s + ": " + e.Text
}

// Unwrap returns vf.ErrInvalid.
func (e Error) Unwrap() error { return vf.ErrInvalid }

// reader walks a YAML tree and collects what is wrong, so that a person sees
// all of it at once.
type reader struct {
	file string
	// object: what is read is an object of a cluster, which has no lines.
	object bool
	// lenient reads as Go's encoding/json does, for files that were written for a
	// program which reads with that: keys in any case, the empty text for what is
	// not given, the last of two values. Unknown keys and the first of two values
	// become warnings.
	lenient  bool
	errs     []error
	warnings []Error
}

// at is one value of the file: its node and the path that led there.
type at struct {
	*yaml.Node
	path string
}

func (r *reader) fail(v at, format string, args ...any) {
	r.errs = append(r.errs, r.mistake(v, format, args...))
}

func (r *reader) warn(v at, format string, args ...any) {
	r.warnings = append(r.warnings, r.mistake(v, format, args...))
}

func (r *reader) mistake(v at, format string, args ...any) Error {
	e := Error{File: r.file, Line: v.Line, Path: v.path, Text: fmt.Sprintf(format, args...)}
	if r.object {
		e.Line = 0
	}
	return e
}

// bad reports a value that will not do, and what would.
func (r *reader) bad(v at, want string) {
	r.fail(v, "%s: want %s", describe(v), want)
}

func describe(v at) string {
	switch {
	case v.Kind == yaml.MappingNode:
		return "a map"
	case v.Kind == yaml.SequenceNode:
		return "a list"
	case v.Kind == yaml.AliasNode:
		return "an alias (*" + keyName(v.Value) + ")"
	case isNull(v):
		return "nothing"
	}
	return excerpt.Quote(v.Value)
}

// keyName is a key as messages have it: as it stands, unless it is long or has
// something that a terminal would act upon.
func keyName(s string) string {
	if q := excerpt.Quote(s); q != `"`+s+`"` {
		return q
	}
	return s
}

func isNull(v at) bool { return v.Kind == yaml.ScalarNode && v.Tag == "!!null" }

// foreign keys are what other tools call things that we have or do not have.
var foreign = map[string]string{
	"resourceList":   "write pools",
	"resourceName":   "write name",
	"resourcePrefix": "write prefix",
	"numVfs":         "write vfs",
	"nicSelector":    "write name, mac, pciAddress, vendor, device or driver beside vfs",
}

// fields returns the values of a map by key, having refused keys that are not
// known or come twice. ok is false when v is no map.
func (r *reader) fields(v at, known ...string) (fields map[string]at, ok bool) {
	if v.Kind != yaml.MappingNode {
		r.bad(v, "a map with "+strings.Join(known, ", "))
		return nil, false
	}
	fields = make(map[string]at, len(known))
	for i := 0; i+1 < len(v.Content); i += 2 {
		key, value := v.Content[i], v.Content[i+1]
		name := key.Value
		if r.lenient {
			name = folded(name, known)
		}
		where := at{key, join(v.path, keyName(name))}
		first, twice := fields[name]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.fail(at{key, v.path}, "%s as a key: want one of %s", describe(where), strings.Join(known, ", "))
		case !slices.Contains(known, name) && r.lenient:
			r.warn(where, "unknown key, which is ignored%s", r.hint(name, known))
		case !slices.Contains(known, name):
			r.fail(where, "unknown key%s", r.hint(name, known))
		case twice && r.lenient:
			r.warn(where, "given twice: the value on line %d is ignored", first.Line)
			fields[name] = at{value, where.path}
		case twice:
			r.fail(where, "given twice, first%s", r.sayPlace(first))
		default:
			fields[name] = at{value, where.path}
		}
	}
	return fields, true
}

// folded is the known key that name is but for its case, else name.
func folded(name string, known []string) string {
	i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, name) })
	if i < 0 {
		return name
	}
	return known[i]
}

// any returns the values of a map whose keys may be anything.
func (r *reader) any(v at, want string) map[string]at {
	if v.Kind != yaml.MappingNode {
		r.bad(v, want)
		return nil
	}
	var keys []string
	for i := 0; i+1 < len(v.Content); i += 2 {
		keys = append(keys, v.Content[i].Value)
	}
	fields, _ := (&reader{file: r.file, errs: nil}).fields(v, keys...)
	if len(fields) < len(keys) {
		r.fail(v, "a key is given twice, or is no text")
	}
	return fields
}

func (r *reader) hint(name string, known []string) string {
	if s := foreign[name]; s != "" && !r.lenient {
		return ": " + s
	}
	if s := suggest.DidYouMean(name, known); s != "" {
		return s
	}
	return ": known are " + strings.Join(known, ", ")
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// items returns the values of a list; nothing is an empty list.
func (r *reader) items(v at, want string) []at {
	if isNull(v) {
		return nil
	}
	if v.Kind != yaml.SequenceNode {
		r.bad(v, want)
		return nil
	}
	all := make([]at, len(v.Content))
	for i, n := range v.Content {
		all[i] = at{n, fmt.Sprintf("%s[%d]", v.path, i)}
	}
	return all
}

// text returns a scalar as it is written, quoted or not: vendors: [8086] is
// not a number. ok is false when v is something else or empty.
func (r *reader) text(v at, want string) (s string, ok bool) {
	if v.Kind != yaml.ScalarNode || isNull(v) || v.Value == "" {
		r.bad(v, want)
		return "", false
	}
	return v.Value, true
}

func (r *reader) boolean(v at) bool {
	s, ok := r.text(v, "true or false")
	if ok && s != "true" && s != "false" {
		r.bad(v, "true or false")
	}
	return s == "true"
}

// parsed reads a scalar of the given form.
func parsed[T any](r *reader, v at, f form[T]) T {
	var none T
	s, ok := r.text(v, f.want)
	if !ok {
		return none
	}
	value, err := f.parse(s)
	if err != nil {
		r.bad(v, f.want)
		return none
	}
	return value
}

// list reads a list of scalars; a single one stands for a list of one.
func list[T any](r *reader, v at, f form[T]) []T {
	if v.Kind == yaml.ScalarNode && !isNull(v) {
		return []T{parsed(r, v, f)}
	}
	var all []T
	for _, item := range r.items(v, "a list of "+f.want) {
		all = append(all, parsed(r, item, f))
	}
	return all
}
