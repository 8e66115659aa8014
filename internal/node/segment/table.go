package segment

import (
	"maps"
	"slices"

	"github.com/culvert-net/culvert/internal/vf"
)

// Rules of a Table. A round is one turn of the Watcher, in which each PF that sends, sends one
// frame. The rules count rounds and not time, so that they also hold on a slow machine.
const (
	// keepRounds is the number of rounds for which a station counts as heard after its last frame.
	keepRounds = 12
	// fewRounds is the number of rounds in a row for which two PFs must have listened, with
	// carrier, before the Table may judge them to be apart. It applies if both hear other stations;
	// manyRounds applies if one of them hears none. A switch port may take 30 s until it forwards
	// (IEEE 802.1D), which is six rounds.
	fewRounds  = 12
	manyRounds = 24
	// mostStations bounds the stations of other nodes that the Table remembers for each PF, since a
	// pod can forge frames of any number of stations.
	mostStations = 256
)

// Reception has the frames that one PF heard in a round.
type Reception struct {
	PF vf.PF
	// Heard has the stations whose frames the PF received.
	Heard []Station
	// Flooded is true if the PF received more frames than the Watcher read. Then the absence of a
	// station proves nothing.
	Flooded bool
}

// Table learns which PFs of this host share a segment. Only one goroutine may use it.
type Table struct {
	node  NodeID
	round int
	pfs   map[vf.PFID]*listener
	pairs map[pair]*verdict
}

// listener is a PF on which culvertd listens.
type listener struct {
	pf    vf.PF
	since int // the round since which it has listened without a break
	// heard has the round of the last frame of each station. foreign counts the stations of other
	// nodes, which mostStations bounds.
	heard   map[Station]int
	foreign int
}

// verdict is the present judgement about a pair.
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

// Add adds a round. all has the PFs of the host: Add drops the verdicts about a PF that is no
// longer among them. If a PF is not among ears, for instance because it has lost its carrier, its
// count of rounds starts again.
func (t *Table) Add(ears []Reception, all []vf.PF) {
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

// noteHeard records the stations that a PF has heard in this round, and drops those that have been
// silent for more than keepRounds.
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

// judgePairs updates the verdicts of the PFs that listen in this round. The verdict about any other
// PF stays, so that a link that goes down and up causes no new event each time.
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

// hasSettled reports whether two PFs have listened long enough to be judged apart. It counts from
// the last round in which they shared a segment (together). It returns false if both PFs only
// listen.
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

// findGroups returns a group number for each PF. PFs that share a segment get the same number: one
// has heard the other, or both have heard a third station, or both are members of one bond of the
// host. Members of a bond need the last rule: a switch sends no frame back to the bond that it
// came from, so they do not hear each other.
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

// Apart reports whether the Table judges two PFs of the host to be on different segments.
func (t *Table) Apart(a, b vf.PFID) bool {
	v := t.pairs[pairOf(a, b)]
	return v != nil && v.apart
}
