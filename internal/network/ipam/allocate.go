package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// Result has the addresses and routes that one attachment gets.
type Result struct {
	Addresses []vf.Address
	Routes    []vf.Route
}

// Allocate chooses one address of every range set. It is a function of its arguments; the caller
// records the outcome in the transaction of the ledger from which held reads.
//
// held returns the holder of an address in the network. It must report an address as free that
// the requesting attachment itself has, so that a repeated request gets it again.
//
// last are addresses that were given out lately, the latest at the end: each set continues after
// its latest one, so that an address that was just freed does not get a new holder at once.
// Without a latest one, a set starts at its first address.
//
// wanted are the addresses that the attachment requests by name; a full-length prefix (/32, /128)
// leaves the prefix length to the range. For TypeStatic they take the place of the configuration's
// addresses.
//
// Errors: ErrNoBlock (see Within); vf.ErrHeld names the owner of a wanted or static address;
// vf.ErrNothingFree says how many addresses are held, and by whom. vf.ErrInvalid is for a wanted
// address that no range has or that is never given out, and for a route without an address of its
// family.
func (c Config) Allocate(held func(netip.Addr) (vf.Owner, bool), last []netip.Addr, wanted []netip.Prefix) (r Result, err error) {
	wanted = slices.Clone(wanted)
	for i, w := range wanted {
		if wanted[i], err = Unmap(w); err != nil {
			return Result{}, fmt.Errorf("%w: %w", vf.ErrInvalid, err)
		}
	}
	switch {
	case c.IsZero() && len(wanted) > 0:
		return Result{}, fmt.Errorf("address %s: %w: the network has no ipam section; add one whose range has the address", wanted[0], vf.ErrInvalid)
	case c.Type == TypeStatic:
		r.Addresses, err = c.fixed(held, wanted)
	default:
		r.Addresses, err = c.ranged(held, last, wanted)
		if err == nil && len(c.Static) > 0 {
			var beside []vf.Address
			beside, err = c.fixed(held, nil)
			r.Addresses = append(r.Addresses, beside...)
		}
	}
	if err != nil {
		return Result{}, err
	}
	r.Routes, err = c.routesFor(r.Addresses)
	if err != nil {
		return Result{}, err
	}
	return r, nil
}

// checkUsable refuses an address that no interface of a pod can have for itself.
func checkUsable(p netip.Prefix) error {
	a := p.Addr()
	if !p.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return fmt.Errorf("address %s: %w: an interface cannot have it; ask for a unicast address with its prefix length", p, vf.ErrInvalid)
	}
	return nil
}

