package strictjson

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/excerpt"
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

// Of an object whose keys differ in more than their case, what is read is what
// encoding/json reads, and each warning is short and printable.
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
