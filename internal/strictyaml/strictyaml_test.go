package strictyaml

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// read reads a map with the keys name and many, of which many is a list of maps with the key on.
func read(r *Reader, text string) (got []string) {
	root, err := ReadDocument(r.File, []byte(text))
	if err != nil {
		return []string{err.Error()}
	}
	if root == nil {
		return []string{"empty"}
	}
	fields, _ := r.ReadFields(Value{Node: root}, "name", "many")
	if v, ok := fields["name"]; ok {
		if s, ok := r.ReadText(v, "a name"); ok {
			got = append(got, "name "+s)
		}
	}
	if v, ok := fields["many"]; ok {
		for _, item := range r.ReadItems(v, "a list") {
			if on, _ := r.ReadFields(item, "on"); on["on"].Node != nil {
				got = append(got, fmt.Sprint(r.ReadBool(on["on"])))
			}
		}
	}
	for _, m := range r.Sorted() {
		got = append(got, m.Error())
	}
	for _, m := range r.Warnings {
		got = append(got, "warning: "+m.Error())
	}
	return got
}

// TestReader: values of a wrong kind, empty values, anchors and keys that come twice are each one mistake,
// with line and path.
func TestReader(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "empty",
		"~":                                 "empty",
		"# nothing":                         "empty",
		"name: a\nmany: [{on: true}]":       "name a\ntrue",
		"name: 007":                         "name 007",
		"name: &x a\nmany: []":              "name a",
		"many: ~":                           "",
		"many: ''":                          `f:1: many: "": want a list`,
		"many: {on: true}":                  "f:1: many: a map: want a list",
		"many: [{on: yes}]":                 "false\n" + `f:1: many[0].on: "yes": want true or false`,
		"many: [~, [], 1]":                  "f:1: many[0]: nothing: want a map with on\nf:1: many[1]: a list: want a map with on\n" + `f:1: many[2]: "1": want a map with on`,
		"name: &x a\nmany: *x":              "name a\nf:2: many: an alias (*x): want a list",
		"name:":                             "f:1: name: nothing: want a name",
		"name: []":                          "f:1: name: a list: want a name",
		"<<: {name: a}":                     "f:1: <<: unknown key: known are name, many",
		"nam: a":                            "f:1: nam: unknown key: did you mean name?",
		"old: a":                            "f:1: old: unknown key: write name",
		"{a: b}: c":                         "f:1: a map as a key: want one of name, many",
		"name: a\nname: b":                  "name a\nf:2: name: given twice, first on line 1: keep one",
		"a: b\n---\nc: d":                   "f:2: a second document: want one only, remove what follows ---",
		"- a":                               "f:1: a list: want a map with name, many",
		"name: \"\\e[31m\"\n\"\\e[1mx\": 2": "name \x1b[31m\nf:2: \"\\x1b[1mx\": unknown key: known are name, many",
	} {
		r := &Reader{File: "f", Foreign: map[string]string{"old": "write name"}}
		if diff := cmp.Diff(want, strings.Join(read(r, text), "\n")); diff != "" {
			t.Errorf("%q: -want +got:\n%s", text, diff)
		}
	}
	_, err := ReadDocument("f", []byte("name: ["))
	if m := (Mistake{}); err == nil || errors.As(err, &m) {
		t.Errorf("the parser's own error is %v", err)
	}
}

// TestLenient: for a file of a program in Go, keys in another case count, and unknown keys warn.
func TestLenient(t *testing.T) {
	r := &Reader{File: "f", Lenient: true, Foreign: map[string]string{"below": "write it below many"}}
	want := "name b\nwarning: f:2: name: given twice: the value on line 1 is ignored\nwarning: f:3: other: unknown key, which is ignored: known are name, many\n" +
		"warning: f:4: Below: unknown key, which is ignored: write it below many"
	if diff := cmp.Diff(want, strings.Join(read(r, "Name: a\nname: b\nother: c\nBelow: d"), "\n")); diff != "" {
		t.Error(diff)
	}
}

// TestSecret: messages of a secret file have no part of it.
func TestSecret(t *testing.T) {
	for _, text := range []string{
		"hunter2", "many: hunter2", "many: [hunter2]", "hunter2: a", "name: &x a\nmany: *x", "[hunter2]", "hunter2: a\nhunter2: b", "name: a\nname: hunter2", "many: [{hunter2: 1}]", "? {hunter2: a}\n: b",
	} {
		r := &Reader{File: "f", Secret: true}
		read(r, text)
		for _, m := range r.Mistakes {
			if strings.Contains(m.Error(), "hunter2") || strings.Contains(m.Error(), "*x") {
				t.Errorf("%q: %s", text, m)
			}
		}
		if len(r.Mistakes) == 0 {
			t.Errorf("%q has no mistake", text)
		}
	}
	r := &Reader{File: "f", Secret: true} // a misspelled key is none
	if got := read(r, "nam: a"); len(got) != 1 || got[0] != "f:1: nam: unknown key: did you mean name?" {
		t.Errorf("%q", got)
	}
}

// TestMany: a file with many mistakes shows some, and how many more there are.
func TestMany(t *testing.T) {
	r := &Reader{File: "f"}
	read(r, strings.Repeat("x: 1\n", MostMistakes+3))
	all := r.Sorted()
	if len(all) != MostMistakes+1 || all[MostMistakes].Error() != "f: and 3 more" {
		t.Errorf("%d mistakes, the last is %v", len(all), all[len(all)-1])
	}
}
