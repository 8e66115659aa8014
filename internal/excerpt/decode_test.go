package excerpt

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

// The message names the key and says how the value is written, without types of Go.
func TestDecodeJSON(t *testing.T) {
	type selector struct {
		Vendor  string   `json:"vendor"`
		Devices []string `json:"devices"`
	}
	type spec struct {
		NIC     selector   `json:"nicSelector"`
		All     []selector `json:"selectors"`
		VFs     *int32     `json:"numVfs"`
		RDMA    bool       `json:"isRdma"`
		Percent float64    `json:"percent"`
	}
	for text, want := range map[string]string{
		`{"nicSelector": {"vendor": 8086}}`:                                                     `nicSelector.vendor is a number: write it as a text, in quotes, such as "8086"`,
		`{"nicSelector": {"vendor": 8086 , "devices": [1572, "a", -1.5e+3]}, "numVfs": "many"}`: `nicSelector.vendor is a number: write it as a text, in quotes, such as "8086"; nicSelector.devices is a number: write it as a text, in quotes, such as "8086"; nicSelector.devices is a number: write it as a text, in quotes, such as "8086"; numVfs is a text: write a whole number, without quotes`,
		`{"nicSelector": {"vendor": 1e10}}`:                                                     `nicSelector.vendor is a number: write it as a text, in quotes, such as "8086"`,
		`{"nicSelector": {"devices": ["154c", 1572]}}`:                                          `nicSelector.devices is a number: write it as a text, in quotes, such as "8086"`,
		`{"selectors": [{"vendor": "8086"}, {"vendor": false}]}`:                                `selectors.vendor is true or false: write it as a text, in quotes, such as "8086"`,
		`{"nicSelector": {"devices": "154c"}}`:                                                  "nicSelector.devices is a text: write a list",
		`{"nicSelector": ["a"]}`:                                                                "nicSelector is a list: write a map",
		`{"numVfs": "8"}`:                                                                       "numVfs is a text: write a whole number, without quotes",
		`{"numVfs": 1.5}`:                                                                       "numVfs is a number: write a whole number, without quotes",
		`{"isRdma": "true"}`:                                                                    "isRdma is a text: write true or false, without quotes",
		`{"percent": {}}`:                                                                       "percent is a map: write a number, without quotes",
		`[]`:                                                                                    "the value is a list: write a map",
		`{`:                                                                                     "unexpected end of JSON input",
	} {
		err := DecodeJSON([]byte(text), func(text []byte) error { return json.Unmarshal(text, new(spec)) })
		if err == nil || Error(err) != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if err := DecodeJSON([]byte("{}"), func(text []byte) error { return json.Unmarshal(text, new(spec)) }); err != nil {
		t.Error(err)
	}
	other := errors.New("x")
	if err := DecodeJSON(nil, func([]byte) error { return other }); !errors.Is(err, other) {
		t.Error("another error is lost")
	}
}

// A decoder that wants no number anywhere ends.
func TestDecodeJSONEnds(t *testing.T) {
	calls := 0
	err := DecodeJSON([]byte("7"), func([]byte) error {
		calls++
		return &json.UnmarshalTypeError{Value: "number", Type: reflect.TypeFor[string](), Offset: 1}
	})
	if err == nil || calls > mostMistakes {
		t.Errorf("%d calls, %v", calls, err)
	}
}
