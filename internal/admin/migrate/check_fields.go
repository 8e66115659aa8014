package migrate

import (
	"fmt"
	"slices"
	"strings"

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
		switch {
		case value == nil:
		case isKnown && strict && f.typeMistake(path, value) != "":
			refuse(path, f.typeMistake(path, value))
		case isEmpty(value):
		case !isKnown && strict:
			refuse(describeUnknown(known, path))
		case !isKnown:
			where, why := describeUnknown(known, path)
			c.lose(o, "spec."+where, "no equivalent: %s", why)
		case f.isHarmless(value):
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
func describeUnknown(known []Field, path string) (where, why string) {
	level := ""
	for {
		key, rest, more := strings.Cut(strings.TrimPrefix(path, level), ".")
		below := keysBelow(known, level+key+".")
		switch {
		case len(below) > 0 && more && rest != "":
			level += key + "."
			continue
		case len(below) > 0:
			return level + key, "want a map with " + strings.Join(below, ", ")
		}
		why = "unknown field"
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

// typeMistake describes a value that is of another type than the field's, and how to write it; ""
// for a right one. The values below a field that becomes something are texts.
func (f Field) typeMistake(path string, value any) string {
	_, isMap := f.Example.(object)
	switch {
	case path == f.Path:
		return describeTypeMistake(f.Example, value)
	case isMap && f.Outcome == Becomes:
		return describeTypeMistake("text", value)
	case isMap:
		return ""
	}
	return describeTypeMistake(f.Example, object{})
}

// describeTypeMistake describes the difference between the type of a value and that of an example.
func describeTypeMistake(example, value any) string {
	switch example := example.(type) {
	case string:
		if _, ok := value.(string); ok {
			return ""
		}
		if describeType(value) == aNumber {
			return fmt.Sprintf("it is a number, want a text: write it in quotes: %q", fmt.Sprint(value))
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
		if !ok {
			return fmt.Sprintf("it is %s, want a list, such as [%q]", describeType(value), example[0])
		}
		for i, one := range all {
			if why := describeTypeMistake(example[0], one); why != "" {
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
