package vf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Attributes are the settings of a netdevice that Link has no field for, such as flags,
// alternative names, queues, offloads and programs: one line "name value" for each, in the same
// order at each reading. Values are only compared, so long ones are digests.
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

// Value returns the value of an attribute, or "" if it is unset or missing.
func (a Attributes) Value(name string) string { return a.parseValues()[name] }

// parseValues returns the values by name.
func (a Attributes) parseValues() map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(a)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		out[name] = value
	}
	return out
}

// Attributes that a driver chooses anew each time it binds, by the interrupts and CPUs that exist
// then. They are the CPUs and the receive queues that use a queue to send.
const (
	XPSCPUs   = "xps_cpus"
	XPSQueues = "xps_rxqs"
)

func isChosenAtBind(name string) bool { return name == XPSCPUs || name == XPSQueues }

// coversAll reports whether a has a value for each attribute of o, and the same where a driver
// chooses it as it binds.
func (a Attributes) coversAll(o Attributes) bool {
	if a == o {
		return true
	}
	have := a.parseValues()
	for name, value := range o.parseValues() {
		if v, ok := have[name]; !ok || isChosenAtBind(name) && v != value {
			return false
		}
	}
	return true
}

// completeFrom returns a with the attributes of o that a lacks, and those that o's driver
// chose as it bound.
func (a Attributes) completeFrom(o Attributes) Attributes {
	out, fresh := a.parseValues(), o.parseValues()
	for name, value := range fresh {
		if _, ok := out[name]; !ok || isChosenAtBind(name) {
			out[name] = value
		}
	}
	return NewAttributes(out)
}

// Diff compares the attributes that both have, and lists those that differ. A listing of the host,
// and a read in another netns, show fewer attributes than a read of one VF on the host, and drivers
// do not have all. An attribute that was unset has an empty value. Diff leaves out attributes that
// a driver chooses as it binds, which Baseline.IsComplete compares.
func (a Attributes) Diff(have Attributes) []Difference {
	var c comparison
	c.compareAttributes(a, have)
	return c.out
}

// compareAttributes is Attributes.Diff.
func (c *comparison) compareAttributes(a, have Attributes) {
	if a == have {
		c.compared += strings.Count(string(a), "\n")
		return
	}
	want, has := a.parseValues(), have.parseValues()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if v, ok := has[name]; ok && !isChosenAtBind(name) {
			c.compareValue(name, want[name], v)
		}
	}
}
