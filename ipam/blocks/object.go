package blocks

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/ipam"
	"github.com/culvert-net/culvert/vf"
)

// FromObject reads an AddressPool. One with a block that cannot be read, or with
// blocks that overlap, is a vf.ErrInvalid: nobody may hand out of it or add to
// it until somebody has looked.
func FromObject(o *v1alpha1.AddressPool) (Pool, error) {
	p := Pool{Network: o.Spec.Network, RollCall: o.Spec.RollCall}
	for i, b := range o.Spec.Blocks {
		r, err := runOf(b.First, b.Last)
		if err == nil && b.Node == "" {
			err = fmt.Errorf("%w: node is missing", vf.ErrInvalid)
		}
		if err != nil {
			return Pool{}, fmt.Errorf("AddressPool %s: blocks[%d]: %w", o.Name, i, err)
		}
		block := Block{Run: r, Node: b.Node, UID: b.NodeUID, Claim: b.Claim}
		if b.NodeGoneSince != nil {
			block.GoneSince = b.NodeGoneSince.Time
		}
		p.Blocks = append(p.Blocks, block)
	}
	p.sort()
	for i := 1; i < len(p.Blocks); i++ {
		if a, b := p.Blocks[i-1], p.Blocks[i]; b.First.Compare(a.Last) <= 0 {
			return Pool{}, fmt.Errorf("AddressPool %s: %w: blocks %s of node %s and %s of node %s overlap: somebody edited it; take one of them out",
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

// Object is what an AddressPool says of a pool's blocks.
func (p Pool) Object() []v1alpha1.AddressBlock {
	var out []v1alpha1.AddressBlock
	for _, b := range p.Blocks {
		o := v1alpha1.AddressBlock{Node: b.Node, NodeUID: b.UID, First: b.First.String(), Last: b.Last.String(), Claim: b.Claim}
		if !b.GoneSince.IsZero() {
			since := metav1.NewTime(b.GoneSince)
			o.NodeGoneSince = &since
		}
		out = append(out, o)
	}
	return out
}

// Total is how many addresses the pool's blocks have.
func (p Pool) Total() int64 {
	all := make([]ipam.Run, 0, len(p.Blocks))
	for _, b := range p.Blocks {
		all = append(all, b.Run)
	}
	return Total(all)
}

// Addresses is how many addresses there are to give out, by what the nodes ask
// for: nodes that have the same network ask for the same ranges.
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

// ToObject is what a NodeState says of a node's requests.
func ToObject(requests []Request) []v1alpha1.AddressRequest {
	var out []v1alpha1.AddressRequest
	for _, r := range requests {
		o := v1alpha1.AddressRequest{Network: cmp.Or(r.FormerPool, r.Network), Pool: r.Network, Used: r.Used}
		o.Ranges, o.NodeScope = toRanges(r.Ranges), toRanges(r.Local)
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
		out = append(out, v1alpha1.AddressRange{First: r.First.String(), Last: r.Last.String()})
	}
	return out
}

// fromRanges reads the ranges that can be read; the error is of the others.
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

// Demands are the requests of a node for one network, and all its claims there. An
// earlier culvertd, which names no pool, demands nothing: what it has stays granted, and
// it gets no more until the node is upgraded, since pools that inherited the network's
// blocks may have given out the rest. A request that cannot be read is a vf.ErrInvalid;
// the others are returned all the same, and so are all claims: one whose address cannot
// be read is not one that was given up.
func Demands(s *v1alpha1.NodeState, network string) (demands []Demand, claims []Claim, err error) {
	for i, o := range s.Status.AddressRequests {
		if cmp.Or(o.Pool, o.Network) != network {
			continue
		}
		d := Demand{Node: s.Name, UID: s.Status.NodeUID, Request: Request{Network: network, Used: o.Used}}
		if o.Network != network {
			d.FormerPool = o.Network
		}
		var wrong1, wrong2 error
		d.Ranges, wrong1 = fromRanges(o.Ranges)
		d.Local, wrong2 = fromRanges(o.NodeScope)
		if wrong := errors.Join(wrong1, wrong2); wrong != nil {
			err = fmt.Errorf("NodeState %s: addressRequests[%d]: %w", s.Name, i, wrong)
		}
		for _, c := range o.Claims {
			a, wrong := netip.ParseAddr(c.Address)
			claim := Claim{a.Unmap(), c.ID, c.Held}
			claims = append(claims, claim)
			if wrong != nil || a.Zone() != "" {
				err = fmt.Errorf("NodeState %s: addressRequests[%d]: %w: claim %.60q is no address", s.Name, i, vf.ErrInvalid, c.Address)
				continue
			}
			d.Claims = append(d.Claims, claim)
		}
		if o.Pool != "" {
			demands = append(demands, d)
		}
	}
	return demands, claims, err
}
