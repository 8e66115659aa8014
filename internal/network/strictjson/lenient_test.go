package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// readLeniently reads vlan, a whole number, and in.Deep, a text.
func readLeniently(raw string) (vlan uint32, deep string, warnings []string, err error) {
	o, err := ParseLenient([]byte(raw), "")
	if err != nil {
		return 0, "", nil, err
	}
	o.Known("vlan", "in")
	vlan, _ = o.Uint("vlan", 0, 4094)
	in := o.Object("in")
	in.Known("Deep")
	return vlan, in.String("Deep"), o.Warnings(), o.Err()
}

func TestLenient(t *testing.T) {
	for raw, want := range map[string]struct {
		vlan     uint32
		deep     string
		warnings []string
	}{
		`{"vlan":5,"in":{"Deep":"x"}}`:         {5, "x", nil},
		`{"VLAN":5,"In":{"deep":"x"}}`:         {5, "x", []string{`VLAN 5: read as vlan: write it so`, `In {"deep":"x"}: read as in: write it so`, `in.deep x: read as Deep: write it so`}},
		`{"vlan":5,"vlan":6}`:                  {6, "", []string{`vlan 5: given twice; the last one counts`}},
		`{"vlan":5.0}`:                         {5, "", nil},
		`{"vlna":5,"in":{"x":1}}`:              {0, "", []string{`vlna 5: unknown key, ignored: did you mean vlan?`, `in.x 1: unknown key, ignored`}},
		`{"vlan":null,"Vlan":6}`:               {0, "", []string{`Vlan 6: given again as vlan, ignored`}},
		`{"VLAN":5,"vLAN":6,"in":{"Deep":""}}`: {6, "", []string{`VLAN 5: given again as vlan, ignored`, `vLAN 6: read as vlan: write it so`}},
	} {
		vlan, deep, warnings, err := readLeniently(raw)
		if err != nil || vlan != want.vlan || deep != want.deep || !slices.Equal(warnings, want.warnings) {
			t.Errorf("%s: %d %q %q %v\nwant %d %q %q", raw, vlan, deep, warnings, err, want.vlan, want.deep, want.warnings)
		}
	}
	if _, _, _, err := readLeniently(`{"VLAN":1.5}`); err == nil || err.Error() != `vlan 1.5: want a whole number between 0 and 4094, without quotes` {
		t.Errorf("a value that is wrong: %v", err)
	}
}

// A doubtful value and a key that is not served are warnings where an object is read leniently, and
// the object's fields count. Elsewhere they are problems. Its author corrects the value and takes
// out the key, which counts as unknown.
func TestDoubts(t *testing.T) {
	for name, tc := range map[string]struct {
		record      func(in *Object)
		text        string
		onlyUnknown bool
	}{
		"a value":               {func(in *Object) { in.Doubt("deep", "read as %q", "off") }, `in.deep ON: read as "off"`, false},
		"an absent key":         {func(in *Object) { in.Doubt("other", "missing") }, "in.other: missing", false},
		"a key that is refused": {func(in *Object) { in.RefuseDoubt("deep", "not served; %s does that", "mtu") }, "in.deep ON: not served; mtu does that", true},
	} {
		for _, lenient := range []bool{false, true} {
			parse := Parse
			if lenient {
				parse = ParseLenient
			}
			o, err := parse([]byte(`{"in":{"deep":"ON"}}`), "")
			if err != nil {
				t.Fatal(err)
			}
			in := o.Object("in")
			tc.record(in)
			if in.String("deep") != "ON" {
				t.Errorf("%s, lenient %v: the field has gone", name, lenient)
			}
			if lenient {
				if !slices.Equal(o.Warnings(), []string{tc.text}) || o.Err() != nil {
					t.Errorf("%s, lenient: warnings %q, %v; want %q", name, o.Warnings(), o.Err(), tc.text)
				}
				continue
			}
			var e *Error
			if !errors.As(o.Err(), &e) || e.Error() != tc.text || e.OnlyUnknown() != tc.onlyUnknown || len(o.Warnings()) > 0 {
				t.Errorf("%s, strict: warnings %q, %v; want %q", name, o.Warnings(), o.Err(), tc.text)
			}
		}
	}
}

