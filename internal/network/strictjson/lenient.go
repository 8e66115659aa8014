package strictjson

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// IsLenient reports whether o is read leniently (ParseLenient).
func (o *Object) IsLenient() bool { return o != nil && o.report.lenient }

// Warnings lists the parts of o and of the objects inside that were accepted, but may not mean what
// their author thinks. There are at most MaxProblems.
func (o *Object) Warnings() []string {
	if o == nil {
		return nil
	}
	return o.report.warnings
}

// Doubt records a warning about the value of key where o is read leniently, and a
// problem where it is not: "path.key value: text".
func (o *Object) Doubt(key, format string, args ...any) {
	if !o.report.lenient {
		o.Fail(key, format, args...)
		return
	}
	subject := o.pathOf(key)
	if v := o.Raw(key); v != nil {
		subject += " " + clipValue(v)
	}
	o.addWarning(subject + ": " + fmt.Sprintf(format, args...))
}

// RefuseDoubt records a known key that is not served like Doubt, and like Refuse where o is not
// read leniently.
func (o *Object) RefuseDoubt(key, format string, args ...any) {
	if o.report.lenient {
		o.Doubt(key, format, args...)
		return
	}
	o.Refuse(key, format, args...)
}

func (o *Object) addWarning(text string) {
	if len(o.report.warnings) < MaxProblems {
		o.report.warnings = append(o.report.warnings, excerpt.Fit(text, longestProblem))
	}
}

// FoldKnown gives keys in another case the names of known keys, as Known does. A reader calls it
// for keys that it reads before it knows all keys.
func (o *Object) FoldKnown(known ...string) {
	if o != nil {
		o.foldKeys(known)
	}
}

// foldKeys gives keys in another case the names of known keys, as encoding/json finds the field of
// a key. If a key is there in several cases, the known spelling counts, which programs use. Without
// it, the last spelling in the order of bytes counts, in which Multus writes a configuration before
// it hands it to a plugin.
func (o *Object) foldKeys(known []string) {
	if !o.report.lenient {
		return
	}
	for _, name := range known {
		var variants []string
		for _, k := range o.keys {
			if k != name && strings.EqualFold(k, name) && !slices.Contains(known, k) {
				variants = append(variants, k)
			}
		}
		if len(variants) == 0 {
			continue
		}
		slices.Sort(variants)
		_, given := o.fields[name]
		for i, k := range variants {
			if given || i < len(variants)-1 {
				o.addWarning(fmt.Sprintf("%s %s: given again as %s, ignored", o.pathOf(k), clipValue(o.fields[k]), name))
			} else {
				o.addWarning(fmt.Sprintf("%s %s: read as %s: write it so", o.pathOf(k), clipValue(o.fields[k]), name))
				o.fields[name] = o.fields[k]
				o.keys = append(o.keys, name)
			}
			delete(o.fields, k)
		}
		o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return slices.Contains(variants, k) })
	}
}

// roundedInt reads a whole number that is written as another number is, 1e2 or 100.0, where
// o is read leniently: Multus writes it as 100 before a plugin reads it.
func (o *Object) roundedInt(key string) (int64, bool) {
	var f float64
	if !o.IsLenient() || o.Raw(key) == nil || json.Unmarshal(o.Raw(key), &f) != nil || f != math.Trunc(f) || math.Abs(f) > math.MaxUint32 {
		return 0, false
	}
	return int64(f), true
}
