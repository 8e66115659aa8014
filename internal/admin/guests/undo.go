package guests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// undoBound is how long the undo of everything may take. The undo goes on after the caller has
// disconnected.
const undoBound = 2 * time.Minute

// work is a list of steps that were done, and how to undo each of them.
type work struct {
	tell func(string)
	undo []undoStep
	// chained: an action that doAction records is undone only if the undo of all later such actions
	// succeeded.
	chained bool
}

// undoStep undoes one step.
type undoStep struct {
	undo    func(context.Context) error
	chained bool
}

// doAction carries out one action on a host, and records the action that undoes it. It records the
// undo even if the action fails, since the action may have had its effect.
func (w *work) doAction(ctx context.Context, h host, name string, a Action, back Action) error {
	w.tell(name + ": " + a.String())
	if back != nil {
		w.addUndo(h, name, back)
	}
	return explainAction(name, a, h.Do(ctx, a))
}

// addUndo records an action that undoes the next step.
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

// undoAll undoes all steps, the last first, and returns cause with the errors. After the failure of
// a chained step it skips the other chained steps, and no others.
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
