package migrate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/strictyaml"
	"github.com/culvert-net/culvert/internal/vf"
)

// maxFile bounds a file in bytes: the objects of a large cluster have some hundred kilobytes.
const maxFile = 16 << 20

// Object is one of the objects to convert, as a person or the API server wrote it.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	Annotations                       map[string]string
	// Spec are the values of spec, and Data the texts of a ConfigMap.
	Spec map[string]any
	Data map[string]string
	// From is the file and the line; empty for an object of a cluster.
	From string
	// Source is the whole object as a person wrote it; nil for an object of a cluster.
	Source *yaml.Node
	// Err is why the object cannot be read; it wraps vf.ErrInvalid. Only ReadAll returns such
	// objects.
	Err error
}

// String is kind namespace/name.
func (o Object) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return strings.TrimSpace(o.Kind + " " + name)
}

// Read reads the objects of a file: documents of YAML or JSON, and the items of lists. An error
// wraps vf.ErrInvalid and names the file and the line.
func Read(file string, text []byte) ([]Object, error) {
	all := ReadAll(file, text)
	for _, o := range all {
		if o.Err != nil {
			return nil, o.Err
		}
	}
	return all, nil
}

// ReadAll reads the objects of a file as Read does. A document or an item that cannot be read is
// an object with Err, and hides no other one.
func ReadAll(file string, text []byte) (out []Object) {
	if len(text) > maxFile {
		return []Object{brokenDocument(file, fmt.Errorf("%s: %w: it has %d bytes; want at most %d", file, vf.ErrInvalid, len(text), maxFile))}
	}
	line := 0
	for part := range splitDocuments(text) {
		out = append(out, readPart(file, part, line)...)
		line += bytes.Count(part, []byte("\n"))
	}
	return out
}

// noKind is the kind of what is no object of Kubernetes.
const noKind = "document"

// HasKind reports whether the object names its kind, so that messages can name the object.
func (o Object) HasKind() bool { return o.Kind != noKind }

func brokenDocument(from string, err error) Object {
	return Object{Kind: noKind, From: from, Err: err}
}

// splitDocuments yields the parts of a file between the lines that begin with ---, each with the
// line before it. Directives and comments stay with the document that follows them. JSON needs no
// line between its documents.
func splitDocuments(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		start, at, hasContent, endsObject := 0, 0, false, false
		for line := range bytes.Lines(text) {
			word := bytes.TrimSpace(line)
			isLine := bytes.HasPrefix(line, []byte("---")) && (len(word) == 3 || bytes.ContainsAny(word[3:4], " \t"))
			if hasContent && (isLine || endsObject && line[0] == '{') {
				if !yield(text[start:at]) {
					return
				}
				start, hasContent = at, false
			}
			hasContent = hasContent || len(word) > 0 && word[0] != '#' && word[0] != '%' && !bytes.Equal(word, []byte("---"))
			if len(word) > 0 {
				endsObject = word[len(word)-1] == '}'
			}
			at += len(line)
		}
		yield(text[start:])
	}
}

// readPart reads documents that begin after a number of lines of the file. It cannot read the
// documents after a syntax error.
func readPart(file string, part []byte, before int) (out []Object) {
	dec := yaml.NewDecoder(bytes.NewReader(part))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			return append(out, brokenDocument(file, fmt.Errorf("%s: %w: neither YAML nor JSON: %s: %s", file, vf.ErrInvalid, addLines(excerpt.Error(err), before), strictyaml.SyntaxAdvice)))
		}
		shiftLines(&doc, before)
		out = append(out, objectsOf(file, &doc)...)
	}
}

// shiftLines adds to the line numbers of a document.
func shiftLines(n *yaml.Node, by int) {
	n.Line += by
	for _, below := range n.Content {
		shiftLines(below, by)
	}
}

