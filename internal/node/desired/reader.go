package desired

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/suggest"
	"github.com/culvert-net/culvert/internal/vf"
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

// reader walks a YAML tree and collects all mistakes, so that a person sees them at once.
type reader struct {
	file string
	// lenient makes the reader read like Go's encoding/json, for files that were written for a
	// program which uses that package. It accepts keys in any case, takes the empty text for a
	// missing value, and the last of two values. Unknown keys and the first of two values become
	// warnings.
	lenient  bool
	errs     []error
	warnings []Error
}

// at is one value of the file: its node and the path that led there. Values of a NodePolicy have
// the line 0, and messages name their paths in its place.
type at struct {
	*yaml.Node
	path string
}

func (r *reader) addError(v at, format string, args ...any) {
	r.errs = append(r.errs, r.newError(v, format, args...))
}

func (r *reader) addWarning(v at, format string, args ...any) {
	r.warnings = append(r.warnings, r.newError(v, format, args...))
}

func (r *reader) newError(v at, format string, args ...any) Error {
	return Error{File: r.file, Line: v.Line, Path: v.path, Text: fmt.Sprintf(format, args...)}
}

// rejectValue reports an invalid value, with a description of the wanted one.
func (r *reader) rejectValue(v at, want string) {
	r.addError(v, "%s: want %s", describeValue(v), want)
}

func describeValue(v at) string {
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

// keyName returns a key for messages: unchanged, unless it is long or has characters that a
// terminal would act upon.
func keyName(s string) string {
	if q := excerpt.Quote(s); q != `"`+s+`"` {
		return q
	}
	return s
}

func isNull(v at) bool { return v.Kind == yaml.ScalarNode && v.Tag == "!!null" }

// foreign has keys of other tools, with the advice for each.
var foreign = map[string]string{
	"resourceList":   "write pools",
	"resourceName":   "write name",
	"resourcePrefix": "write prefix",
	"numVfs":         "write vfs",
	"nicSelector":    "write name, mac, pciAddress, vendor, device or driver beside vfs",
}

// readFields returns the values of a map by key, having refused keys that are not
// known or come twice. ok is false when v is no map.
func (r *reader) readFields(v at, known ...string) (fields map[string]at, ok bool) {
	if v.Kind != yaml.MappingNode {
		r.rejectValue(v, "a map with "+strings.Join(known, ", "))
		return nil, false
	}
	fields = make(map[string]at, len(known))
	for i := 0; i+1 < len(v.Content); i += 2 {
		key, value := v.Content[i], v.Content[i+1]
		name := key.Value
		if r.lenient {
			name = foldKey(name, known)
		}
		where := at{key, joinPath(v.path, keyName(name))}
		first, twice := fields[name]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.addError(at{key, v.path}, "%s as a key: want one of %s", describeValue(where), strings.Join(known, ", "))
		case !slices.Contains(known, name) && r.lenient:
			r.addWarning(where, "unknown key, which is ignored%s", r.suggestKey(name, known))
		case !slices.Contains(known, name):
			r.addError(where, "unknown key%s", r.suggestKey(name, known))
		case twice && r.lenient:
			r.addWarning(where, "given twice: the value on line %d is ignored", first.Line)
			fields[name] = at{value, where.path}
		case twice:
			r.addError(where, "given twice, first%s", r.sayPlace(first))
		default:
			fields[name] = at{value, where.path}
		}
	}
	return fields, true
}

// foldKey returns the known key that equals name but for its case, else name.
func foldKey(name string, known []string) string {
	i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, name) })
	if i < 0 {
		return name
	}
	return known[i]
}

// readAnyMap returns the values of a map whose keys may be anything.
func (r *reader) readAnyMap(v at, want string) map[string]at {
	if v.Kind != yaml.MappingNode {
		r.rejectValue(v, want)
		return nil
	}
	fields := make(map[string]at, len(v.Content)/2)
	for i := 0; i+1 < len(v.Content); i += 2 {
		if key := v.Content[i]; key.Kind == yaml.ScalarNode {
			fields[key.Value] = at{v.Content[i+1], joinPath(v.path, keyName(key.Value))}
		}
	}
	if len(fields) < len(v.Content)/2 {
		r.addError(v, "a key is given twice, or is no text")
	}
	return fields
}

func (r *reader) suggestKey(name string, known []string) string {
	if s := foreign[name]; s != "" && !r.lenient {
		return ": " + s
	}
	if slices.Contains(known, "selectors") && slices.Contains(selectorKeys, foldKey(name, selectorKeys)) {
		return ": write it below selectors" // the device plugin's first form had it here
	}
	if s := suggest.DidYouMean(name, known); s != "" {
		return s
	}
	return ": known are " + strings.Join(known, ", ")
}

func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// readItems returns the values of a list; a missing value is an empty list.
func (r *reader) readItems(v at, want string) []at {
	if isNull(v) {
		return nil
	}
	if v.Kind != yaml.SequenceNode {
		r.rejectValue(v, want)
		return nil
	}
	all := make([]at, len(v.Content))
	for i, n := range v.Content {
		all[i] = at{n, fmt.Sprintf("%s[%d]", v.path, i)}
	}
	return all
}

// itemsOrOne returns the values of a list; a single scalar stands for a list of one.
func (r *reader) itemsOrOne(v at, want string) []at {
	if v.Kind == yaml.ScalarNode && !isNull(v) {
		return []at{v}
	}
	return r.readItems(v, want)
}

// readText returns a scalar as it is written, quoted or not: vendors: [8086] is
// not a number. ok is false when v is something else or empty.
func (r *reader) readText(v at, want string) (s string, ok bool) {
	if v.Kind != yaml.ScalarNode || isNull(v) || v.Value == "" {
		r.rejectValue(v, want)
		return "", false
	}
	return v.Value, true
}

// readAnyText returns a scalar as readText does. It may be the empty text.
func (r *reader) readAnyText(v at, want string) string {
	if v.Kind != yaml.ScalarNode || isNull(v) {
		r.rejectValue(v, want)
	}
	return v.Value
}

func (r *reader) readBool(v at) bool {
	s, ok := r.readText(v, "true or false")
	if ok && s != "true" && s != "false" {
		r.rejectValue(v, "true or false")
	}
	return s == "true"
}

// parseScalar reads a scalar of the given form.
func parseScalar[T any](r *reader, v at, f form[T]) T {
	var none T
	s, ok := r.readText(v, f.want)
	if !ok {
		return none
	}
	value, err := f.parse(s)
	if err != nil {
		r.rejectValue(v, f.want)
		return none
	}
	return value
}

// readList reads a list of scalars; a single one stands for a list of one.
func readList[T any](r *reader, v at, f form[T]) []T {
	var all []T
	for _, item := range r.itemsOrOne(v, "a list of "+f.want) {
		all = append(all, parseScalar(r, item, f))
	}
	return all
}
