package blocks

import (
	"slices"
	"testing"
	"time"
)

// I4: a running controller calls the roll anew when a pool is older than it was. A
// controller that starts does so with its own ID.
func TestI4RollCallIsCalledAnew(t *testing.T) {
	now := time.Unix(1e9, 0)
	var r, other RollCall
	judge := func(r *RollCall, version int64, ids ...string) GrantDecision {
		return r.Decide(RollCallState{Pool: Pool{Network: "n"}, Version: Version{"u", version}, Answers: []RollCallAnswer{{Node: "a", IDs: ids}}}, now)
	}
	first := judge(&r, 7)
	if !slices.Equal(first.Missing, []string{"a"}) || first.ID == "" {
		t.Fatalf("%+v", first)
	}
	for _, version := range []int64{7, 8} {
		if v := judge(&r, version, "x", first.ID); len(v.Missing) > 0 {
			t.Errorf("version %d: %+v", version, v)
		}
	}
	if v := judge(&r, 7, first.ID); len(v.Missing) != 1 || v.ID == first.ID {
		t.Errorf("I4: the pool is older than it was: %+v", v)
	}
	if v := judge(&other, 8, first.ID); len(v.Missing) != 1 || v.ID == first.ID {
		t.Errorf("I4: another controller: %+v", v)
	}
}

// I4: a controller that finds an older pool than before waits for each node, however long that takes. So
// does one that starts, if a node says that the roll call came in a pool no newer than one it had
// read. The wait ends when the node answers, or when its Node object is deleted.
func TestI4RestoredServerWaitsForASilentNode(t *testing.T) {
	day := 24 * time.Hour
	for name, tt := range map[string]struct {
		read  int64 // by the controller, before the restore; 0: it starts afterwards
		uid   string
		node  int64 // that node a had read
		waits bool
	}{
		"a controller that runs":         {12, "u", 12, true},
		"a controller that starts":       {0, "u", 12, true},
		"nothing was lost":               {0, "u", 10, false},
		"the pool was made anew instead": {12, "before", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			pool := Pool{Network: "n"}
			var r RollCall
			a := NewBook("a", func() {})
			if tt.node > 0 {
				a.SetPools([]View{{Pool: pool, Version: Version{"u", tt.node}}})
			}
			if tt.read > 0 {
				r.Decide(RollCallState{Pool: pool, Version: Version{tt.uid, tt.read}}, now)
			}
			version := Version{"u", 10} // of the backup
			look := func(after time.Duration, nodes ...string) GrantDecision {
				now = now.Add(after)
				answers := []RollCallAnswer{{Node: "a", IDs: a.RollCalls(), Behind: a.Behind()}}
				for _, n := range nodes {
					answers = append(answers, RollCallAnswer{Node: n})
				}
				v := r.Decide(RollCallState{Pool: pool, Version: version, Answers: answers}, now)
				if len(v.Missing) > 0 && pool.RollCall != v.ID {
					pool.RollCall, version.Number = v.ID, version.Number+1
					a.SetPools([]View{{Pool: pool, Version: version}})
				}
				return v
			}
			look(0, "silent")
			look(time.Second, "silent")
			if v := look(day, "silent"); v.Restored != tt.waits || (len(v.Missing) > 0) != tt.waits {
				t.Errorf("a day later: %+v", v)
			}
			if v := look(time.Second); len(v.Missing) > 0 || v.Restored {
				t.Errorf("the Node object is deleted: %+v", v)
			}
		})
	}
}

// I4: an address that a node holds and that is in no block starts a roll call: some other record of
// the pool is lost too.
func TestI4HeldAddressWithoutABlock(t *testing.T) {
	pool := Pool{Network: "n", Blocks: []Block{{Run: runs("10.0.0.2-10.0.0.9")[0], Node: "a"}}}
	for name, tt := range map[string]struct {
		claim Claim
		lost  bool
	}{
		"held, in a block": {Claim{addr("10.0.0.9"), "1", true}, false},
		"held, in none":    {Claim{addr("10.0.0.10"), "1", true}, true},
		"wanted, in none":  {Claim{addr("10.0.0.10"), "1", false}, false},
	} {
		d := demand("a", 1)
		d.Claims = []Claim{tt.claim}
		var r RollCall
		v := r.Decide(RollCallState{Pool: pool, Version: Version{"u", 1}, Demands: []Demand{d}}, time.Unix(1e9, 0))
		if v.Lost != tt.lost {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
