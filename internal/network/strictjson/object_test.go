package strictjson

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/culvert-net/culvert/internal/vf"
)

// read reads every kind of field once, as a caller does.
func read(raw string) error {
	o, err := Parse([]byte(raw), "")
	if err != nil {
		return err
	}
	o.Known("name", "on", "flag", "n", "list", "in", "many", "rows", "addr", "bond")
	o.String("name")
	o.OnOff("on")
	o.Bool("flag")
	o.Uint("n", 1, 4094)
	o.Strings("list")
	in := o.Object("in")
	in.Known("deep")
	in.String("deep")
	for _, m := range o.Objects("many") {
		m.Known("deep")
		m.String("deep")
	}
	for _, row := range o.ObjectLists("rows") {
		for _, m := range row {
			m.Known("deep")
		}
	}
	Text(o, "addr", vf.ParsePCIAddr)
	if o.Has("bond") {
		o.Refuse("bond", "not served yet")
	}
	return o.Err()
}

func TestProblems(t *testing.T) {
	for raw, want := range map[string]string{
		`{}`: "<nil>",
		`{"name":null,"on":null,"flag":null,"n":null,"list":null,"in":null,"many":null,"rows":null,"addr":null}`:                      "<nil>",
		`{"name":"a","on":"off","flag":true,"n":5,"list":["a"],"in":{"deep":"x"},"many":[{}],"rows":[[{}],[]],"addr":"0000:3b:00.1"}`: "<nil>",
		`{"name":"","on":"","addr":""}`: "<nil>",
		`{"n":""}`:                      `n "": want a whole number between 1 and 4094, without quotes`,
		`{"Name":1}`:                    `Name: did you mean name? (unknown key, value 1)`,
		`{"selectors":"x"}`:             `selectors: unknown key (value x); known are name, on, flag, n, list, in, many, rows, addr, bond`,
		`{"name":1}`:                    `name 1: want a string`,
		`{"on":true}`:                   `on true: want "on" or "off"`,
		`{"flag":"yes"}`:                `flag yes: want true or false, without quotes`,
		`{"n":"7"}`:                     `n 7: want a whole number between 1 and 4094, without quotes`,
		`{"n":4095}`:                    `n 4095: want a number between 1 and 4094`,
		`{"n":-1}`:                      `n -1: want a number between 1 and 4094`,
		`{"list":"a"}`:                  `list a: want a list of strings`,
		`{"in":[]}`:                     `in []: want an object`,
		`{"in":{"deeep":1}}`:            `in.deeep: did you mean deep? (unknown key, value 1)`,
		`{"many":[{"deep":1}]}`:         `many[0].deep 1: want a string`,
		`{"many":[null]}`:               `many [null]: element 0: want an object`,
		`{"rows":[[{"x":[]}]]}`:         `rows[0][0].x: unknown key (value []); known are deep`,
		`{"rows":[{"deep":"a"}]}`:       `rows[0] {"deep":"a"}: want a list of objects`,
		`{"addr":"x"}`:                  `addr: PCI address "x": want domain:bus:device.function in hexadecimal, e.g. 0000:3b:00.1`,
		`{"addr":5}`:                    `addr 5: want a string`,
		`{"bond":{}}`:                   `bond {}: not served yet`,
		`{"name":"a","name":"b"}`:       `name a: given twice`,
		`{"n":0,"on":1}`:                `on 1: want "on" or "off"; n 0: want a number between 1 and 4094`,
		`[]`:                            `configuration []: want a JSON object`,
		`{"a":}`:                        `configuration {"a":}: not JSON: invalid character '}' looking for beginning of value at byte 6`,
		`{} {}`:                         `configuration {} {}: not JSON: invalid character '{' after top-level value at byte 4`,
		``:                              `configuration : not JSON: unexpected end of JSON input at byte 0`,
	} {
		err := read(raw)
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%s\n got %s\nwant %s", raw, got, want)
		}
		if err != nil && !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("%s: the error is not a vf.ErrInvalid", raw)
		}
	}
}

