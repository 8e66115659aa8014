package blocks

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// Block is a run of addresses that one node hands out.
type Block struct {
	ipam.Run
	Node string
	// UID is the UID of the Node object.
	UID string
	// Claim is the ID of the claim that a block of one address was granted for.
	Claim string
	// Grant is the ID that the node requested the block under (ipam.Grant). Blocks without
	// one, which earlier versions requested, stay with their node until its Node object goes.
	Grant string
	// GoneSince is when the Node object was first missed; zero while it is there.
	GoneSince time.Time
}

// holder names the block's node for a message to a node. It distinguishes an earlier Node of the same
// name.
func (b Block) holder(to string) string {
	switch b.Node {
	case to:
		return "node " + b.Node + " that was there before"
	case otherNode:
		return otherNode
	}
	return "node " + b.Node
}

// Pool has the blocks of a network and their nodes. Blocks do not overlap and are sorted.
type Pool struct {
	Network string
	Blocks  []Block
	// RollCall is the ID of the present roll call, which nodes repeat; see type RollCall.
	RollCall string
	// Reservations are sorted by address.
	Reservations []Reservation
	// Declared is the declaration in the AddressPool; it is nil if no person declared the pool.
	Declared *Declaration
	// Namespaces has the namespaces whose networks may use the pool, if no person declared it; see
	// Admits.
	Namespaces []string
	// Sets has the range sets that the networks of the pool declare. It is nil if no object of
	// the cluster defines the pool, as where the network is a file on the nodes.
	Sets [][]ipam.Run
	// Foreign has addresses of the network that pods have from another stack, such as the plugin
	// host-local before a migration. Grant gives them to no node. The AddressPool object does not
	// have them.
	Foreign []netip.Addr
	// Wanted has the addresses in nodes' blocks that attachments of other nodes claim by name. A
	// node gives up the wanted addresses that it does not hold.
	Wanted []netip.Addr
}

// Request has a node's needs of one range set of a network.
type Request struct {
	Network string
	// Ranges has the addresses that may be given out (ipam.Config.Usable).
	Ranges []ipam.Run
	// Used counts the held addresses of the node's blocks in Ranges, and the attachments that
	// wait for one.
	Used   int64
	Claims []Claim
	// Grant is the ID under which the node requests blocks (ipam.Grant). It is empty in requests
	// of earlier versions of culvertd.
	Grant string
	// Released has addresses of the node's blocks that the node does not hand out any more.
	Released []Released
	// Reservations has the addresses that pods of the node hold and may keep after their end.
	Reservations []Reservation
	// Local has the addresses that the node has held since they had to be unique only on it
	// (ipam.ScopeNode).
	Local []ipam.Run
}

// Released are addresses that a node got under a grant and never hands out under it again. So it
// stays true, even in an old NodeState.
type Released struct {
	Grant string
	Run   ipam.Run
}

// asks reports whether the node needs anything of the network.
func (r Request) asks() bool { return len(r.Ranges) > 0 || len(r.Claims) > 0 }

// Claim is the request of a node for a single address. Its ID is used once.
type Claim struct {
	Addr netip.Addr
	ID   string
	Held bool // by an attachment
}

// Demand is a request with its node.
type Demand struct {
	Node, UID string
	Request
}

// owns reports whether a block belongs to the demand's node. A block that an earlier version of
// the controller granted has no UID.
func (d Demand) owns(b Block) bool { return b.Node == d.Node && (b.UID == d.UID || b.UID == "") }

// at returns the block that has a. Blocks are sorted.
func (p Pool) at(a netip.Addr) (Block, bool) {
	if i := p.from(a); i < len(p.Blocks) && p.Blocks[i].Contains(a) {
		return p.Blocks[i], true
	}
	return Block{}, false
}

// from returns the index of the first block that ends at a or behind it. Blocks are sorted.
func (p Pool) from(a netip.Addr) int {
	i, _ := slices.BinarySearchFunc(p.Blocks, a, func(b Block, a netip.Addr) int { return b.Last.Compare(a) })
	return i
}

// insert adds a block that overlaps no other one. Blocks are sorted.
func (p *Pool) insert(b Block) { p.Blocks = slices.Insert(p.Blocks, p.from(b.First), b) }

func (p *Pool) sort() {
	slices.SortFunc(p.Blocks, func(a, b Block) int { return a.First.Compare(b.First) })
}

// join merges neighbouring blocks of the same node and grant, so that a pool stays small. Blocks
// are sorted.
func (p *Pool) join() {
	var out []Block
	for _, b := range p.Blocks {
		if n := len(out); n > 0 {
			last := &out[n-1]
			if last.Last.Next() == b.First && last.Node == b.Node && last.UID == b.UID && last.Claim == "" && b.Claim == "" && last.Grant == b.Grant && last.GoneSince.Equal(b.GoneSince) {
				last.Last = b.Last
				continue
			}
		}
		out = append(out, b)
	}
	p.Blocks = out
}

// Count counts the addresses of a run, at most math.MaxInt64.
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

// overlap returns the addresses that two runs have in common.
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

// have counts the addresses of a demand's ranges that its node has in blocks that are no claims.
func (p Pool) have(d Demand) int64 { return Total(common(p.blocksOf(d), d.Ranges)) }

// blocksOf returns the blocks of a demand's node that are no claims.
func (p Pool) blocksOf(d Demand) (out []ipam.Run) {
	for _, b := range p.Blocks {
		if d.owns(b) && b.Claim == "" {
			out = append(out, b.Run)
		}
	}
	return out
}

// free yields the runs of ranges that are in no block, lowest first within each
// range. Blocks are sorted.
func (p Pool) free(ranges []ipam.Run) func(func(ipam.Run) bool) {
	return func(yield func(ipam.Run) bool) {
		for _, r := range ranges {
			rest, left := r, true
			for _, b := range p.Blocks[p.from(r.First):] {
				c, ok := overlap(b.Run, rest)
				if !ok {
					break
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

// shorten returns the first n addresses of a run.
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
