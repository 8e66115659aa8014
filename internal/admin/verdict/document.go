package verdict

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/admin/migrate"
	"github.com/culvert-net/culvert/internal/excerpt"
)

// document is an object with all of its keys.
type document struct {
	migrate.Object
	// whole has the keys of the object, as far as they are known.
	whole map[string]any
	// repeated lists the keys that the object has twice; whole has the last one of each.
	repeated []repeat
}

// readDocuments reads the whole text of objects. A key that is given twice makes no object
// unreadable: its last value counts, as it does for kubectl.
func readDocuments(objects []migrate.Object) (out []document) {
	for _, o := range objects {
		if o.Source == nil {
			out = append(out, document{Object: o, whole: map[string]any{
				"metadata": map[string]any{"annotations": anyValues(o.Annotations)}, "spec": o.Spec,
			}})
			continue
		}
		node, repeated := dropRepeated(o.Source)
		again := []migrate.Object{o}
		if len(repeated) > 0 {
			again = migrate.ReadNode(strings.TrimSuffix(o.From, fmt.Sprintf(":%d", o.Source.Line)), node)
		}
		for i, o := range again {
			d := document{Object: o}
			if i == 0 {
				d.repeated = repeated
			}
			_ = o.Source.Decode(&d.whole) // of a text that cannot be read, whole has what can be
			out = append(out, d)
		}
	}
	return out
}

func anyValues(in map[string]string) map[string]any {
	out := map[string]any{}
	for key, value := range in {
		out[key] = value
	}
	return out
}

// mostRepeated is how many keys of an object are named that it has twice.
const mostRepeated = 8

// addRepeated reports the keys that a document has twice. If it has two kinds, a whole object is
// lost.
func (v *Verdict) addRepeated(d document) {
	for i, r := range d.repeated {
		switch {
		case r.path == "kind":
			v.addRefusal("line %d: kind is given twice, first on line %d: only the last object counts: write a line --- between two objects", r.line, r.first)
			return
		case i == mostRepeated:
			v.addWarning("%d more keys are given twice", len(d.repeated)-i)
			return
		}
	}
	for i, r := range d.repeated {
		if i < mostRepeated {
			v.addWarning("line %d: %s is given twice, first on line %d: kubectl applies the last one, and other programs refuse the file", r.line, excerpt.Line(r.path), r.first)
		}
	}
}