// addLines returns a message of package yaml without the package's name, and adds to its line number.
func addLines(message string, by int) string {
	const prefix = "line "
	message = strings.TrimPrefix(message, "yaml: ")
	number, rest, _ := strings.Cut(strings.TrimPrefix(message, prefix), ":")
	line, err := strconv.Atoi(number)
	if err != nil || !strings.HasPrefix(message, prefix) {
		return message
	}
	return fmt.Sprintf("%s%d:%s", prefix, line+by, rest)
}

// head is the part of an object that Read keeps.
type head struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name        string            `yaml:"name"`
		Namespace   string            `yaml:"namespace"`
		Annotations map[string]string `yaml:"annotations"`
	} `yaml:"metadata"`
	Spec  map[string]any    `yaml:"spec"`
	Data  map[string]string `yaml:"data"`
	Items []yaml.Node       `yaml:"items"`
}

// ReadNode reads the object of a document, or those of a list, as ReadAll does.
func ReadNode(file string, doc *yaml.Node) []Object { return objectsOf(file, doc) }

// objectsOf returns the object of a document, or those of a list.
func objectsOf(file string, doc *yaml.Node) (out []Object) {
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		doc = doc.Content[0]
	}
	if doc.Kind == 0 || doc.Tag == "!!null" {
		return nil
	}
	from := fmt.Sprintf("%s:%d", file, doc.Line)
	var h head
	err := doc.Decode(&h)
	if err == nil && strings.HasSuffix(h.Kind, "List") && h.Items != nil {
		for i := range h.Items {
			out = append(out, objectsOf(file, &h.Items[i])...)
		}
		return out
	}
	o := brokenDocument(from, nil)
	o.Source = doc
	switch {
	case h.Kind != "":
		o = h.object()
		o.From, o.Source = from, doc
		if err != nil {
			o.Err = fmt.Errorf("%s: %w: %s", from, vf.ErrInvalid, describeTypes(err))
		}
	case err != nil:
		o.Err = fmt.Errorf("%s: %w: %s", from, vf.ErrInvalid, describeTypes(err))
	default:
		o.Err = fmt.Errorf("%s: %w: kind is missing: want objects of Kubernetes", from, vf.ErrInvalid)
	}
	return []Object{o}
}

// typeMistakes matches a message of package yaml about a value of another type.
var typeMistakes = regexp.MustCompile("cannot unmarshal (!![a-z]+)(?: `([^`]*)`)? into ([^\n]+)")

// describeTypes returns a message of package yaml with the types as people write them.
func describeTypes(err error) string {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return excerpt.Error(err)
	}
	var out []string
	for _, text := range wrong.Errors {
		out = append(out, typeMistakes.ReplaceAllStringFunc(text, func(found string) string {
			parts := typeMistakes.FindStringSubmatch(found)
			value := map[string]string{"!!map": "a map", "!!seq": "a list"}[parts[1]]
			if value == "" {
				value = strconv.Quote(parts[2])
			}
			return value + ": want " + cmp.Or(typeNames[parts[3]], "a map")
		}))
	}
	return excerpt.Line(strings.Join(out, "; "))
}

// typeNames has the types of head and its parts, as people call them. Other ones are maps.
var typeNames = map[string]string{
	"string": "a text: write it in quotes", "map[string]interface {}": "a map", "map[string]string": "a map of texts",
	"[]yaml.Node": "a list", "migrate.head": "an object of Kubernetes",
}

func (h head) object() Object {
	return Object{
		APIVersion: h.APIVersion, Kind: h.Kind, Namespace: h.Metadata.Namespace, Name: h.Metadata.Name,
		Annotations: h.Metadata.Annotations, Spec: h.Spec, Data: h.Data,
	}
}

// Decode reads an object of the API server, whose lists leave the kind out.
func Decode(kind string, raw []byte) (Object, error) {
	var h head
	if err := yaml.Unmarshal(raw, &h); err != nil {
		return Object{}, fmt.Errorf("%s: %w: %s", kind, vf.ErrInvalid, describeTypes(err))
	}
	o := h.object()
	o.Kind = kind
	return o, nil
}
