package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/excerpt"
	"github.com/culvert-net/culvert/vf"
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
}

// String is kind namespace/name.
func (o Object) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return o.Kind + " " + name
}

// Read reads the objects of a file: documents of YAML or JSON, and the items of lists. An error
// wraps vf.ErrInvalid and names the file and the line.
func Read(file string, text []byte) ([]Object, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: %w: it has %d bytes; want at most %d", file, vf.ErrInvalid, len(text), maxFile)
	}
	var out []Object
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %s", file, vf.ErrInvalid, excerpt.Error(err))
		}
		objects, err := objectsOf(file, &doc)
		if err != nil {
			return nil, err
		}
		out = append(out, objects...)
	}
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

// objectsOf returns the object of a document, or those of a list.
func objectsOf(file string, doc *yaml.Node) ([]Object, error) {
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		doc = doc.Content[0]
	}
	if doc.Kind == 0 || doc.Tag == "!!null" {
		return nil, nil
	}
	from := fmt.Sprintf("%s:%d", file, doc.Line)
	var h head
	if err := doc.Decode(&h); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", from, vf.ErrInvalid, excerpt.Error(err))
	}
	if strings.HasSuffix(h.Kind, "List") && h.Items != nil {
		var out []Object
		for i := range h.Items {
			objects, err := objectsOf(file, &h.Items[i])
			if err != nil {
				return nil, err
			}
			out = append(out, objects...)
		}
		return out, nil
	}
	if h.Kind == "" {
		return nil, fmt.Errorf("%s: %w: kind is missing: want objects of Kubernetes", from, vf.ErrInvalid)
	}
	o := h.object()
	o.From = from
	return []Object{o}, nil
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
		return Object{}, fmt.Errorf("%s: %w: %s", kind, vf.ErrInvalid, excerpt.Error(err))
	}
	o := h.object()
	o.Kind = kind
	return o, nil
}
