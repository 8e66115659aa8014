package blocks

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
)

// FromObject reads an AddressPool. It returns vf.ErrInvalid if a block cannot be read or blocks
// overlap. Then no node may hand out addresses of the pool and no controller may write it until
// an administrator has corrected it.
func FromObject(o *v1alpha1.AddressPool) (Pool, error) {
	p := Pool{Network: o.PoolID(), RollCall: o.Spec.RollCall, Declared: declarationOf(o), Namespaces: o.Spec.Namespaces}
	p.Blocks = make([]Block, 0, len(o.Spec.Blocks))
	for i, b := range o.Spec.Blocks {
		r, err := runOf(b.First, b.Last)
		if err == nil && b.Node == "" {
			err = fmt.Errorf("%w: node is missing", vf.ErrInvalid)
		}
		if err != nil {
			return Pool{}, fmt.Errorf("AddressPool %s: blocks[%d]: %w", o.Name, i, err)
		}
		block := Block{Run: r, Node: b.Node, UID: b.NodeUID, Claim: b.Claim, Grant: b.Grant}
		if b.NodeGoneSince != nil {
			block.GoneSince = b.NodeGoneSince.Time
		}
		p.Blocks = append(p.Blocks, block)
	}
	for _, text := range o.Spec.Wanted {
		if a, err := netip.ParseAddr(text); err == nil { // a text that is no address is left out: no node gives it up
			p.Wanted = append(p.Wanted, a.Unmap())
		}
	}
	p.Reservations = reservationsFrom(o.Spec.Reservations)
	p.sort()
	for i := 1; i < len(p.Blocks); i++ {
		if a, b := p.Blocks[i-1], p.Blocks[i]; b.First.Compare(a.Last) <= 0 {
			return Pool{}, fmt.Errorf("AddressPool %s: %w: blocks %s of node %s and %s of node %s overlap, since a person edited the pool: take one of them out",
				o.Name, vf.ErrInvalid, a.Run, a.Node, b.Run, b.Node)
		}
	}
	return p, nil
}

func runOf(first, last string) (ipam.Run, error) {
	a, err1 := netip.ParseAddr(first)
	b, err2 := netip.ParseAddr(last)
	r := ipam.Run{First: a.Unmap(), Last: b.Unmap()}
	if err1 != nil || err2 != nil || a.Zone() != "" || b.Zone() != "" || r.First.Is4() != r.Last.Is4() || r.Last.Less(r.First) {
		return r, fmt.Errorf("%w: %.60q-%.60q: want two addresses of one family that count up", vf.ErrInvalid, first, last)
	}
	return r, nil
}

// Object returns a pool's blocks as an AddressPool has them.
func (p Pool) Object() []v1alpha1.AddressBlock {
	var out []v1alpha1.AddressBlock
	for _, b := range p.Blocks {
		o := v1alpha1.AddressBlock{Node: b.Node, NodeUID: b.UID, First: b.First.String(), Last: b.Last.String(), Claim: b.Claim, Grant: b.Grant}
		if !b.GoneSince.IsZero() {
			since := metav1.NewTime(b.GoneSince)
			o.NodeGoneSince = &since
		}
		out = append(out, o)
	}
	return out
}

// reservationsFrom reads the reservations that can be read.
func reservationsFrom(all []v1alpha1.AddressReservation) (out []Reservation) {
	for _, o := range all {
		a, err := netip.ParseAddr(o.Address)
		if err != nil || a.Zone() != "" {
			continue
		}
		r := Reservation{Pod: o.Pod, Addr: a.Unmap(), For: time.Duration(o.KeepSeconds) * time.Second}
		if o.Since != nil {
			r.Since = o.Since.Time
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Reservation) int { return a.Addr.Compare(b.Addr) })
	return out
}

// ReservationObjects returns reservations as an AddressPool or a NodeState has them.
func ReservationObjects(all []Reservation) (out []v1alpha1.AddressReservation) {
	for _, r := range all {
		o := v1alpha1.AddressReservation{Pod: r.Pod, Address: r.Addr.String(), KeepSeconds: int64(r.For / time.Second)}
		if !r.Since.IsZero() {
			since := metav1.NewTime(r.Since)
			o.Since = &since
		}
		out = append(out, o)
	}
	return out
}

// WantedAddresses returns the wanted addresses as an AddressPool has them.
func (p Pool) WantedAddresses() []string {
	var out []string
	for _, a := range p.Wanted {
		out = append(out, a.String())
	}
	return out
}

// Total counts the addresses of the pool's blocks.
func (p Pool) Total() int64 {
	all := make([]ipam.Run, 0, len(p.Blocks))
	for _, b := range p.Blocks {
		all = append(all, b.Run)
	}
	return Total(all)
}

