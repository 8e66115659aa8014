package trouble

import (
	"fmt"
	"time"

	"github.com/culvert-net/culvert/internal/node/journal"
)

// These constants limit the events of a thing that changes again and again: a bond whose wires flap
// or whose pod moves it back, or a link that comes and goes. They would drop all other events from the
// ledger. The first firstEvents changes have an event each. After them, one merged event stands for
// all changes within mergePause, which grows by the factor mergeGrowth up to longestMerge. The merged
// event comes earlier if the thing has not changed for restPause. A thing that has not changed for
// forgetPause begins with single events again.
const (
	firstEvents  = 4
	mergePause   = time.Minute
	mergeGrowth  = 4
	longestMerge = 24 * time.Hour
	restPause    = 10 * time.Minute
	forgetPause  = time.Hour
)

// Damper decides which changes of one thing have an event of their own. Its zero value is ready.
type Damper struct {
	recorded int           // changes that had an event of their own
	changed  time.Time     // the latest change
	pause    time.Duration // of the next merged event
	merged   int           // changes since the last event
	since    time.Time     // the first of them
	last     journal.Event // of the latest of them
}

// NoteChange notes a change at a time, with its event. It reports whether the caller must record the event
// as it is.
func (d *Damper) NoteChange(e journal.Event, now time.Time) bool {
	if rest := now.Sub(d.changed); d.merged == 0 && (rest >= forgetPause || rest < 0) {
		*d = Damper{pause: mergePause}
	}
	d.changed = now
	if d.recorded < firstEvents {
		d.recorded++
		return true
	}
	if d.merged == 0 {
		d.since = now
	}
	d.merged++
	d.last = e
	return false
}

// TakeDue returns the event that stands for the merged changes, if it is due. changes is their name
// in its text.
func (d *Damper) TakeDue(now time.Time, changes string) (e journal.Event, isDue bool) {
	if d.merged == 0 || now.Before(d.since.Add(d.pause)) && now.Before(d.changed.Add(restPause)) {
		return e, false
	}
	e = d.last
	e.Text += fmt.Sprintf(" (this event stands for %d %s in %s)", d.merged, changes, now.Sub(d.since).Round(time.Second))
	d.merged, d.pause = 0, min(d.pause*mergeGrowth, longestMerge)
	return e, true
}