// An object that is read leniently has at most MaxProblems warnings, however long it is. Its known
// keys count, and a wrong value of one refuses the object.
func TestWarningsAreBounded(t *testing.T) {
	for name, element := range map[string]string{"unknown keys": `"x%d":1,`, "a repeated key": `"vlan":%d,`} {
		var elements strings.Builder
		for i := range MaxProblems * 50 {
			fmt.Fprintf(&elements, element, i)
		}
		vlan, deep, warnings, err := readLeniently(`{` + elements.String() + `"vlan":5,"in":{"Deep":"x"}}`)
		if vlan != 5 || deep != "x" || len(warnings) != MaxProblems || err != nil {
			t.Errorf("%s: vlan %d, deep %q, %d warnings, %v", name, vlan, deep, len(warnings), err)
		}
		_, _, _, err = readLeniently(`{` + elements.String() + `"vlan":"five"}`)
		if err == nil || !strings.Contains(err.Error(), "vlan five: want a whole number") {
			t.Errorf("%s, and a wrong value: %v", name, err)
		}
	}
}

// ParseLenient reads an object whose keys differ in more than their case as encoding/json does.
// Each warning is short and printable.
func FuzzLenient(f *testing.F) {
	f.Add(`{"VLAN":5,"in":{"deep":"x","y":1}}`)
	f.Add(`{"vlan":5,"vlan":null}`)
	f.Add(`{"\u017fIN":{},"in":{},"vlan":1e2}`)
	f.Add("{\"\\u001b[2J\":1}")
	f.Fuzz(func(t *testing.T, raw string) {
		vlan, deep, warnings, err := readLeniently(raw)
		if len(warnings) > MaxProblems {
			t.Errorf("%d warnings", len(warnings))
		}
		for _, w := range warnings {
			if w == "" || len(w) > longestProblem || excerpt.Clean(w) != w {
				t.Errorf("%q", w)
			}
		}
		var there struct {
			VLAN uint32                `json:"vlan"`
			In   struct{ Deep string } `json:"in"`
		}
		var keys map[string]json.RawMessage
		if err != nil || json.Unmarshal([]byte(raw), &keys) != nil || json.Unmarshal([]byte(raw), &there) != nil {
			return
		}
		if slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "given ") }) {
			return // the order in which Multus writes keys counts
		}
		if got := []any{vlan, deep}; !reflect.DeepEqual(got, []any{there.VLAN, there.In.Deep}) {
			t.Errorf("%q: read %v, encoding/json reads %d %q", raw, got, there.VLAN, there.In.Deep)
		}
	})
}

// libcni takes disableCheck as a text in any case, too. Another text is a problem.
func TestBoolText(t *testing.T) {
	for raw, want := range map[string]struct {
		is  bool
		err string
	}{
		`{}`:             {false, ""},
		`{"on":true}`:    {true, ""},
		`{"on":"True"}`:  {true, ""},
		`{"on":"FALSE"}`: {false, ""},
		`{"on":"yes"}`:   {false, "on yes: want true or false"},
		`{"on":7}`:       {false, "on 7: want true or false, without quotes"},
	} {
		o, err := ParseLenient([]byte(raw), "")
		if err != nil {
			t.Fatal(err)
		}
		is, said := o.BoolText("on"), ""
		if err := o.Err(); err != nil {
			said = err.Error()
		}
		if is != want.is || said != want.err {
			t.Errorf("%s: %t, %q; want %t, %q", raw, is, said, want.is, want.err)
		}
	}
}

// A reader finds a key in another case before it knows all keys. An object that is not there has none.
func TestFoldKnown(t *testing.T) {
	o, err := ParseLenient([]byte(`{"CNIVersion":"1.0.0"}`), "")
	if err != nil {
		t.Fatal(err)
	}
	o.FoldKnown("cniVersion")
	if got := o.String("cniVersion"); got != "1.0.0" {
		t.Errorf("got %q", got)
	}
	o.Object("none").FoldKnown("a")
}
