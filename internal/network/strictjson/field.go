package strictjson

import (
	"encoding/json"
	"fmt"
	"strings"
)

// String returns a string field, "" when it is absent.
func (o *Object) String(key string) string {
	var s string
	o.decodeKey(key, &s, "want a string")
	return s
}

// Strings returns a list of strings.
func (o *Object) Strings(key string) []string {
	var s []string
	o.decodeKey(key, &s, "want a list of strings")
	return s
}

// Bool returns a boolean field, false when it is absent.
func (o *Object) Bool(key string) bool {
	var b bool
	o.decodeKey(key, &b, "want true or false, without quotes")
	return b
}

// BoolText is Bool for a field that libcni also takes as a text, in any case.
func (o *Object) BoolText(key string) bool {
	var text string
	if raw := o.Raw(key); raw == nil || json.Unmarshal(raw, &text) != nil {
		return o.Bool(key)
	}
	switch strings.ToLower(text) {
	case "true":
		return true
	case "false":
		return false
	}
	o.Fail(key, "want true or false")
	return false
}

// Uint returns a whole number between lo and hi, and whether it is there and
// right.
func (o *Object) Uint(key string, lo, hi uint32) (uint32, bool) {
	var n int64
	want := fmt.Sprintf("want a whole number between %d and %d, without quotes", lo, hi)
	if whole, ok := o.roundedInt(key); ok {
		n = whole
	} else if !o.decodeKey(key, &n, want) {
		return 0, false
	}
	if n < int64(lo) || n > int64(hi) {
		o.Fail(key, "want a number between %d and %d", lo, hi)
		return 0, false
	}
	return uint32(n), true
}

// OnOff returns "on" as true and "off" as false, and whether it is there and
// right; an empty string counts as absent.
func (o *Object) OnOff(key string) (on, ok bool) {
	switch s := o.Raw(key); string(s) {
	case "", `""`:
		return false, false
	case `"on"`, `"off"`:
		return string(s) == `"on"`, true
	}
	o.Fail(key, `want "on" or "off"`)
	return false, false
}

// Object returns the object in a field, nil when it is absent or not an
// object. Its problems are o's.
func (o *Object) Object(key string) *Object {
	raw := o.Raw(key)
	if raw == nil {
		return nil
	}
	in := openObject(raw, o.pathOf(key), o.report)
	if in == nil {
		o.Fail(key, "want an object")
	}
	return in
}

// Objects returns the objects in a list, named key[0], key[1] and so on in
// messages.
func (o *Object) Objects(key string) []*Object {
	var list []json.RawMessage
	if !o.decodeKey(key, &list, "want a list of objects") {
		return nil
	}
	var out []*Object
	for i, raw := range list {
		in := openObject(raw, fmt.Sprintf("%s[%d]", o.pathOf(key), i), o.report)
		if in == nil {
			o.Fail(key, "element %d: want an object", i)
			continue
		}
		out = append(out, in)
	}
	return out
}

// ObjectLists returns the objects in a list of lists.
func (o *Object) ObjectLists(key string) [][]*Object {
	var lists []json.RawMessage
	if !o.decodeKey(key, &lists, "want a list of lists of objects") {
		return nil
	}
	var out [][]*Object
	for i, raw := range lists {
		name := fmt.Sprintf("%s[%d]", key, i)
		row := &Object{path: o.path, fields: map[string]json.RawMessage{name: raw}, report: o.report}
		out = append(out, row.Objects(name))
	}
	return out
}

// longestText is longer than any name, address or path that Text is for.
const longestText = 512

// Text returns a string field that parse understands, and whether it is there
// and right.
func Text[T any](o *Object, key string, parse func(string) (T, error)) (T, bool) {
	var zero T
	if !o.Given(key) {
		return zero, false
	}
	var s string
	if !o.decodeKey(key, &s, "want a string") {
		return zero, false
	}
	if len(s) > longestText {
		o.Fail(key, "is longer than any right value; want at most %d bytes", longestText)
		return zero, false
	}
	v, err := parse(s)
	if err != nil {
		o.addProblem(Problem{Key: o.pathOf(key), Text: o.pathOf(key) + ": " + err.Error()})
		return zero, false
	}
	return v, true
}

// decodeKey fills v and reports whether key is there and has v's type.
func (o *Object) decodeKey(key string, v any, want string) bool {
	raw := o.Raw(key)
	if raw == nil {
		return false
	}
	if err := json.Unmarshal(raw, v); err != nil {
		o.Fail(key, "%s", want)
		return false
	}
	return true
}
