package strictjson

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/culvert-net/culvert/vf"
)

// read is what a caller does: every kind of field once.
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
	if err == nil || utf8.RuneCountInString(err.Error()) > 200 || !strings.Contains(err.Error(), "... (4900 more characters)") {
		t.Errorf("%v: want a short message", err)
	}
}
