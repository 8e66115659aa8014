package migrate

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Options of Convert.
type Options struct {
	// ResourcePrefix is that of all resources. Empty takes the defaults of the operator and the
	// device plugin: openshift.io and intel.com.
	ResourcePrefix string
}

// operatorPrefix is the operator's default prefix of resources.
const operatorPrefix = "openshift.io"

func (o Options) operatorPrefix() string {
	if o.ResourcePrefix != "" {
		return o.ResourcePrefix
	}
	return operatorPrefix
}

// Result is the outcome of Convert.
type Result struct {
	// Manifests are to be applied, in this order.
	Manifests []Manifest `json:"manifests"`
	// Notes explain what Convert made of objects and fields, if that needs an explanation.
	Notes []Note `json:"notes"`
}

// Note is about an object, or a field of it.
type Note struct {
	Object string `json:"object"`
	Field  string `json:"field,omitempty"`
	Text   string `json:"text"`
	// Lost is true where something of the object has no equivalent.
	Lost bool `json:"lost"`
}

func (n Note) String() string {
	s := n.Object
	if n.Field != "" {
		s += ": " + n.Field
	}
	return s + ": " + n.Text
}

// HasLoss reports whether something has no equivalent.
func (r Result) HasLoss() bool {
	return slices.ContainsFunc(r.Notes, func(n Note) bool { return n.Lost })
}

// Manifest is an object to apply.
type Manifest struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       any      `json:"spec"`
}

// Metadata of a Manifest.
type Metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// String is kind namespace/name.
func (m Manifest) String() string {
	return Object{Kind: m.Kind, Namespace: m.Metadata.Namespace, Name: m.Metadata.Name}.String()
}

// orderWarning warns people against deleting the operator's objects first.
const orderWarning = "stop the operator and its config daemon before you delete its objects: a running operator deletes the " +
	"NetworkAttachmentDefinition of a SriovNetwork that is deleted, and resets the PFs of a SriovNetworkNodePolicy that is"

// AnnotationFrom, on what Convert makes, names the objects that it was made of.
const AnnotationFrom = "culvert.dev/converted-from"

// converter collects a Result.
type converter struct {
	Result
	options Options
}

func (c *converter) note(o Object, field, format string, args ...any) {
	c.Notes = append(c.Notes, Note{Object: o.String(), Field: field, Text: fmt.Sprintf(format, args...)})
}

func (c *converter) lose(o Object, field, format string, args ...any) {
	c.note(o, field, format, args...)
	c.Notes[len(c.Notes)-1].Lost = true
}

// Convert makes NodePolicies and NetworkAttachmentDefinitions of the operator's objects, and of the
// device plugin's configurations in ConfigMaps and in objects of NVIDIA's network operator. Every field with a value is converted, or a note says why it
// has no equivalent. Other objects, and those with Err, get a note and are left out.
func Convert(objects []Object, options Options) Result {
	c := &converter{options: options}
	var policies []policy
	var networks []Object // after the policies
	last := lastOfName(objects)
	for i, o := range objects {
		if o.Err != nil {
			c.lose(o, "", "not converted: %v", o.Err)
			continue
		}
		if later := last[o.String()]; o.From != "" && later > i {
			c.lose(o, "", "not converted: it has the name of the object at %s, which replaces it in a cluster: give one of them another name", objects[later].From)
			continue
		}
		means := c.checkFields(o)
		switch o.Kind {
		case KindPolicy:
			if means {
				policies = append(policies, c.policy(o)...)
			}
		case KindConfigMap:
			c.configMap(o)
		case kindNICCluster, kindNICNode:
			c.nicPolicy(o)
		case KindIBNetwork:
			c.lose(o, "", "not converted: %s", infiniband)
		case KindOVSNetwork:
			c.lose(o, "", "not converted: %s", switchdev)
		case KindPoolConfig:
			c.reportDrains(o)
			c.note(o, "", "not converted: Culvert's chart has the number of nodes on which the controller evicts pods at a time")
		case KindOperator:
			c.reportDrains(o)
			c.note(o, "", "not converted: it configures the operator's own programs, which go")
		case KindNetwork:
			if means {
				networks = append(networks, o)
			}
		default:
			c.note(o, "", "not converted: it is neither an object of the SR-IOV operator that says what is wanted nor a ConfigMap of the device plugin")
		}
	}
	c.nodePolicies(policies)
	for _, o := range networks {
		c.network(o)
	}
	if len(policies)+len(networks) > 0 {
		c.Notes = append(c.Notes, Note{Object: "order", Text: orderWarning})
	}
	return c.Result
}

// lastOfName returns the index of the last object of each kind, namespace and name in files.
func lastOfName(objects []Object) map[string]int {
	out := map[string]int{}
	for i, o := range objects {
		if o.From != "" && o.Name != "" {
			out[o.String()] = i
		}
	}
	return out
}

func fieldsOf(kind string) []Field {
	var out []Field
	for _, f := range fields {
		if f.Kind == kind {
			out = append(out, f)
		}
	}
	return out
}

// fieldAt finds the field that a path is of, or below.
func fieldAt(known []Field, path string) (Field, bool) {
	for _, f := range known {
		if path == f.Path || strings.HasPrefix(path, f.Path+".") {
			return f, true
		}
	}
	return Field{}, false
}

// isHarmless reports whether a value asks for nothing.
func (f Field) isHarmless(value any) bool {
	return isEmpty(value) || slices.Contains(f.Harmless, fmt.Sprint(value))
}

func isEmpty(value any) bool {
	v := reflect.ValueOf(value)
	switch {
	case !v.IsValid():
		return true
	case v.Kind() == reflect.Map || v.Kind() == reflect.Slice:
		return v.Len() == 0
	}
	return v.IsZero()
}

// leaves returns the paths of all values below a map, in order.
func leaves(prefix string, values map[string]any) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		path := strings.TrimPrefix(prefix+"."+key, ".")
		if below, ok := values[key].(map[string]any); ok && len(below) > 0 {
			out = append(out, leaves(path, below)...)
			continue
		}
		out = append(out, path)
	}
	return out
}

// valueAt returns the value of a path that leaves returned. Keys may have dots.
func valueAt(values map[string]any, path string) any {
	for key, value := range values {
		if key == path {
			return value
		}
		rest, ok := strings.CutPrefix(path, key+".")
		if below, isMap := value.(map[string]any); ok && isMap {
			if v := valueAt(below, rest); v != nil {
				return v
			}
		}
	}
	return nil
}
