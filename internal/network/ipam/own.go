package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/vf"
)

// ErrNoBlock says that the cluster has not given an address of the network to this node to hand out
// (yet). The address may be free. The error comes with vf.ErrNotReady.
var ErrNoBlock = errors.New("no block of addresses")

// Run is a run of addresses of one family, both ends included.
type Run struct{ First, Last netip.Addr }

// Contains reports whether a lies between First and Last.
func (r Run) Contains(a netip.Addr) bool { return segment{r.First, r.Last}.contains(a) }

func (r Run) String() string {
	if r.First == r.Last {
		return r.First.String()
	}
	return r.First.String() + "-" + r.Last.String()
}

// Own has the addresses that a node may hand out of a network that several nodes share.
type Own struct {
	// Runs are the node's.
	Runs []Run
	// Claims are single addresses that were given to the asking attachment
	// alone, with the claim's ID.
	Claims map[netip.Addr]string
	// Kept are the addresses that are kept for the asking pod's name. The node may have them
	// in its Runs, or not.
	Kept []netip.Addr
}

// Grant is the right of the node to hand out addresses under an ID that is used once. While it
// has no Runs it is open: the node may hand out every address that the cluster grants under the
// ID. Runs close it: the node hands out only these, and has given the others back for good (I4).
type Grant struct {
	ID   string
	Runs []Run
}

// Has reports whether the node may hand out a to the asking attachment.
func (o Own) Has(a netip.Addr) bool {
	_, claimed := o.Claims[a]
	return claimed || o.In(a)
}

// In reports whether a is in one of the node's runs.
func (o Own) In(a netip.Addr) bool {
	return slices.ContainsFunc(o.Runs, func(r Run) bool { return r.Contains(a) })
}

// Within returns c limited to the addresses that the node may hand out. Allocate then fails with
// ErrNoBlock if the network has an address and the node has none.
func (c Config) Within(o Own) Config {
	c.Own = &o
	return c
}

// Named returns the addresses that a request must get, or else it gets none: those that it names
// and the fixed ones. For TypeStatic the named ones replace the fixed ones.
func (c Config) Named(wanted []netip.Prefix) []netip.Addr {
	var out []netip.Addr
	for _, w := range wanted {
		out = append(out, w.Addr().Unmap())
	}
	if len(wanted) == 0 || c.Type != TypeStatic {
		for _, a := range c.Static {
			out = append(out, a.Prefix.Addr())
		}
	}
	return out
}

// NeedsBlocks reports whether an attachment that asks for addresses by name, Named, gets
// another one out of the ranges.
func (c Config) NeedsBlocks(named []netip.Addr) bool {
	fixed := 0
	if c.Type != TypeStatic {
		fixed = len(c.Static)
	}
	return len(named) == 0 || len(c.Sets) > len(named)-fixed
}

// Usable returns, for each set, the addresses that may be given out: all but network and broadcast
// addresses, excluded addresses and those of routers.
func (c Config) Usable() [][]Run {
	out := make([][]Run, 0, len(c.Sets))
	for _, set := range c.Sets {
		var runs []Run
		for _, s := range c.usable(set) {
			runs = append(runs, Run{s.first, s.last})
		}
		out = append(out, runs)
	}
	return out
}

// mine returns an error if this node may not hand out a.
func (c Config) mine(a netip.Addr) error {
	if c.Own == nil || c.Own.Has(a) {
		return nil
	}
	return fmt.Errorf("address %s: %w: the cluster has not given it to this node: %w", a, vf.ErrNotReady, ErrNoBlock)
}

// ours returns the parts of segments that are in the node's runs.
func (c Config) ours(segments []segment) []segment {
	if c.Own == nil {
		return segments
	}
	var out []segment
	for _, s := range segments {
		var here []segment
		for _, r := range c.Own.Runs {
			first, last := s.first, s.last
			if first.Less(r.First) {
				first = r.First
			}
			if r.Last.Less(last) {
				last = r.Last
			}
			if first.Is4() == r.First.Is4() && first.Compare(last) <= 0 {
				here = append(here, segment{first, last})
			}
		}
		slices.SortFunc(here, func(a, b segment) int { return a.first.Compare(b.first) })
		out = append(out, here...)
	}
	return out
}

// spent returns the error of a node whose runs have no free address.
func (c Config) spent(set []Range, count int) error {
	if count == 0 {
		return fmt.Errorf("addresses of %s: %w: the cluster has given this node none yet: %w", ranges(set), vf.ErrNotReady, ErrNoBlock)
	}
	return fmt.Errorf("addresses of %s: %w: all %d that the cluster has given this node are held: %w", ranges(set), vf.ErrNotReady, count, ErrNoBlock)
}
