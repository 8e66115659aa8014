package strictyaml

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/suggest"
)

// ReadFields returns the values of a map by key, having refused keys that are not known or come
// twice. ok is false when v is no map.
func (r *Reader) ReadFields(v Value, known ...string) (fields map[string]Value, ok bool) {
	if v.Kind != yaml.MappingNode {
		r.Reject(v, "a map with "+strings.Join(known, ", "))
		return nil, false
	}
	fields = make(map[string]Value, len(known))
	for i := 0; i+1 < len(v.Content); i += 2 {
		key, value := v.Content[i], v.Content[i+1]
		name := key.Value
		if r.Lenient {
			name = foldKey(name, known)
		}
		where := Value{Node: key, Path: joinPath(v.Path, NameKey(name))}
		first, twice := fields[name]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.AddMistake(Value{Node: key, Path: v.Path}, "%s as a key: want one of %s", r.NameValue(where), strings.Join(known, ", "))
		case !slices.Contains(known, name):
			r.rejectKey(where, v.Path, known)
		case twice && r.Lenient:
			r.AddWarning(where, "given twice: the value on line %d is ignored", first.Line)
			fields[name] = Value{Node: value, Path: where.Path}
		case twice:
			r.AddMistake(where, "given twice, first%s: keep one", SayPlace(first))
		default:
			fields[name] = Value{Node: value, Path: where.Path}
		}
	}
	return fields, true
}

// rejectKey reports an unknown key of the map at path.
func (r *Reader) rejectKey(key Value, path string, known []string) {
	switch {
	case r.Secret && suggest.DidYouMean(key.Value, known) == "":
		r.AddMistake(Value{Node: key.Node, Path: path}, "an unknown key: known are %s", strings.Join(known, ", "))
	case r.Lenient:
		r.AddWarning(key, "unknown key, which is ignored%s", r.suggestKey(key.Value, known))
	default:
		r.AddMistake(key, "unknown key%s", r.suggestKey(key.Value, known))
	}
}

// suggestKey returns the advice for a key of another tool or place, the known key that is near, or
// all known keys.
func (r *Reader) suggestKey(name string, known []string) string {
	if r.Lenient {
		name = foldKey(name, slices.Collect(maps.Keys(r.Foreign)))
	}
	if s := r.Foreign[name]; s != "" {
		return ": " + s
	}
	if s := suggest.DidYouMean(name, known); s != "" {
		return s
	}
	return ": known are " + strings.Join(known, ", ")
}

// foldKey returns the known key that equals name but for its case, else name.
func foldKey(name string, known []string) string {
	i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, name) })
	if i < 0 {
		return name
	}
	return known[i]
}

func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// SayPlace returns where a value stands, for messages about another value.
func SayPlace(v Value) string {
	if v.Line == 0 {
		return " as " + v.Path
	}
	return fmt.Sprintf(" on line %d", v.Line)
}

// ReadAnyMap returns the values of a map whose keys may be anything.
func (r *Reader) ReadAnyMap(v Value, want string) map[string]Value {
	if v.Kind != yaml.MappingNode {
		r.Reject(v, want)
		return nil
	}
	fields := make(map[string]Value, len(v.Content)/2)
	for i := 0; i+1 < len(v.Content); i += 2 {
		if key := v.Content[i]; key.Kind == yaml.ScalarNode {
			fields[key.Value] = Value{Node: v.Content[i+1], Path: joinPath(v.Path, NameKey(key.Value))}
		}
	}
	if len(fields) < len(v.Content)/2 {
		r.AddMistake(v, "a key is given twice, or is no text")
	}
	return fields
}

// ReadItems returns the values of a list; a missing value is an empty list.
func (r *Reader) ReadItems(v Value, want string) []Value {
	if IsNull(v) {
		return nil
	}
	if v.Kind != yaml.SequenceNode {
		r.Reject(v, want)
		return nil
	}
	all := make([]Value, len(v.Content))
	for i, n := range v.Content {
		all[i] = Value{Node: n, Path: fmt.Sprintf("%s[%d]", v.Path, i)}
	}
	return all
}

// ReadItemsOrOne returns the values of a list; a single scalar stands for a list of one.
func (r *Reader) ReadItemsOrOne(v Value, want string) []Value {
	if v.Kind == yaml.ScalarNode && !IsNull(v) {
		return []Value{v}
	}
	return r.ReadItems(v, want)
}

// ReadText returns a scalar as it is written, quoted or not: vendors: [8086] is not a number. ok is
// false when v is something else or empty.
func (r *Reader) ReadText(v Value, want string) (s string, ok bool) {
	if v.Kind != yaml.ScalarNode || IsNull(v) || v.Value == "" {
		r.Reject(v, want)
		return "", false
	}
	return v.Value, true
}

// ReadAnyText returns a scalar as ReadText does. It may be the empty text.
func (r *Reader) ReadAnyText(v Value, want string) string {
	if v.Kind != yaml.ScalarNode || IsNull(v) {
		r.Reject(v, want)
	}
	return v.Value
}

// ReadBool returns whether a scalar is true. Only true and false are accepted.
func (r *Reader) ReadBool(v Value) bool {
	s, ok := r.ReadText(v, "true or false")
	if ok && s != "true" && s != "false" {
		r.Reject(v, "true or false")
	}
	return s == "true"
}
