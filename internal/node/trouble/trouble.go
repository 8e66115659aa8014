// Package trouble compares the present troubles with the earlier ones, and emits an event for each
// trouble that began, changed or ended. Callers collect a Set in each pass, and pass the previous
// Set and the present one to Emit.
package trouble

import (
	"maps"
	"slices"

	"github.com/culvert-net/culvert/internal/node/journal"
)

// Set has the present troubles, by the name of the object.
type Set map[string]Trouble

// Trouble is the trouble of one object.
type Trouble struct {
	Begins, Ends string // reasons of the events
	Text         string
}

// Add adds a trouble of an object, which may have several.
func (s Set) Add(object string, t Trouble) {
	if other, ok := s[object]; ok && other.Text != t.Text {
		t.Text = other.Text + "; " + t.Text
	}
	s[object] = t
}

// Emit emits an event for each trouble that began, changed or ended, in the order of the
// objects' names. kind is journal.Warning or journal.Normal.
func Emit(before, now Set, emit func(kind, reason, text string)) {
	for _, object := range slices.Sorted(maps.Keys(now)) {
		if t := now[object]; before[object].Text != t.Text {
			emit(journal.Warning, t.Begins, object+": "+t.Text)
		}
	}
	for _, object := range slices.Sorted(maps.Keys(before)) {
		if _, still := now[object]; !still {
			emit(journal.Normal, before[object].Ends, object+": that is over: "+before[object].Text)
		}
	}
}