// Addresses counts the addresses that can be given out, by the requests of the nodes: nodes with
// the same network request the same ranges.
func Addresses(demands []Demand) int64 {
	seen := map[ipam.Run]bool{}
	var all []ipam.Run
	for _, d := range demands {
		for _, r := range d.Ranges {
			if !seen[r] {
				seen[r] = true
				all = append(all, r)
			}
		}
	}
	return Total(all)
}

// ToObject returns a node's requests as a NodeState has them.
func ToObject(requests []Request) []v1alpha1.AddressRequest {
	var out []v1alpha1.AddressRequest
	for _, r := range requests {
		o := v1alpha1.AddressRequest{Pool: r.Network, Grant: r.Grant, Used: r.Used}
		o.Ranges, o.NodeScope, o.Reservations = toRanges(r.Ranges), toRanges(r.Local), ReservationObjects(r.Reservations)
		for _, one := range r.Released {
			o.Released = append(o.Released, v1alpha1.ReleasedRange{Grant: one.Grant, AddressRange: toRange(one.Run)})
		}
		for _, c := range r.Claims {
			o.Claims = append(o.Claims, v1alpha1.AddressClaim{Address: c.Addr.String(), ID: c.ID, Held: c.Held})
		}
		out = append(out, o)
	}
	return out
}

func toRanges(runs []ipam.Run) []v1alpha1.AddressRange {
	var out []v1alpha1.AddressRange
	for _, r := range runs {
		out = append(out, toRange(r))
	}
	return out
}

func toRange(r ipam.Run) v1alpha1.AddressRange {
	return v1alpha1.AddressRange{First: r.First.String(), Last: r.Last.String()}
}

// fromRanges returns the ranges that can be read, and an error about the others.
func fromRanges(ranges []v1alpha1.AddressRange) (out []ipam.Run, err error) {
	for _, r := range ranges {
		run, wrong := runOf(r.First, r.Last)
		if wrong != nil {
			err = wrong
			continue
		}
		out = append(out, run)
	}
	return out, err
}

// Bounds on the texts of a NodeState that a pool repeats. An AddressPool with larger ones of one node
// would have no room for the blocks of others (TestI10LongIDsLeaveRoomForOthers). culvertd's own are
// shorter: newID, the ID of a sandbox with an interface, or PodKey.
const longestGrant, longestID = 64, 384

var errTooMuch = fmt.Errorf("%w: it is left out: a node requests at most %d ranges, by IDs of at most %d bytes", vf.ErrInvalid, mostRuns, longestID)

// Demands returns the requests of a node for one network, and all its claims there. For a request that cannot be read Demands returns vf.ErrInvalid, together with
// the others, and without ranges beyond mostRuns, which no culvertd requests. It returns all claims,
// since a claim whose address cannot be read was not given up.
func Demands(s *v1alpha1.NodeState, network string) (demands []Demand, claims []Claim, err error) {
	left := mostRuns
	for i, o := range s.Status.AddressRequests {
		if len(o.Ranges) > 0 {
			left -= len(o.Ranges) + requestRuns
		}
		if o.Pool != network {
			continue
		}
		d := Demand{Node: s.Name, UID: s.Status.NodeUID, Request: Request{Network: network, Grant: o.Grant, Used: o.Used}}
		var wrong1, wrong2 error
		d.Ranges, wrong1 = fromRanges(o.Ranges)
		if len(d.Ranges) > 0 && (left < 0 || len(o.Grant) > longestGrant) {
			d.Ranges, d.Grant, wrong1 = nil, "", errTooMuch
		}
		d.Local, wrong2 = fromRanges(o.NodeScope)
		d.Reservations = slices.DeleteFunc(reservationsFrom(o.Reservations), func(r Reservation) bool { return len(r.Pod) > longestID || excerpt.Clean(r.Pod) != r.Pod })
		for _, one := range o.Released {
			run, wrong := runOf(one.First, one.Last)
			if wrong != nil || one.Grant == "" {
				wrong2 = cmp.Or(wrong, wrong2)
				continue
			}
			d.Released = append(d.Released, Released{one.Grant, run})
		}
		if wrong := errors.Join(wrong1, wrong2); wrong != nil {
			err = fmt.Errorf("NodeState %s: addressRequests[%d]: %w", s.Name, i, wrong)
		}
		for _, c := range o.Claims {
			a, wrong := netip.ParseAddr(c.Address)
			claim := Claim{a.Unmap(), c.ID, c.Held}
			claims = append(claims, claim)
			if len(c.ID) > longestID {
				err = fmt.Errorf("NodeState %s: addressRequests[%d]: claim of %.60s: %w", s.Name, i, c.Address, errTooMuch)
				continue
			}
			if wrong != nil || a.Zone() != "" {
				err = fmt.Errorf("NodeState %s: addressRequests[%d]: %w: claim %.60q is no address", s.Name, i, vf.ErrInvalid, c.Address)
				continue
			}
			d.Claims = append(d.Claims, claim)
		}
		demands = append(demands, d)
	}
	return demands, claims, err
}
