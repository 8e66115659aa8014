package blocks

import (
	"slices"
	"sync"
	"time"
)

// AnswerTime is how long a controller waits for nodes that do not answer its roll call, if it has
// found no lost block. It is longer than the pause of a node whose watch failed.
const AnswerTime = time.Minute

// RollCall finds out whether the API server was restored from a backup: then its pools lack
// blocks that nodes have. A controller writes an ID into the pools, and every node repeats it
// in its NodeState, beside the addresses that it holds and that are in no block of its own.
// Before that, the controller grants nothing (TestI4AcrossNodes).
//
// A controller that starts does not remember the pools, so it calls the roll. A running
// controller calls it again when a pool has an older version than before. The zero value is ready
// to use.
type RollCall struct {
	mu       sync.Mutex // guards the rest
	id       string
	asked    time.Time        // when a pool with the ID was first read
	versions map[string]int64 // of the pools, as they were last read
}

// Look has a pool and the state of the nodes, which was read after the pool.
type Look struct {
	Pool Pool
	// Version of a pool grows with each change, also across controllers: its
	// metadata.generation.
	Version int64
	Demands []Demand
	Answers []Answer
}

// Answer has the IDs of roll calls that a node repeats. Each NodeState whose Node object is there
// has one.
type Answer struct {
	Node string
	IDs  []string
}

// Verdict says whether addresses of a pool may be granted: they may if Missing is empty.
type Verdict struct {
	// ID is the ID that the controller writes into the pool while Missing has nodes.
	ID string
	// Missing has the nodes to wait for.
	Missing []string
	// Lost is set when a node holds an address that is in no block. Then nothing is granted
	// until every node has answered, or its Node object is deleted.
	Lost bool
}

// Judge decides whether addresses of a pool may be granted. It is called on each look.
func (r *RollCall) Judge(l Look, now time.Time) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.id == "" || l.Version < r.versions[l.Pool.Network] {
		r.id, r.asked, r.versions = newID(), time.Time{}, map[string]int64{}
	}
	r.versions[l.Pool.Network] = l.Version
	if l.Pool.RollCall == r.id && (r.asked.IsZero() || r.asked.After(now)) { // the latter: the clock was set back
		r.asked = now
	}
	v := Verdict{ID: r.id, Lost: l.Pool.lacks(l.Demands)}
	for _, a := range l.Answers {
		if !slices.Contains(a.IDs, r.id) {
			v.Missing = append(v.Missing, a.Node)
		}
	}
	if !v.Lost && !r.asked.IsZero() && now.Sub(r.asked) >= AnswerTime {
		v.Missing = nil
	}
	slices.Sort(v.Missing)
	return v
}

// lacks reports whether a node holds an address that is in no block of the pool.
func (p Pool) lacks(demands []Demand) bool {
	for _, d := range demands {
		for _, c := range d.Claims {
			if _, taken := p.at(c.Addr); c.Held && c.Addr.IsValid() && !taken {
				return true
			}
		}
	}
	return false
}

// RollCalls returns the IDs of the roll calls that the pools have. A NodeState may repeat them if
// its Requests are made after this call. These then include the addresses of every attachment
// that got them before the call.
func (b *Book) RollCalls() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, p := range b.pools {
		if p.RollCall != "" {
			out = append(out, p.RollCall)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
