package exactjson

import (
	"errors"
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	type inner struct {
		A int `json:"a"`
	}
	for raw, want := range map[string]string{
		`{"a": 1}`:             "",
		` {"a": 1} ` + "\n":    "",
		`{"a": 1, "b\n": [2]}`: `it has the field "b\n", which this version of Culvert does not know`,
		`{"a": 1} {}`:          "after top-level value",
		`{"a": 1}}`:            "after top-level value",
		`{"a": "x"}`:           "cannot unmarshal string",
		`{"a": 1`:              "unexpected end of JSON input",
		``:                     "unexpected end of JSON input",
		`{"` + strings.Repeat("x", 999) + `": 1}`: `it has the field "` + strings.Repeat("x", 100) + `", which`,
	} {
		var v inner
		err := Decode([]byte(raw), &v)
		var unknown Unknown
		switch {
		case want == "" && (err != nil || v.A != 1):
			t.Errorf("%s: %+v, %v", raw, v, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%.50s: got %v, want %s", raw, err, want)
		case errors.As(err, &unknown) != strings.Contains(want, "it has the field"):
			t.Errorf("%.50s: %T", raw, err)
		}
	}
	var spec inner
	if err := DecodeSpec([]byte(`{"kind": "K", "spec": {"a": 1, "frob": 2}}`), &spec); !errors.Is(err, Unknown{"frob"}) {
		t.Error(err)
	}
	if err := DecodeSpec([]byte(`{"kind": "K"}`), &spec); err != nil {
		t.Error(err)
	}
	// A field is not known at any depth.
	var list []struct{ In inner }
	if err := Decode([]byte(`[{"In": {"a": 1}}, {"In": {"frob": 1}}]`), &list); !errors.Is(err, Unknown{"frob"}) {
		t.Error(err)
	}
}
