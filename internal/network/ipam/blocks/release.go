package blocks

import (
	"slices"
	"time"
)

// Grace is how long a Node object has to be gone before a controller takes the node's blocks
// back. No node's view of the pools is ever as old as that.
const Grace = 5 * time.Minute

// NodeView is the state of a node in the API server, read after the pool.
type NodeView struct {
	// UID is the UID of the Node object; it is empty if there is no Node object.
	UID string
	// Claims has the node's claims in the pool's network. They are unknown if the node has no
	// NodeState, or reports in it that it cannot read them itself.
	Claims []Claim
	Known  bool
}

// holds reports whether the node may hold an address of a block.
func (v NodeView) holds(b Block) bool {
	return !v.Known || slices.ContainsFunc(v.Claims, func(c Claim) bool { return c.Held && (!c.Addr.IsValid() || b.Contains(c.Addr)) })
}

// Absences notes when this controller first read that the node of a block is gone.
type Absences = sightings[absence]

// absence is the mark of one Node object that is gone, in one pool.
type absence struct {
	node, uid string
	marked    int64
}

// Release takes back claims that their nodes have given up, and blocks whose Node object has been
// gone for Grace. In a block it marks since when the Node object is gone. It calls look after the
// pool was read. look must not answer from a cache that may lack a Node or a claim.
//
// A block belongs to a Node object by its UID: another machine that comes back under the
// name does not have it. That may also be the same machine, so the block stays while the
// node of that name holds an address of it (TestI4SameMachineKeepsAddresses).
func Release(p Pool, absences *Absences, now time.Time, look func(node string) (NodeView, error)) (Pool, error) {
	out := p
	out.Blocks = nil
	before, after := absences.of(p.Network), marks[absence]{}
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
		if b.UID == "" && b.GoneSince.IsZero() { // an earlier version of the controller granted it
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
		if view.UID != "" && view.holds(b) { // the grace period begins when the node holds none of it
			out.Blocks = append(out.Blocks, b)
			continue
		}
		mark := absence{b.Node, b.UID, b.GoneSince.Unix()}
		after[mark] = before.sinceOr(mark, now)
		if now.Sub(after[mark]) < Grace {
			out.Blocks = append(out.Blocks, b)
		}
	}
	absences.set(p.Network, after)
	out.sort()
	out.join()
	return out, nil
}