func TestOnlyUnknown(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"nmae":1}`:       true,
		`{"bond":{}}`:      true,
		`{"name":1}`:       false,
		`{"nmae":1,"n":0}`: false,
		`{"n":1,"n":2}`:    false,
	} {
		var e *Error
		if err := read(raw); !errors.As(err, &e) || e.OnlyUnknown() != want {
			t.Errorf("%s: %v: OnlyUnknown is not %v", raw, err, want)
		}
	}
}

func TestLongValuesAreClipped(t *testing.T) {
	err := read(`{"n":"` + strings.Repeat("ä", 5000) + `"}`)
	if err == nil || utf8.RuneCountInString(err.Error()) > 220 {
		t.Errorf("%v: want a short message", err)
	}
}

// readMany reads many objects whose addr is wrong and whose bond is not served.
func readMany(raw string) error {
	o, err := Parse([]byte(raw), "")
	if err != nil {
		return err
	}
	for _, in := range o.Objects("many") {
		Text(in, "addr", vf.ParsePCIAddr)
		if in.Has("bond") {
			in.Refuse("bond", "not served yet")
		}
	}
	return o.Err()
}

// A long object has a short error, which says that it may not list everything.
func TestProblemsAreBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		read         func(string) error
		object, many string // of which the object has many
	}{
		"unknown keys":           {read, `{%s}`, `"x":1`},
		"a repeated key":         {read, `{%s}`, `"name":"a"`},
		"values of a wrong type": {read, `{"many":[%s]}`, `{"deep":1}`},
		"wrong addresses":        {readMany, `{"many":[%s]}`, `{"addr":"x"}`},
		"keys that are refused":  {readMany, `{"many":[%s]}`, `{"bond":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			for count, want := range map[int]bool{MaxProblems / 2: false, MaxProblems * 50: true} {
				list := strings.TrimSuffix(strings.Repeat(tc.many+",", count), ",")
				var e *Error
				if err := tc.read(fmt.Sprintf(tc.object, list)); !errors.As(err, &e) {
					t.Fatalf("%d: %v", count, err)
				}
				if more := strings.HasSuffix(e.Error(), "; and maybe more, which are not listed"); more != want || len(e.Problems) > MaxProblems {
					t.Errorf("%d of them have %d problems: %.2000s", count, len(e.Problems), e)
				}
			}
		})
	}
}

// A text that is longer than any name, address or path does not reach the parser of its field.
func TestTextIsBounded(t *testing.T) {
	for _, length := range []int{longestText, longestText + 1} {
		o, err := Parse([]byte(`{"in":{"path":"`+strings.Repeat("a", length)+`"}}`), "")
		if err != nil {
			t.Fatal(err)
		}
		parsed := 0
		got, ok := Text(o.Object("in"), "path", func(s string) (int, error) { parsed++; return len(s), nil })
		if length <= longestText {
			if !ok || got != length || o.Err() != nil {
				t.Errorf("%d bytes: %d %v, %v", length, got, ok, o.Err())
			}
			continue
		}
		want := "in.path " + strings.Repeat("a", 100) + "... (413 more characters): is longer than any right value; want at most 512 bytes"
		if ok || got != 0 || parsed > 0 || fmt.Sprint(o.Err()) != want {
			t.Errorf("%d bytes: %d %v, parsed %d times\n got %v\nwant %s", length, got, ok, parsed, o.Err(), want)
		}
	}
}

// Keys returns each key once, in the order of the text.
func TestKeys(t *testing.T) {
	for raw, want := range map[string]string{
		`{"in":{"z":1,"a":null,"m":{"x":1}}}`: "z a m",
		`{"in":{"b":1,"a":2,"b":3}}`:          "b a",
		`{"in":{}}`:                           "",
		`{"in":null}`:                         "",
		`{}`:                                  "",
	} {
		o, err := Parse([]byte(raw), "")
		if err != nil {
			t.Fatal(err)
		}
		in := o.Object("in")
		if got := strings.Join(in.Keys(), " "); got != want || in.Empty() != (want == "") {
			t.Errorf("%s: keys %q, empty %v; want %q", raw, got, in.Empty(), want)
		}
	}
}

// Failed is about one key of one object. A key of the same name in another object does not count.
func TestFailed(t *testing.T) {
	o, err := Parse([]byte(`{"deep":"x","n":7,"in":{"deep":1},"many":[{"deep":"x"},{"deep":2}]}`), "")
	if err != nil {
		t.Fatal(err)
	}
	o.Known("deep", "in", "many")
	in, many := o.Object("in"), o.Objects("many")
	for _, each := range append(many, o, in) {
		each.String("deep")
	}
	got := []bool{o.Failed("deep"), o.Failed("n"), o.Failed("in"), in.Failed("deep"), many[0].Failed("deep"), many[1].Failed("deep")}
	if want := []bool{false, true, false, true, false, true}; !slices.Equal(got, want) {
		t.Errorf("failed %v, want %v: %v", got, want, o.Err())
	}
}

// A caller reads an object that may be left out without asking whether it is there.
func TestAbsentObjectHasNothing(t *testing.T) {
	for _, parse := range []func([]byte, string) (*Object, error){Parse, ParseLenient} {
		o, err := parse([]byte(`{"in":null}`), "")
		if err != nil {
			t.Fatal(err)
		}
		in := o.Object("in")
		in.Known("deep")
		_, isNumber := in.Uint("deep", 0, 9)
		_, isSwitch := in.OnOff("deep")
		_, isText := Text(in, "deep", func(s string) (string, error) { return s, nil })
		if in.Has("deep") || in.Given("deep") || in.Bool("deep") || isNumber || isSwitch || isText || in.Failed("deep") || in.IsLenient() {
			t.Error("an absent object has a key")
		}
		if in.String("deep") != "" || in.Strings("deep") != nil || in.Object("deep") != nil || in.Objects("deep") != nil || in.ObjectLists("deep") != nil {
			t.Error("an absent object has a value")
		}
		if !in.Empty() || in.Keys() != nil || in.Warnings() != nil || in.Err() != nil || o.Err() != nil {
			t.Errorf("an absent object has something to report: %v, %v", in.Warnings(), o.Err())
		}
	}
}
