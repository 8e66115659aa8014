package vf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Attributes are the settings of a netdevice that Link has no field for, such as flags,
// alternative names, queues, offloads and programs: one line "name value" for each, in
// the same order at each reading. Values are only compared: those that are long are digests.
type Attributes string

// NewAttributes returns the attributes with these values by name. Names have no blanks
// and values no line breaks.
func NewAttributes(values map[string]string) Attributes {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, "%s %s\n", name, values[name])
	}
	return Attributes(b.String())
}

// values are the values by name.
func (a Attributes) values() map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(a)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		out[name] = value
	}
	return out
}

// Diff lists the attributes that differ, of those that both have. A listing of the host
// and a look into another netns show fewer than a read of one VF on the host, and drivers
// do not have all. An attribute that was unset is there with an empty value.
func (a Attributes) Diff(have Attributes) []Difference {
	if a == have {
		return nil
	}
	var c comparison
	want, has := a.values(), have.values()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if v, ok := has[name]; ok {
			c.check(name, want[name], v)
		}
	}
	return c.out
}
