package table

import "slices"

// choose returns the indices of the endpoints that take new connections from the node's pods: the
// ready endpoints or, if there are none, endpoints that serve while they terminate.
func (n Node) choose(s *Service, all []Endpoint) []int {
	pick := func(takes func(Endpoint) bool) (out []int) {
		for i, e := range all {
			if takes(e) && (!s.Local || e.Here) {
				out = append(out, i)
			}
		}
		return out
	}
	meant := func(Endpoint) bool { return true }
	if !s.Local {
		meant = n.meantFor(all)
	}
	if ready := pick(func(e Endpoint) bool { return e.Ready && meant(e) }); len(ready) > 0 {
		return ready
	}
	return pick(func(e Endpoint) bool { return e.Serving && e.Terminating })
}

// meantFor returns a function that reports whether an endpoint's hints name this node. Hints count
// if each ready endpoint has them and one of them names the node, or else its zone.
func (n Node) meantFor(all []Endpoint) func(Endpoint) bool {
	forNode, forZone := n.Name != "", n.Zone != ""
	nodeFound, zoneFound := false, false
	for _, e := range all {
		if !e.Ready {
			continue
		}
		forNode, forZone = forNode && len(e.Nodes) > 0, forZone && len(e.Zones) > 0
		nodeFound, zoneFound = nodeFound || slices.Contains(e.Nodes, n.Name), zoneFound || slices.Contains(e.Zones, n.Zone)
	}
	switch {
	case forNode && nodeFound:
		return func(e Endpoint) bool { return slices.Contains(e.Nodes, n.Name) }
	case forZone && zoneFound:
		return func(e Endpoint) bool { return slices.Contains(e.Zones, n.Zone) }
	}
	return func(Endpoint) bool { return true }
}
