package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/vf"
)

// warnSegment returns warnings if pods of a network cannot start on a node because of the segments
// of the PFs of its resource. They are no refusals: a policy that is about to be applied may name
// other segments.
func warnSegment(c config.Config, s v1alpha1.NodeState, resource string) (out []string) {
	on := segmentsOf(s.Status, resource)
	if names := namesOf(on); len(names) > 1 {
		out = append(out, fmt.Sprintf("node %s gives out no VF of resource %s, which is on two segments: %s: give each segment a pool of its own", s.Name, resource, describeSegments(on, names)))
	}
	if _, is := on[c.Segment]; is || c.Segment == "" || len(on) == 0 {
		return out
	}
	has := "no PF whose segment is named"
	if names := namesOf(on); len(names) > 0 {
		has = describeSegments(on, names)
	}
	return append(out, fmt.Sprintf("segment %s: resource %s has on node %s %s: the network's pods cannot start there", c.Segment, resource, s.Name, has))
}

// refuseBond returns why no node can make the bond of a network: all nodes that have VFs of its
// resource have them on two named segments. It returns "" if a node may make it.
func refuseBond(c config.Config, states []v1alpha1.NodeState, resource string) string {
	why := ""
	for _, s := range states {
		on := segmentsOf(s.Status, resource)
		if len(on) == 0 {
			continue
		}
		names := namesOf(on)
		if c.Bond == nil || len(names) < 2 {
			return ""
		}
		if why == "" {
			why = fmt.Sprintf("bond: resource %s has VFs on two segments, on node %s %s: give the bond a pool on one segment", resource, s.Name, describeSegments(on, names))
		}
	}
	return why
}

// segmentsOf returns the names of the PFs of a pool by their segments. PFs whose segment has no name
// are under "".
func segmentsOf(s v1alpha1.NodeStateStatus, pool string) map[vf.Segment][]string {
	out := map[vf.Segment][]string{}
	for _, pf := range pfStatesOf(s, pool) {
		out[vf.Segment(pf.Segment)] = append(out[vf.Segment(pf.Segment)], pf.Name)
	}
	return out
}

// namesOf returns the named segments, in order.
func namesOf(on map[vf.Segment][]string) (out []vf.Segment) {
	for name := range on {
		if name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func describeSegments(on map[vf.Segment][]string, names []vf.Segment) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("segment %s (%s)", name, strings.Join(on[name], ", "))
	}
	return strings.Join(parts, " and ")
}
