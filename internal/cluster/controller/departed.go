package controller

import (
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
)

// departures remembers the answers of nodes whose Node object or NodeState this controller has
// seen disappear. Their machines may run on, and their blocks stay theirs for blocks.Grace. A
// roll call waits for these nodes, too, since a restored API server may have forgotten their
// blocks.
type departures struct {
	mu    sync.Mutex // guards the rest
	there map[string]blocks.RollCallAnswer
	gone  map[string]departure
}

type departure struct {
	answer blocks.RollCallAnswer
	since  time.Time
}

// see records the answers of the existing nodes. It returns the last answers of the nodes that
// have gone within the grace period, by this controller's clock.
func (d *departures) see(answers []blocks.RollCallAnswer, now time.Time) (recent []blocks.RollCallAnswer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.there
	d.there = map[string]blocks.RollCallAnswer{}
	if d.gone == nil {
		d.gone = map[string]departure{}
	}
	for _, a := range answers {
		d.there[a.Node] = a
		delete(d.gone, a.Node)
	}
	for name, a := range before {
		if _, there := d.there[name]; !there {
			d.gone[name] = departure{a, now}
		}
	}
	for name, one := range d.gone {
		if one.since.After(now) { // the clock was set back
			one.since = now
			d.gone[name] = one
		}
		if now.Sub(one.since) >= blocks.Grace {
			delete(d.gone, name)
			continue
		}
		recent = append(recent, one.answer)
	}
	return recent
}
