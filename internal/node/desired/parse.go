package desired

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/strictyaml"
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
	return (newReader(file)).readRoot(root)
}

func (r *reader) readRoot(root *yaml.Node) (Spec, error) {
	spec := r.readSpec(at{Node: root})
	if len(r.Mistakes) > 0 {
		return Spec{}, r.joinErrors()
	}
	return spec, nil
}

// readDocument returns the one document of a YAML text, nil when it is empty.
func readDocument(file string, content []byte) (*yaml.Node, error) {
	root, err := strictyaml.ReadDocument(file, content)
	var m strictyaml.Mistake
	switch {
	case err == nil:
		return root, nil
	case errors.As(err, &m):
		return nil, Error(m)
	}
	return nil, locateSyntax(file, err)
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?:yaml: )?(.*)$`)

// locateSyntax moves the line number from the text of a YAML error to Error's own field.
func locateSyntax(file string, err error) error {
	e := Error{File: file, Text: err.Error()}
	if m := yamlError.FindStringSubmatch(e.Text); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Text = "not YAML: " + strictyaml.NameKey(m[2]) + ": " + strictyaml.SyntaxAdvice
		return e
	}
	e.Text = strictyaml.NameKey(e.Text)
	return e
}

func (r *reader) readSpec(v at) Spec {
	var s Spec
	fields, ok := r.ReadFields(v, "pfs", "pools")
	if !ok {
		return s
	}
	if f, ok := fields["pfs"]; ok {
		for _, item := range r.ReadItems(f, "a list of PFs, such as [{name: enp1s0f0, vfs: 4}]") {
			s.PFs = append(s.PFs, r.readPF(item))
		}
	}
	if f, ok := fields["pools"]; ok {
		items := r.ReadItems(f, "a list of pools, such as [{name: fast, selectors: {pfNames: [enp1s0f0]}}]")
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
		return r.File + ", " + v.Path
	}
	return fmt.Sprintf("%s:%d", r.File, v.Line)
}
