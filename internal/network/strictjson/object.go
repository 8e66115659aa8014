// Package strictjson reads the JSON objects that people write. Raw JSON goes in; typed fields come
// out, and one error that lists every problem there is, each with its key, the value that was
// found, and what is wanted. Unknown and repeated keys are problems: a key that is silently ignored
// is a setting that is silently missing. Files that were written for a reader of encoding/json are
// read leniently: as encoding/json reads them, with warnings in place of those problems.
//
// ipam and config call it. A null counts as a key that is not there, as it
// does for encoding/json.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/suggest"
)

// Object is one JSON object that is being read. Its methods record problems
// instead of returning them; Err returns them all. The methods of a nil
// *Object find no keys.
type Object struct {
	path   string
	keys   []string
	fields map[string]json.RawMessage
	report *report
}

// report collects the problems and warnings of an object and of the objects inside it.
type report struct {
	lenient  bool
	problems []Problem
	warnings []string
}

// Parse reads one JSON object. path is put before every key in messages; it is
// empty for the outermost object. The error is an *Error: not JSON, or not an
// object.
func Parse(raw []byte, path string) (*Object, error) { return parseObject(raw, path, &report{}) }

// ParseLenient is Parse for a file that was written for encoding/json. As in encoding/json, a key
// in another case counts as the known one, and of a repeated key the last value counts. These and
// the unknown keys become Warnings.
func ParseLenient(raw []byte, path string) (*Object, error) {
	return parseObject(raw, path, &report{lenient: true})
}

func parseObject(raw []byte, path string, r *report) (*Object, error) {
	o := openObject(raw, path, r)
	if o == nil {
		return nil, &Error{Problems: []Problem{{Key: path, Text: notAnObject(raw, path)}}}
	}
	return o, nil
}

func notAnObject(raw []byte, path string) string {
	subject := path
	if subject == "" {
		subject = "configuration"
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(raw, new(any)); errors.As(err, &syntax) {
		return fmt.Sprintf("%s %s: not JSON: %s at byte %d", subject, clipValue(raw), syntax, syntax.Offset)
	}
	return fmt.Sprintf("%s %s: want a JSON object", subject, clipValue(raw))
}

// openObject returns nil when raw is not a JSON object.
func openObject(raw []byte, path string, r *report) *Object {
	if !json.Valid(raw) {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	o := &Object{path: path, fields: map[string]json.RawMessage{}, report: r}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil
		}
		key, _ := t.(string)
		if _, twice := o.fields[key]; !twice {
			o.fields[key] = value
			o.keys = append(o.keys, key)
			continue
		}
		if !r.lenient {
			o.Fail(key, "given twice")
			continue
		}
		o.Doubt(key, "given twice; the last one counts")
		o.fields[key] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil
	}
	return o
}

// Known records a problem for every key that is not among keys, with the
// nearest one of them. It is called before a field is read: in an object that is read
// leniently it gives the keys in another case their known names.
func (o *Object) Known(keys ...string) {
	if o == nil {
		return
	}
	o.foldKeys(keys)
	known := make(map[string]bool, len(keys))
	for _, k := range keys {
		known[k] = true
	}
	for _, k := range o.keys {
		if known[k] {
			continue
		}
		if o.report.lenient {
			if len(o.report.warnings) < MaxProblems {
				o.addWarning(fmt.Sprintf("%s %s: unknown key, ignored%s", o.pathOf(k), clipValue(o.fields[k]), suggest.DidYouMean(k, keys)))
			}
			delete(o.fields, k)
			continue
		}
		if o.isFull() {
			return
		}
		near := suggest.DidYouMean(k, keys)
		text := fmt.Sprintf("%s: unknown key (value %s); known are %s", o.pathOf(k), clipValue(o.fields[k]), strings.Join(keys, ", "))
		if near != "" {
			text = fmt.Sprintf("%s%s (unknown key, value %s)", o.pathOf(k), near, clipValue(o.fields[k]))
		}
		o.addProblem(Problem{Key: o.pathOf(k), Text: text, Unknown: true})
	}
}

// Raw returns the value of key as it is, nil when it is absent or null.
func (o *Object) Raw(key string) json.RawMessage {
	if o == nil || string(o.fields[key]) == "null" {
		return nil
	}
	return o.fields[key]
}

// Has reports whether key is there and not null.
func (o *Object) Has(key string) bool { return o.Raw(key) != nil }

// Given reports whether key is there and neither null nor "". Templates write an empty string for
// what was left out, and the plugins that Culvert replaces read it so.
func (o *Object) Given(key string) bool { return o.Has(key) && string(o.Raw(key)) != `""` }

// Fail records a problem with the value of key: "path.key value: text".
func (o *Object) Fail(key, format string, args ...any) {
	if o.isFull() {
		return
	}
	subject := o.pathOf(key)
	if v := o.Raw(key); v != nil {
		subject += " " + clipValue(v)
	}
	o.addProblem(Problem{Key: o.pathOf(key), Text: subject + ": " + fmt.Sprintf(format, args...)})
}

// Refuse records that key is known but not served: like an unknown key it is
// something to take out, not to correct.
func (o *Object) Refuse(key, format string, args ...any) {
	o.addProblem(Problem{Key: o.pathOf(key), Unknown: true,
		Text: o.pathOf(key) + " " + clipValue(o.Raw(key)) + ": " + fmt.Sprintf(format, args...)})
}

// longestProblem bounds one message in bytes; parsers of fields may repeat their value.
const longestProblem = 1000

func (o *Object) addProblem(p Problem) {
	p.Text = excerpt.Fit(p.Text, longestProblem)
	if len(o.report.problems) < MaxProblems {
		o.report.problems = append(o.report.problems, p)
	}
}

// isFull reports whether no further problem is kept, so that the text of one need not be made.
// Warnings do not count: however many there are, a problem refuses the object.
func (o *Object) isFull() bool { return len(o.report.problems) >= MaxProblems }

// Err returns an *Error with everything recorded so far, here and in the objects
// inside, or nil.
func (o *Object) Err() error {
	if o == nil || len(o.report.problems) == 0 {
		return nil
	}
	return &Error{Problems: o.report.problems}
}

// pathOf returns the name of a key in messages: with the path to it, short and printable.
func (o *Object) pathOf(key string) string {
	key = excerpt.Line(key)
	if o.path == "" {
		return key
	}
	return o.path + "." + key
}

// clipValue returns a value for a message: on one line, and without quotes if it needs none.
func clipValue(raw []byte) string {
	s := strings.Join(strings.Fields(string(raw)), " ")
	var text string
	if json.Unmarshal([]byte(s), &text) == nil && text != "" && !strings.ContainsAny(text, " \"\\;:,") && excerpt.Clean(text) == text {
		s = text
	}
	return excerpt.Line(s)
}

// Empty reports whether o has no keys at all.
func (o *Object) Empty() bool { return o == nil || len(o.keys) == 0 }

// Keys returns the keys in the order in which they stand.
func (o *Object) Keys() []string {
	if o == nil {
		return nil
	}
	return o.keys
}

// Failed reports whether a problem with key was recorded.
func (o *Object) Failed(key string) bool {
	if o == nil {
		return false
	}
	return slices.ContainsFunc(o.report.problems, func(p Problem) bool { return p.Key == o.pathOf(key) })
}
