package migrate

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/suggest"
)

// checkFields notes the fields of spec that are mistakes, or have a value and no equivalent. It
// reports whether the rest of the object means the same without them. A policy without one of its
// selectors would take more NICs or nodes, and a network without its VLAN would be another network.
func (c *converter) checkFields(o Object) (ok bool) {
	known := fieldsOf(o.Kind)
	if len(known) == 0 || o.Kind == KindConfigMap || o.Kind == KindIBNetwork || o.Kind == KindOVSNetwork {
		return true
	}
	strict := o.Kind == KindPolicy || o.Kind == KindNetwork
	ok = true
	refuse := func(path, why string) {
		field := "spec." + path
		if !slices.ContainsFunc(c.Notes, func(n Note) bool { return n.Object == o.String() && n.Field == field }) {
			c.lose(o, field, "not converted: %s", why)
		}
		ok = false
	}
	for _, path := range leaves("", o.Spec) {
		value := valueAt(o.Spec, path)
		f, isKnown := fieldAt(known, path)
		if isKnown && f.Outcome == Setting {
			value = valueAt(o.Spec, f.Path) // a label without a value is a label
		}
		at, mistake := "", ""
		if isKnown && strict {
			at, mistake = f.typeMistake(path, value, nodeAt(o.Source, "spec."+path))
		}
		switch {
		case value == nil:
		case mistake != "":
			refuse(at, mistake)
		case isEmpty(value) && len(keysBelow(known, path+".")) > 0: // an empty nicSelector
		case !isKnown && strict:
			refuse(describeUnknown(known, o.Spec, path))
		case isEmpty(value) && (!isMap(value) || path == f.Path):
		case !isKnown:
			where, why := describeUnknown(known, o.Spec, path)
			c.lose(o, "spec."+where, "no equivalent: %s", why)
		case f.isHarmless(value) && !isMap(value):
		case f.Outcome == Refused:
			refuse(path, f.Why)
		case f.Outcome == Lost:
			c.lose(o, "spec."+path, "no equivalent: %s", f.Why)
		case f.Outcome == Setting && f.To != drainNodes:
			c.lose(o, "spec."+f.Path, "set %s of Culvert's chart: %s", f.To, f.Why)
		}
	}
	return ok
}

// describeUnknown returns the first part of a path that no field has, and what is wrong with it.
func describeUnknown(known []Field, values map[string]any, path string) (where, why string) {
	level := ""
	for {
		key := keyOf(values, strings.TrimPrefix(path, level))
		rest, more := strings.CutPrefix(strings.TrimPrefix(path, level+key), ".")
		below := keysBelow(known, level+key+".")
		switch {
		case len(below) > 0 && more && rest != "":
			level += key + "."
			values, _ = values[key].(map[string]any)
			continue
		case len(below) > 0:
			return level + key, "want a map with " + strings.Join(below, ", ")
		}
		why = "unknown field"
		if strings.Contains(key, "/") {
			return level + key, why + ": it looks like a label of nodes: write it below nodeSelector, indented by two spaces more"
		}
		if near := suggest.DidYouMean(key, keysBelow(known, level)); near != "" {
			return level + key, why + near
		}
		for _, f := range known {
			_, name, _ := strings.Cut(f.Path, ".")
			if suggest.Nearest(key, []string{name}) != "" {
				return level + key, why + ": did you mean " + f.Path + "?"
			}
		}
		return level + key, why + ": known are " + strings.Join(keysBelow(known, level), ", ")
	}
}

// keyOf returns the key of a map with which a path begins. Keys may have dots.
func keyOf(values map[string]any, path string) string {
	for key := range values {
		if _, below := strings.CutPrefix(path, key+"."); below || path == key {
			return key
		}
	}
	key, _, _ := strings.Cut(path, ".")
	return key
}

// keysBelow returns the keys that follow a prefix of the paths of fields.
func keysBelow(known []Field, prefix string) (out []string) {
	for _, f := range known {
		rest, ok := strings.CutPrefix(f.Path, prefix)
		key, _, _ := strings.Cut(rest, ".")
		if ok && key != "" && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}

// typeMistake describes a value that is of another type than the field's, with its path and how to write
// it; "" for a right one. The values below a field that becomes something are texts. n is the value as a
// person wrote it, if known.
func (f Field) typeMistake(path string, value any, n *yaml.Node) (at, why string) {
	_, wantMap := f.Example.(object)
	switch {
	case path == f.Path:
		return path, describeTypeMistake(f.Example, value, n)
	case wantMap && f.Outcome == Becomes:
		return path, describeTypeMistake("text", value, n)
	case wantMap:
		return path, ""
	}
	return f.Path, describeTypeMistake(f.Example, object{}, nil)
}

// nodeAt returns the value of a path of keys in an object as a person wrote it; nil if there is none.
func nodeAt(n *yaml.Node, path string) *yaml.Node {
	if n == nil || path == "" {
		return n
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		rest, below := strings.CutPrefix(path, key+".")
		if path == key {
			return n.Content[i+1]
		}
		if found := nodeAt(n.Content[i+1], rest); below && found != nil {
			return found
		}
	}
	return nil
}

// describeTypeMistake describes the difference between the type of a value and that of an example.
func describeTypeMistake(example, value any, n *yaml.Node) string {
	switch example := example.(type) {
	case string:
		if _, ok := value.(string); ok {
			return ""
		}
		if n != nil && n.Kind == yaml.ScalarNode && n.Value != "" { // 0158 and 15e3 are numbers for YAML
			return fmt.Sprintf("it is %s, want a text: write it in quotes: %s", describeType(value), excerpt.Quote(n.Value))
		}
		return fmt.Sprintf("it is %s, want a text: write it in quotes, such as %q", describeType(value), example)
	case bool:
		if _, ok := value.(bool); !ok {
			return fmt.Sprintf("it is %s, want true or false without quotes", describeType(value))
		}
	case int:
		if describeType(value) != aNumber {
			return fmt.Sprintf("it is %s, want a number without quotes, such as %d", describeType(value), example)
		}
	case items:
		all, ok := value.([]any)
		if text, isText := value.(string); isText {
			return fmt.Sprintf("it is the text %s, want a list: [%s]", excerpt.Quote(text), excerpt.Quote(text))
		}
		if !ok {
			return fmt.Sprintf("it is %s, want a list, such as [%q]", describeType(value), example[0])
		}
		for i, one := range all {
			var written *yaml.Node
			if n != nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
				written = n.Content[i]
			}
			if why := describeTypeMistake(example[0], one, written); why != "" {
				return fmt.Sprintf("element %d: %s", i, why)
			}
		}
	case object:
		if _, ok := value.(map[string]any); !ok {
			return fmt.Sprintf("it is %s, want a map", describeType(value))
		}
	}
	return ""
}

func isMap(value any) bool {
	_, ok := value.(map[string]any)
	return ok
}

const aNumber = "a number"

// describeType names the type of a value as people write it, with the value if that is short.
func describeType(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case string:
		return "the text " + excerpt.Quote(v)
	case bool:
		return fmt.Sprintf("the value %t", v)
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	}
	return aNumber
}
