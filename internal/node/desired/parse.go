package desired

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// maxSize bounds what Parse reads; a thousand pools are a tenth of it.
const maxSize = 1 << 20

// Parse reads the text of a host.yaml. file names it in messages. Parse reports all mistakes at
// once, by line, as Errors joined with errors.Join; each wraps vf.ErrInvalid. An empty text is the
// zero Spec.
func Parse(file string, content []byte) (Spec, error) {
	if len(content) > maxSize {
		return Spec{}, Error{File: file, Text: fmt.Sprintf("%d bytes are too many: at most %d are read", len(content), maxSize)}
	}
	root, err := readDocument(file, content)
	if err != nil || root == nil {
		return Spec{}, err
	}
	return (&reader{file: file}).readRoot(root)
}

func (r *reader) readRoot(root *yaml.Node) (Spec, error) {
	spec := r.readSpec(at{Node: root})
	if len(r.errs) > 0 {
		return Spec{}, r.joinErrors()
	}
	return spec, nil
}

// maxErrors bounds the errors that a person is shown; a file with more is the wrong file.
const maxErrors = 50

// joinErrors joins the errors in the order of their lines.
func (r *reader) joinErrors() error {
	slices.SortStableFunc(r.errs, func(a, b error) int {
		var x, y Error
		errors.As(a, &x)
		errors.As(b, &y)
		return cmp.Compare(x.Line, y.Line)
	})
	if more := len(r.errs) - maxErrors; more > 0 {
		r.errs = append(r.errs[:maxErrors], Error{File: r.file, Text: fmt.Sprintf("and %d more", more)})
	}
	return errors.Join(r.errs...)
}

// readDocument returns the one document of a YAML text, nil when it is empty.
func readDocument(file string, content []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(content))
	var doc, next yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, locateSyntax(file, err)
	}
	switch err := dec.Decode(&next); {
	case err == nil:
		return nil, Error{File: file, Line: next.Line, Text: "a second document: want one only, remove what follows ---"}
	case !errors.Is(err, io.EOF):
		return nil, locateSyntax(file, err)
	}
	if len(doc.Content) == 0 || isNull(at{Node: doc.Content[0]}) {
		return nil, nil
	}
	return doc.Content[0], nil
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?:yaml: )?(.*)$`)

// locateSyntax moves the line number from the text of a YAML error to Error's own field.
func locateSyntax(file string, err error) error {
	e := Error{File: file, Text: err.Error()}
	if m := yamlError.FindStringSubmatch(e.Text); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Text = "not YAML: " + m[2]
	}
	e.Text = keyName(e.Text)
	return e
}

func (r *reader) readSpec(v at) Spec {
	var s Spec
	fields, ok := r.readFields(v, "pfs", "pools")
	if !ok {
		return s
	}
	if f, ok := fields["pfs"]; ok {
		for _, item := range r.readItems(f, "a list of PFs") {
			s.PFs = append(s.PFs, r.readPF(item))
		}
	}
	if f, ok := fields["pools"]; ok {
		items := r.readItems(f, "a list of pools")
		for _, item := range items {
			s.Pools = append(s.Pools, r.readPool(item, hostDialect))
		}
		r.requireDistinct(items, s.Pools)
	}
	return s
}

// locationOf returns the place of v, for messages about it later.
func (r *reader) locationOf(v at) string {
	if v.Line == 0 {
		return r.file + ", " + v.path
	}
	return fmt.Sprintf("%s:%d", r.file, v.Line)
}

// sayPlace returns where a value stands, for messages about another value.
func (r *reader) sayPlace(v at) string {
	if v.Line == 0 {
		return " as " + v.path
	}
	return fmt.Sprintf(" on line %d", v.Line)
}