// fixed returns the static addresses, or those wanted, with the gateway that the configuration
// names for their subnet. In lenient networks wanted addresses have no gateway, as with the CNI
// plugin static.
func (c Config) fixed(held func(netip.Addr) (vf.Owner, bool), wanted []netip.Prefix) ([]vf.Address, error) {
	out := slices.Clone(c.Static)
	if len(wanted) > 0 {
		out = nil
	}
	for i, w := range wanted {
		if slices.ContainsFunc(wanted[:i], func(o netip.Prefix) bool { return o.Addr() == w.Addr() }) {
			return nil, fmt.Errorf("address %s: %w: asked for twice", w.Addr(), vf.ErrInvalid)
		}
		a := vf.Address{Prefix: w}
		for _, s := range c.Static {
			if !c.Lenient && s.Gateway.IsValid() && s.Prefix.Masked() == w.Masked() {
				a.Gateway = s.Gateway
			}
		}
		out = append(out, a)
	}
	for _, a := range out {
		if err := checkUsable(a.Prefix); err != nil {
			return nil, err
		}
		if owner, taken := held(a.Prefix.Addr()); taken {
			return nil, heldError(a.Prefix.Addr(), owner)
		}
		if err := c.mine(a.Prefix.Addr()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c Config) ranged(held func(netip.Addr) (vf.Owner, bool), last []netip.Addr, wanted []netip.Prefix) ([]vf.Address, error) {
	bySet, err := c.assign(wanted)
	if err != nil {
		return nil, err
	}
	if c.LowestFirst {
		last = nil
	}
	var out []vf.Address
	for i, set := range c.Sets {
		segments := c.usable(set)
		var a netip.Addr
		if w, asked := bySet[i]; asked {
			a, err = w, c.grantable(w, set, segments, held)
		} else {
			a, err = c.next(set, c.ours(segments), held, last)
		}
		if err != nil {
			return nil, err
		}
		in := rangeOf(set, a)
		out = append(out, vf.Address{Prefix: netip.PrefixFrom(a, in.Subnet.Bits()), Gateway: in.Gateway})
	}
	return out, nil
}

// assign finds the set of every wanted address.
func (c Config) assign(wanted []netip.Prefix) (map[int]netip.Addr, error) {
	bySet := make(map[int]netip.Addr, len(wanted))
	for _, w := range wanted {
		i := slices.IndexFunc(c.Sets, func(set []Range) bool { return rangeOf(set, w.Addr()) != nil })
		if i < 0 {
			return nil, fmt.Errorf("address %s: %w: in none of the network's ranges (%s)", w.Addr(), vf.ErrInvalid, c.ranges())
		}
		if in := rangeOf(c.Sets[i], w.Addr()); !c.Lenient && w.Bits() != w.Addr().BitLen() && w.Bits() != in.Subnet.Bits() {
			return nil, fmt.Errorf("address %s: %w: its subnet is %s; want /%d or no prefix length", w, vf.ErrInvalid, in.Subnet, in.Subnet.Bits())
		}
		if other, twice := bySet[i]; twice {
			return nil, fmt.Errorf("address %s: %w: %s is asked for too and an attachment gets one address of range set %d", w.Addr(), vf.ErrInvalid, other, i)
		}
		bySet[i] = w.Addr()
	}
	return bySet, nil
}

// grantable returns the reason why a wanted address cannot be given out, or nil.
func (c Config) grantable(a netip.Addr, set []Range, segments []segment, held func(netip.Addr) (vf.Owner, bool)) error {
	if !slices.ContainsFunc(segments, func(s segment) bool { return s.contains(a) }) {
		return fmt.Errorf("address %s: %w: %s; ask for another one of %s", a, vf.ErrInvalid, c.reserved(a), ranges(set))
	}
	if owner, taken := held(a); taken {
		return heldError(a, owner)
	}
	return c.mine(a)
}

// reserved says why an address in a range is never given out.
func (c Config) reserved(a netip.Addr) string {
	for _, p := range c.Exclude {
		if p.Contains(a) {
			return "the network excludes " + p.String()
		}
	}
	for r := range c.routers {
		if r == a {
			return "it is a gateway's"
		}
	}
	return "it is the subnet's own or its broadcast address"
}

// next returns the first free address after the one that was given out last.
func (c Config) next(set []Range, segments []segment, held func(netip.Addr) (vf.Owner, bool), last []netip.Addr) (netip.Addr, error) {
	for _, a := range slices.Backward(last) {
		if rangeOf(set, a.Unmap()) != nil {
			segments = after(segments, a.Unmap())
			break
		}
	}
	var (
		count  int
		owners []string
	)
	for _, s := range segments {
		for a := s.first; ; a = a.Next() {
			owner, taken := held(a)
			if !taken {
				return a, nil
			}
			count++
			if len(owners) < 4 && !slices.Contains(owners, owner.String()) {
				owners = append(owners, owner.String())
			}
			if a == s.last {
				break
			}
		}
	}
	if c.Own != nil {
		return netip.Addr{}, c.spent(set, count)
	}
	return netip.Addr{}, exhausted(set, count, owners)
}

func exhausted(set []Range, count int, owners []string) error {
	if count == 0 {
		return fmt.Errorf("addresses of %s: %w: everything is excluded; take an entry out of exclude or widen the range", ranges(set), vf.ErrNothingFree)
	}
	by := strings.Join(owners, ", ")
	if len(owners) > 3 {
		by = strings.Join(owners[:3], ", ") + " and others"
	}
	return fmt.Errorf("addresses of %s: %d of %d are held (by %s): %w; widen the range or delete what holds them", ranges(set), count, count, by, vf.ErrNothingFree)
}

func heldError(a netip.Addr, owner vf.Owner) error {
	return fmt.Errorf("address %s: %w by %s", a, vf.ErrHeld, owner)
}

func rangeOf(set []Range, a netip.Addr) *Range {
	for i := range set {
		if set[i].Contains(a) {
			return &set[i]
		}
	}
	return nil
}

func ranges(set []Range) string {
	var out []string
	for _, r := range set {
		out = append(out, r.String())
	}
	return strings.Join(out, ", ")
}

func (c Config) ranges() string {
	var out []string
	for _, set := range c.Sets {
		out = append(out, ranges(set))
	}
	return strings.Join(out, ", ")
}
