package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// undoBound is how long taking everything back may take. It goes on after the caller has
// disconnected.
const undoBound = 2 * time.Minute

// work is a list of things that are done, and how each is taken back.
type work struct {
	tell func(string)
	undo []undoStep
	// chained: of the actions that doAction records, one is taken back only if all that came after
	// it are.
	chained bool
}

// undoStep takes one thing back.
type undoStep struct {
	undo    func(context.Context) error
	chained bool
}

// doAction carries out one action on a host, and records the action that undoes it. It does so
// even if the action failed, since it may have had its effect.
func (w *work) doAction(ctx context.Context, h host, name string, a Action, back Action) error {
	w.tell(name + ": " + a.String())
	if back != nil {
		w.addUndo(h, name, back)
	}
	return explainAction(name, a, h.Do(ctx, a))
}

// addUndo records an action that takes back what is done next.
func (w *work) addUndo(h host, name string, back Action) {
	undo := func(ctx context.Context) error { return explainAction(name, back, h.Do(ctx, back)) }
	w.undo = append(w.undo, undoStep{undo, w.chained})
}

// explainAction names host and action in an error.
func explainAction(name string, what fmt.Stringer, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", name, what, err)
}

// undoAll takes everything back, the last first; cause is why. A failure ends the chain, and nothing
// else.
func (w *work) undoAll(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound)
	defer cancel()
	var failed []error
	broken := false // the chain
	for _, s := range slices.Backward(w.undo) {
		if s.chained && broken {
			continue
		}
		err := s.undo(ctx)
		failed = append(failed, err)
		broken = broken || s.chained && err != nil
	}
	w.undo = nil
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("%w; not all of it could be taken back: %w: ask for it again when that is mended", cause, err)
	}
	return cause
}
