package controller

import (
	"sync"
	"time"

	"github.com/culvert-net/culvert/ipam/blocks"
)

// departures notes the answers of nodes whose Node object or NodeState this controller has
// seen go. Their machines may run on for some time, as long as their blocks stay theirs
// (blocks.Grace): a roll call waits for them, too, since a restored API server may have
// forgotten those blocks.
type departures struct {
	mu    sync.Mutex // guards the rest
	there map[string]blocks.Answer
	gone  map[string]departure
}

type departure struct {
	answer blocks.Answer
	since  time.Time
}

// see takes note of the answers of the nodes that are there, and returns the last ones of
// those that have gone within the grace period, by this controller's clock.
func (d *departures) see(answers []blocks.Answer, now time.Time) (recent []blocks.Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.there
	d.there = map[string]blocks.Answer{}
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
