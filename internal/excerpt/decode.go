package excerpt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// mostMistakes is how many values DecodeJSON names.
const mostMistakes = 8

// DecodeJSON calls decode, which reads a JSON text by encoding/json. It returns errors about the
// kinds of values in words of the file: the key, the kind that its value has, and the wanted kind. A
// person who left out quotes, as in vendor: 8086, then reads all such keys, and no type of Go. Other
// errors stay as they are.
func DecodeJSON(text []byte, decode func(text []byte) error) error {
	var all []error
	for len(all) < mostMistakes {
		err := decode(text)
		var mistake *json.UnmarshalTypeError
		if !errors.As(err, &mistake) {
			if err != nil || len(all) == 0 {
				all = append(all, err)
			}
			break
		}
		all = append(all, describeMistake(mistake))
		if !strings.HasPrefix(mistake.Value, "number") {
			break
		}
		text = withoutNumber(text, int(mistake.Offset))
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.New(Error(errors.Join(all...)))
}

// withoutNumber returns a text with null in place of the number that ends at a place.
func withoutNumber(text []byte, end int) []byte {
	end = min(max(end, 0), len(text))
	return slices.Concat(bytes.TrimRight(text[:end], "+-.0123456789eE"), []byte("null"), text[end:])
}

func describeMistake(m *json.UnmarshalTypeError) error {
	key := m.Field
	if key == "" {
		key = "the value"
	}
	return fmt.Errorf("%s is %s: %s", Line(key), describeKind(m.Value), describeWanted(m.Type))
}

// describeKind describes a JSON value as encoding/json names it, such as "number 1.5".
func describeKind(value string) string {
	switch value {
	case "array":
		return "a list"
	case "object":
		return "a map"
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	}
	return "a number"
}

// describeWanted says how a value of a type is written.
func describeWanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return `write it as a text, in quotes, such as "8086"`
	case reflect.Bool:
		return "write true or false, without quotes"
	case reflect.Slice, reflect.Array:
		return "write a list"
	case reflect.Map, reflect.Struct:
		return "write a map"
	case reflect.Float32, reflect.Float64:
		return "write a number, without quotes"
	}
	return "write a whole number, without quotes"
}
