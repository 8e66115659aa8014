package segment

import (
	"maps"
	"slices"

	"github.com/culvert-net/culvert/vf"
)

// Rules of a Table. A round is one turn of the Watcher, in which each PF sends one frame. The
// rules count rounds and not time, so that they hold on a slow machine, too.
const (
	// keepRounds is how many rounds a station counts as heard after its last frame.
	keepRounds = 12
	// fewRounds is how many rounds two PFs must both have sent, with carrier, to be judged if both
	// hear stations; manyRounds, if they hear none. A switch port may take 30 s until it forwards
	// (IEEE 802.1D), which is six rounds.
	fewRounds  = 12
	manyRounds = 24
	// mostStations bounds the stations of other nodes that a PF remembers. Frames can be forged, so
	// any number may come.
	mostStations = 256
)

// Ear is what one PF has heard in a round.
type Ear struct {
	PF vf.PF
	// Heard are the stations whose frames came.
	Heard []Station
	// Flooded is whether more came than was read. Then silence says nothing.
	Flooded bool
}

// Table learns which PFs of this host share a segment. Only one goroutine may use it.
type Table struct {
	node  NodeID
	round int
	pfs   map[vf.PFID]*listener
	pairs map[pair]*verdict
}

// listener is a PF that sends and listens.
type listener struct {
	pf    vf.PF
	since int // the round in which it began, without a break
	// heard has the round of the last frame of each station. Those of this host are not counted
	// among mostStations.
	heard   map[Station]int
	foreign int
}

// verdict is what is known of a pair.
type verdict struct {
	apart    bool
	together int // the last round in which they were known to share a segment; 0: none
}

// pair is two PFs of this host in the order of their identities.
type pair struct{ a, b vf.PFID }

func pairOf(a, b vf.PFID) pair {
	if b.String() < a.String() {
		a, b = b, a
	}
	return pair{a, b}
}

// NewTable returns an empty Table of a node.
func NewTable(node NodeID) *Table {
	return &Table{node: node, pfs: map[vf.PFID]*listener{}, pairs: map[pair]*verdict{}}
}

// Add adds a round. all are the PFs of the host: a verdict about a PF that is not among them any
// more is forgotten. A PF that is not among ears, as it has lost its carrier, begins anew.
func (t *Table) Add(ears []Ear, all []vf.PF) {
	t.round++
	own := map[vf.MAC]bool{}
	for _, pf := range all {
		own[pf.ID.MAC] = true
	}
	listening := map[vf.PFID]bool{}
	for _, ear := range ears {
		listening[ear.PF.ID] = true
		l := t.pfs[ear.PF.ID]
		if l == nil {
			l = &listener{since: t.round, heard: map[Station]int{}}
			t.pfs[ear.PF.ID] = l
		}
		l.pf = ear.PF
		if ear.Flooded {
			l.since = t.round
		}
		t.noteHeard(l, ear.Heard, own)
	}
	maps.DeleteFunc(t.pfs, func(id vf.PFID, _ *listener) bool { return !listening[id] })
	t.judgePairs(all)
}

// noteHeard notes stations that a PF has heard, and forgets those that are silent.
func (t *Table) noteHeard(l *listener, heard []Station, own map[vf.MAC]bool) {
	for s, last := range l.heard {
		if t.round-last > keepRounds {
			delete(l.heard, s)
			if s.Node != t.node {
				l.foreign--
			}
		}
	}
	for _, s := range heard {
		_, known := l.heard[s]
		switch {
		case s.Node == t.node && (!own[s.PF] || s.PF == l.pf.ID.MAC): // forged, or its own
		case known || s.Node == t.node:
			l.heard[s] = t.round
		case l.foreign < mostStations:
			l.heard[s] = t.round
			l.foreign++
		}
	}
}

// judgePairs renews the verdicts. A verdict stays while it cannot be renewed, so that a link that comes
// and goes makes no new event each time.
func (t *Table) judgePairs(all []vf.PF) {
	is := map[vf.PFID]bool{}
	for _, pf := range all {
		is[pf.ID] = true
	}
	maps.DeleteFunc(t.pairs, func(p pair, _ *verdict) bool { return !is[p.a] || !is[p.b] })
	groups := t.findGroups()
	ids := slices.Collect(maps.Keys(t.pfs))
	for i, a := range ids {
		for _, b := range ids[i+1:] {
			v := t.pairs[pairOf(a, b)]
			if v == nil {
				v = &verdict{}
				t.pairs[pairOf(a, b)] = v
			}
			switch {
			case groups[a] == groups[b]:
				v.apart, v.together = false, t.round
			case t.hasSettled(a, b, v.together):
				v.apart = true
			}
		}
	}
}

// hasSettled reports whether two PFs have sent and listened for so long that their silence counts,
// since the round in which they were together last. It never does if both only listen.
func (t *Table) hasSettled(a, b vf.PFID, together int) bool {
	if !sends(t.pfs[a].pf) && !sends(t.pfs[b].pf) {
		return false
	}
	need := manyRounds
	if len(t.pfs[a].heard) > 0 && len(t.pfs[b].heard) > 0 {
		need = fewRounds
	}
	return t.round-max(t.pfs[a].since, t.pfs[b].since, together) >= need
}

// findGroups returns a number for each PF, the same for PFs that share a segment: one has heard the
// other, or both have heard a third station, or they are members of one bond of the host. A switch
// sends no frame back to the bond that it came from, so members of one do not hear each other.
func (t *Table) findGroups() map[vf.PFID]int {
	parent := map[any]any{}
	var root func(x any) any
	root = func(x any) any {
		p, ok := parent[x]
		if !ok || p == x {
			return x
		}
		parent[x] = root(p)
		return parent[x]
	}
	join := func(a, b any) { parent[root(a)] = root(b) }
	for id, l := range t.pfs {
		self := Station{t.node, id.MAC}
		for s := range l.heard {
			join(self, s)
		}
		if l.pf.Master != nil {
			join(self, "master "+l.pf.Master.Name)
		}
	}
	numbers, out := map[any]int{}, map[vf.PFID]int{}
	for id := range t.pfs {
		r := root(Station{t.node, id.MAC})
		if _, known := numbers[r]; !known {
			numbers[r] = len(numbers)
		}
		out[id] = numbers[r]
	}
	return out
}

func (t *Table) anyApart() bool {
	for _, v := range t.pairs {
		if v.apart {
			return true
		}
	}
	return false
}

// Apart reports whether two PFs of the host are on two segments, as far as was heard.
func (t *Table) Apart(a, b vf.PFID) bool {
	v := t.pairs[pairOf(a, b)]
	return v != nil && v.apart
}
