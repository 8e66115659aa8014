package desired

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/vf"
)

// Policy is a NodePolicy that selects this node.
type Policy struct {
	Name     string
	Priority int32
	Spec     Spec
}

// FromPolicy reads the spec of a NodePolicy: a v1alpha1.NodePolicySpec, or its JSON as a
// json.RawMessage. The parser of host.yaml reads its JSON, so this package needs no package of
// Kubernetes. Errors are those of Parse and name the field in place of the line: "NodePolicy a:
// pools[0].name ...".
func FromPolicy(name string, spec any) (Spec, error) {
	r := newReader("NodePolicy " + name)
	fields, err := jsonFields(spec)
	if err != nil {
		return Spec{}, Error{File: r.File, Text: "its spec is no JSON object: " + excerpt.Error(err)}
	}
	for _, key := range []string{"nodeSelector", "priority", "maintenance"} { // the cluster's part of the spec
		delete(fields, key)
	}
	return r.readRoot(nodeOf(fields))
}

// jsonFields returns the fields of a value's JSON, which is an object.
func jsonFields(value any) (fields map[string]any, err error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("write it: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // which keeps the digits as they are written
	if err := d.Decode(&fields); err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	return fields, nil
}

// nodeOf returns a decoded JSON value as the reader takes it. Its nodes have no lines. The YAML
// parser would refuse some JSON, such as long keys and some control characters.
func nodeOf(value any) *yaml.Node {
	switch v := value.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, nodeOf(key), nodeOf(v[key]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range v {
			n.Content = append(n.Content, nodeOf(item))
		}
		return n
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(value)}
}

// Contested is a PF about which policies contradict each other. culvertd keeps the earlier wanted
// state, or leaves the PF alone.
type Contested struct {
	PCI vf.PCIAddr
	// Keep is the earlier wanted state of the PF; the zero value leaves the PF alone.
	Keep PFSpec
}
