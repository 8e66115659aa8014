// Package exactjson decodes what one program of Culvert wrote for another. It refuses fields that
// this version does not know. A newer program wrote such a field, and an older one that drops it
// would do something else than it was asked. Package strictjson reads what people write.
package exactjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Unknown is the error for a field that the wanted type does not have.
type Unknown struct{ Field string }

func (u Unknown) Error() string {
	return fmt.Sprintf("it has the field %.100q, which this version of Culvert does not know", u.Field)
}

// Decode decodes one JSON value into v. The error is Unknown if all is well but for a field that v
// does not have. Types that decode themselves decide about their own fields.
func Decode(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if field, is := unknownField(err); is {
		return Unknown{field}
	}
	if err == nil {
		_, err = d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
	if errors.As(err, new(*json.UnmarshalTypeError)) {
		return err
	}
	return cmp.Or(json.Unmarshal(raw, v), err) // which says of an incomplete value, or of two, what is wrong
}

// DecodeSpec decodes the spec of an object of the cluster. The rest of the object may have any
// fields. An object without a spec leaves it as it is.
func DecodeSpec(object []byte, spec any) error {
	var whole struct{ Spec json.RawMessage }
	if err := json.Unmarshal(object, &whole); err != nil || whole.Spec == nil {
		return err
	}
	return Decode(whole.Spec, spec)
}

// unknownField returns the field that an error of encoding/json names. The library has no type for
// that error.
func unknownField(err error) (field string, is bool) {
	if err == nil {
		return "", false
	}
	quoted, is := strings.CutPrefix(err.Error(), "json: unknown field ")
	if !is {
		return "", false
	}
	field, err = strconv.Unquote(quoted)
	return field, err == nil
}
