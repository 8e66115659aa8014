package blocks

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/culvert-net/culvert/ipam"
)

// Block is a run of addresses that one node hands out.
type Block struct {
	ipam.Run
	Node string
	// UID is that of the Node object.
	UID string
	// Claim is the ID of the claim that a block of one address was granted for.
	Claim string
	// GoneSince is when the Node object was first missed; zero while it is there.
	GoneSince time.Time
}

// name returns the name of the block's node, as a message to a node says it.
func (b Block) name(to string) string {
	if b.Node == to {
		return b.Node + " that was there before"
	}
	return b.Node
}

// Pool is which node has what of a network. Blocks do not overlap and are
// sorted.
type Pool struct {
	Network string
	Blocks  []Block
	// RollCall is the ID that nodes repeat, see RollCall.
	RollCall string
}

// Request is what a node needs of one range set of a network.
type Request struct {
	Network string
	// FormerPool is the name of the pool that the network had in earlier versions, see
	// Inherit; empty where it has that pool still.
	FormerPool string
	// Ranges are what may be given out, ipam.Config.Usable.
	Ranges []ipam.Run
	// Used is how many addresses of the node's blocks there are held, and how
	// many attachments wait for one.
	Used   int64
	Claims []Claim
	// Local are the addresses that the node holds and that were unique on it only
	// (ipam.ScopeNode).
	Local []ipam.Run
}

// asks reports whether the node needs anything of the network.
func (r Request) asks() bool { return len(r.Ranges) > 0 || len(r.Claims) > 0 }

// Claim is a single address that must be the node's. Its ID is used once.
type Claim struct {
	Addr netip.Addr
	ID   string
	Held bool // by an attachment
}

// Demand is a request and whose it is.
type Demand struct {
	Node, UID string
	Request
}

// owns reports whether a block is that of the demand's node. An earlier controller named
// no UID.
func (d Demand) owns(b Block) bool { return b.Node == d.Node && (b.UID == d.UID || b.UID == "") }

// at returns the block that has a.
func (p Pool) at(a netip.Addr) (Block, bool) {
	for _, b := range p.Blocks {
		if b.Contains(a) {
			return b, true
		}
	}
	return Block{}, false
}

func (p *Pool) sort() {
	slices.SortFunc(p.Blocks, func(a, b Block) int { return a.First.Compare(b.First) })
}

// join makes one block of neighbours that are alike, so that a pool stays
// small. Blocks are sorted.
func (p *Pool) join() {
	var out []Block
	for _, b := range p.Blocks {
		if n := len(out); n > 0 {
			last := &out[n-1]
			if last.Last.Next() == b.First && last.Node == b.Node && last.UID == b.UID && last.Claim == "" && b.Claim == "" && last.GoneSince.Equal(b.GoneSince) {
				last.Last = b.Last
				continue
			}
		}
		out = append(out, b)
	}
	p.Blocks = out
}

// Count is how many addresses a run has, at most math.MaxInt64.
func Count(r ipam.Run) int64 {
	first, last := r.First.As16(), r.Last.As16()
	n := binary.BigEndian.Uint64(last[8:]) - binary.BigEndian.Uint64(first[8:])
	if [8]byte(first[:8]) != [8]byte(last[:8]) || n >= most {
		return most
	}
	return int64(n) + 1
}

const most = 1<<63 - 1

// Total counts the addresses of runs, at most math.MaxInt64.
func Total(runs []ipam.Run) int64 {
	var sum int64
	for _, r := range runs {
		n := Count(r)
		if n > most-sum {
			return most
		}
		sum += n
	}
	return sum
}

// overlap is what two runs have in common.
func overlap(a, b ipam.Run) (ipam.Run, bool) {
	if a.First.Is4() != b.First.Is4() {
		return ipam.Run{}, false
	}
	if a.First.Less(b.First) {
		a.First = b.First
	}
	if b.Last.Less(a.Last) {
		a.Last = b.Last
	}
	return a, a.First.Compare(a.Last) <= 0
}

// have is how many addresses of its ranges the node of a demand has in blocks that are
// not claims.
func (p Pool) have(d Demand) int64 {
	var common []ipam.Run
	for _, b := range p.Blocks {
		if !d.owns(b) || b.Claim != "" {
			continue
		}
		for _, r := range d.Ranges {
			if c, ok := overlap(b.Run, r); ok {
				common = append(common, c)
			}
		}
	}
	return Total(common)
}

// free yields the runs of ranges that are in no block, lowest first within each
// range. Blocks are sorted.
func (p Pool) free(ranges []ipam.Run) func(func(ipam.Run) bool) {
	return func(yield func(ipam.Run) bool) {
		for _, r := range ranges {
			rest, left := r, true
			for _, b := range p.Blocks {
				c, ok := overlap(b.Run, rest)
				if !ok {
					continue
				}
				if rest.First.Less(c.First) && !yield(ipam.Run{First: rest.First, Last: c.First.Prev()}) {
					return
				}
				if c.Last == rest.Last {
					left = false
					break
				}
				rest.First = c.Last.Next()
			}
			if left && !yield(rest) {
				return
			}
		}
	}
}

// shorten is the first n addresses of a run.
func shorten(r ipam.Run, n int64) ipam.Run {
	if Count(r) <= n {
		return r
	}
	last := r.First.As16()
	carry := uint64(n - 1)
	for i := 15; i >= 0 && carry > 0; i-- {
		carry += uint64(last[i])
		last[i] = byte(carry)
		carry >>= 8
	}
	a := netip.AddrFrom16(last)
	if r.First.Is4() {
		a = a.Unmap()
	}
	return ipam.Run{First: r.First, Last: a}
}
