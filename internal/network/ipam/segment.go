package ipam

import (
	"net/netip"
	"slices"
)

// segment is a run of addresses of one family, both ends included.
type segment struct{ first, last netip.Addr }

func (s segment) contains(a netip.Addr) bool {
	return s.first.Compare(a) <= 0 && a.Compare(s.last) <= 0
}

// usable returns the parts of a set that may be given out, in the order of the ranges: all but
// network and broadcast addresses, excluded addresses and those of routers.
func (c Config) usable(set []Range) []segment {
	without := make([]segment, 0, len(c.Exclude)+2*len(set)+len(c.Routes))
	one := func(a netip.Addr) {
		if a.IsValid() {
			without = append(without, segment{a, a})
		}
	}
	for _, p := range c.Exclude {
		without = append(without, segment{p.Addr(), lastOf(p)})
	}
	for _, r := range set {
		one(r.Subnet.Addr())
		if r.Subnet.Addr().Is4() {
			one(lastOf(r.Subnet))
		}
	}
	for a := range c.routers {
		one(a)
	}
	slices.SortFunc(without, func(a, b segment) int { return a.first.Compare(b.first) })
	var out []segment
	for _, r := range set {
		out = append(out, subtract(segment{r.Start, r.End}, without)...)
	}
	return out
}

// routers yields the gateways that c names.
func (c Config) routers(yield func(netip.Addr) bool) {
	for _, set := range c.Sets {
		for _, r := range set {
			if r.Gateway.IsValid() && !yield(r.Gateway) {
				return
			}
		}
	}
	for _, r := range c.Routes {
		if r.Gateway.IsValid() && !yield(r.Gateway) {
			return
		}
	}
}

// subtract returns the parts of s that are in none of without, which is sorted by first address.
func subtract(s segment, without []segment) []segment {
	var out []segment
	for _, w := range without {
		if w.last.Less(s.first) || s.last.Less(w.first) {
			continue
		}
		if s.first.Less(w.first) {
			out = append(out, segment{s.first, w.first.Prev()})
		}
		if !w.last.Less(s.last) {
			return out
		}
		s.first = w.last.Next()
	}
	return append(out, s)
}

// after rotates segments so that they begin with the address after a and end with a. Segments
// without a stay as they are.
func after(segments []segment, a netip.Addr) []segment {
	for i, s := range segments {
		if !s.contains(a) {
			continue
		}
		var out []segment
		if a.Less(s.last) {
			out = append(out, segment{a.Next(), s.last})
		}
		out = append(out, segments[i+1:]...)
		out = append(out, segments[:i]...)
		return append(out, segment{s.first, a})
	}
	return segments
}
