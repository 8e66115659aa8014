package offer

import (
	"encoding/json"
	"fmt"
)

// Value is the value of an attribute: a text, a number or a bool. Its JSON is that of a DeviceAttribute
// (k8s.io/api/resource/v1).
type Value struct {
	kind   kind
	text   string
	number int64
}

type kind uint8

const (
	isText kind = iota + 1
	isNumber
	isBool
)

// Text returns a text as a Value.
func Text(s string) Value { return Value{kind: isText, text: s} }

func numberOf[T int | int64](n T) Value { return Value{kind: isNumber, number: int64(n)} }

func boolOf(b bool) Value {
	v := Value{kind: isBool}
	if b {
		v.number = 1
	}
	return v
}

// MarshalJSON writes {"string": "..."}, {"int": 1} or {"bool": true}; the zero Value is an error.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.kind {
	case isText:
		text, err := json.Marshal(v.text)
		return fmt.Appendf(nil, `{"string":%s}`, text), err
	case isNumber:
		return fmt.Appendf(nil, `{"int":%d}`, v.number), nil
	case isBool:
		return fmt.Appendf(nil, `{"bool":%t}`, v.number == 1), nil
	}
	return nil, fmt.Errorf("an attribute has no value")
}
