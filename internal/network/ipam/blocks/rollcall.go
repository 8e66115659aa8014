package blocks

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// AnswerTime is how long a controller waits for nodes that do not answer its roll call, unless it knows
// that the API server was restored. It is longer than the pause of a node whose watch failed.
const AnswerTime = time.Minute

// RollCall finds out whether the API server was restored from a backup: then its pools lack
// blocks that nodes have. A controller writes an ID into the pools, and every node repeats it
// in its NodeState, beside the addresses that it holds and that are in no block of its own.
// Before that, the controller grants nothing (TestI4AcrossNodes).
//
// A controller that starts does not remember the pools, so it calls the roll. A running
// controller calls it again when a pool has an older version than before. Nodes remember versions,
// too: a node says of a roll call that reached it in a pool no newer than one it had read before.
// Either means that the server was restored, and the controller then waits for every node. The zero
// value is ready to use.
type RollCall struct {
	mu       sync.Mutex // guards the rest
	id       string
	asked    time.Time          // when a pool with the ID was first read
	versions map[string]Version // of the pools, as they were last read
	restored bool               // the server was restored, and not all nodes have answered
}

// Version says how old a pool is.
type Version struct {
	UID string // of the object; a pool that was made anew has another
	// Number grows with each change, also across controllers: metadata.generation.
	Number int64
}

// isOlder reports whether v is of an earlier time than another version of the same object.
func (v Version) isOlder(than Version) bool { return v.UID == than.UID && v.Number < than.Number }

// RollCallState has a pool and the state of the nodes, which was read after the pool.
type RollCallState struct {
	Pool    Pool
	Version Version
	Demands []Demand
	Answers []RollCallAnswer
}

// RollCallAnswer has the IDs of roll calls that a node repeats. Each NodeState whose Node object is there
// has one.
type RollCallAnswer struct {
	Node string
	IDs  []string
	// Behind has those roll calls that reached the node in a pool no newer than one that it had read
	// before.
	Behind []string
}

// GrantDecision says whether addresses of a pool may be granted: they may if Missing is empty.
type GrantDecision struct {
	// ID is the ID that the controller writes into the pool while Missing has nodes.
	ID string
	// Missing has the nodes to wait for.
	Missing []string
	// Lost is set when a node holds an address that is in no block, and Restored when the API server
	// was restored. Then nothing is granted until every node has answered, or its Node object is
	// deleted.
	Lost, Restored bool
}

// Decide says whether addresses of a pool may be granted. Each reconcile of the pool calls it.
func (r *RollCall) Decide(l RollCallState, now time.Time) GrantDecision {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.versions[l.Pool.Network]
	if r.id == "" || l.Version.Number < last.Number {
		r.id, r.asked, r.versions = newID(), time.Time{}, map[string]Version{}
		r.restored = l.Version.isOlder(last)
	}
	r.versions[l.Pool.Network] = l.Version
	if l.Pool.RollCall == r.id && (r.asked.IsZero() || r.asked.After(now)) { // the latter: the clock was set back
		r.asked = now
	}
	v := GrantDecision{ID: r.id, Lost: l.Pool.lacks(l.Demands)}
	for _, a := range l.Answers {
		if !slices.Contains(a.IDs, r.id) {
			v.Missing = append(v.Missing, a.Node)
		}
		r.restored = r.restored || slices.Contains(a.Behind, r.id)
	}
	v.Restored = r.restored && len(v.Missing) > 0
	r.restored = v.Restored || r.asked.IsZero() && r.restored
	if !v.Lost && !v.Restored && !r.asked.IsZero() && now.Sub(r.asked) >= AnswerTime {
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
func (b *NodeBlocks) RollCalls() []string {
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

// Behind returns those of RollCalls that came in a pool no newer than one that the book had before. A
// controller that calls the roll changes the pool, so its change should be newer than all others.
func (b *NodeBlocks) Behind() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.behind))
}

// noteVersions remembers how new the pools are, before they take the place of b.pools. The caller
// holds mu.
func (b *NodeBlocks) noteVersions(now map[string]View) {
	calls := map[string]bool{}
	for network, p := range now {
		newest := b.versions[network]
		if p.RollCall != "" {
			calls[p.RollCall] = true
			if p.RollCall != b.pools[network].RollCall && p.Version.UID == newest.UID && p.Version.Number <= newest.Number {
				b.behind[p.RollCall] = true
			}
		}
		if !p.Version.isOlder(newest) {
			b.versions[network] = p.Version
		}
	}
	maps.DeleteFunc(b.behind, func(id string, _ bool) bool { return !calls[id] })
}
