package blocks

import (
	"slices"
	"sync"
	"time"
)

// Grace is how long a Node object has to be gone before the blocks of the node
// are taken back. It is longer than a node's view of the pools is ever old.
const Grace = 5 * time.Minute

// NodeView is what the API server says of a node after the pool was read.
type NodeView struct {
	// UID is that of the Node object; empty when there is none.
	UID string
	// Claims are those of the node in the pool's network. They are not known when the
	// node says nothing, or says that it does not know them itself.
	Claims []Claim
	Known  bool
}

// holds reports whether the node may hold an address of a block.
func (v NodeView) holds(b Block) bool {
	return !v.Known || slices.ContainsFunc(v.Claims, func(c Claim) bool { return c.Held && (!c.Addr.IsValid() || b.Contains(c.Addr)) })
}

// Absences notes when this controller first read that the node of a block is gone. The
// time that the pool has of it was measured by the clock of another machine.
type Absences struct {
	mu    sync.Mutex // guards first
	first map[string]map[absence]time.Time
}

// absence is the mark of one Node object that is gone, in one pool.
type absence struct {
	node, uid string
	marked    int64
}

// of returns when the absences of a network were first read.
func (a *Absences) of(network string) map[absence]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.first[network]
}

// set replaces what is noted of a network.
func (a *Absences) set(network string, first map[absence]time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == nil {
		a.first = map[string]map[absence]time.Time{}
	}
	a.first[network] = first
	if len(first) == 0 {
		delete(a.first, network)
	}
}

// Release takes back what its node does not have any more, or marks since when its Node
// object is gone. look is asked about nodes after the pool was read, and must not answer
// from a cache that may miss a Node or a claim.
//
// A block belongs to a Node object by its UID: another machine that comes back under the
// name does not have it. That may also be the same machine, so the block stays while the
// node of that name holds an address of it (TestI4SameMachineKeepsAddresses).
func Release(p Pool, absences *Absences, now time.Time, look func(node string) (NodeView, error)) (Pool, error) {
	out := Pool{Network: p.Network, RollCall: p.RollCall}
	before, after := absences.of(p.Network), map[absence]time.Time{}
	views := map[string]NodeView{}
	for _, b := range p.Blocks {
		view, looked := views[b.Node]
		if !looked {
			var err error
			if view, err = look(b.Node); err != nil {
				return p, err
			}
			views[b.Node] = view
		}
		if b.UID == "" && b.GoneSince.IsZero() { // an earlier controller granted it
			b.UID = view.UID
		}
		if view.UID != "" && view.UID == b.UID {
			b.GoneSince = time.Time{}
			if b.Claim == "" || !view.Known || slices.ContainsFunc(view.Claims, func(c Claim) bool { return c.ID == b.Claim }) {
				out.Blocks = append(out.Blocks, b)
			}
			continue
		}
		if b.GoneSince.IsZero() {
			b.GoneSince = now
			out.Blocks = append(out.Blocks, b)
			continue
		}
		if view.UID != "" && view.holds(b) { // the grace period begins when that is over
			out.Blocks = append(out.Blocks, b)
			continue
		}
		mark := absence{b.Node, b.UID, b.GoneSince.Unix()}
		first, noted := before[mark]
		if !noted || first.After(now) { // the clock was set back
			first = now
		}
		after[mark] = first
		if now.Sub(first) < Grace {
			out.Blocks = append(out.Blocks, b)
		}
	}
	absences.set(p.Network, after)
	out.sort()
	out.join()
	return out, nil
}
