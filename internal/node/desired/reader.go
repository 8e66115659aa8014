package desired

import (
	"errors"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/strictyaml"
	"github.com/culvert-net/culvert/internal/vf"
)

// Error is one thing that is wrong with a file. It wraps vf.ErrInvalid.
type Error strictyaml.Mistake

func (e Error) Error() string {
	s := e.File
	if e.Line > 0 {
		s += ":" + strconv.Itoa(e.Line)
	}
	if e.Path != "" {
		s += ": " + e.Path
		if strings.HasPrefix(e.Text, `"`) {
			return s + " " + e.Text
		}
	}
	return s + ": " + e.Text
}

// Unwrap returns vf.ErrInvalid.
func (e Error) Unwrap() error { return vf.ErrInvalid }

// reader reads the values of the files. Values of a NodePolicy have the line 0, and messages name
// their paths in its place.
type reader struct{ strictyaml.Reader }

// at is one value of a file.
type at = strictyaml.Value

// foreign has keys of other tools, with the advice for each.
var foreign = map[string]string{
	"resourceList":   "write pools",
	"resourceName":   "write name",
	"resourcePrefix": "write prefix",
	"numVfs":         "write vfs",
	"nicSelector":    "write name, mac, pciAddress, vendor, device or driver beside vfs",
}

func newReader(file string) *reader {
	return &reader{strictyaml.Reader{File: file, Foreign: foreign}}
}

// newLenientReader returns a reader of a file of the SR-IOV device plugin, whose first form had the
// selectors beside the name of a pool.
func newLenientReader(file string) *reader {
	misplaced := map[string]string{}
	for _, key := range selectorKeys {
		misplaced[key] = "write it below selectors"
	}
	return &reader{strictyaml.Reader{File: file, Lenient: true, Foreign: misplaced}}
}

// errorsOf returns mistakes as errors of this package.
func errorsOf(mistakes []strictyaml.Mistake) (all []Error) {
	for _, m := range mistakes {
		all = append(all, Error(m))
	}
	return all
}

// joinErrors joins the errors in the order of their lines.
func (r *reader) joinErrors() error {
	var all []error
	for _, m := range r.Sorted() {
		all = append(all, Error(m))
	}
	return errors.Join(all...)
}

// parseScalar reads a scalar of the given form.
func parseScalar[T any](r *reader, v at, f form[T]) T {
	var none T
	s, ok := r.ReadText(v, f.want)
	if !ok {
		return none
	}
	value, err := f.parse(s)
	if err != nil {
		r.Reject(v, f.want)
		return none
	}
	return value
}

// readList reads a list of scalars; a single one stands for a list of one.
func readList[T any](r *reader, v at, f form[T]) []T {
	var all []T
	for _, item := range r.ReadItemsOrOne(v, "a list of "+f.want) {
		all = append(all, parseScalar(r, item, f))
	}
	return all
}
