package admin

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// undoBound is how long taking everything back may take. It goes on after the caller has
// disconnected.
const undoBound = 2 * time.Minute

// work is a list of things that are done, and how each is taken back.
type work struct {
	tell func(string)
	undo []func(context.Context) error
}

// doAction carries out one action on a host, and records the action that undoes it. It does so
// even if the action failed, since it may have had its effect.
func (w *work) doAction(ctx context.Context, h host, name string, a Action, back Action) error {
	w.tell(name + ": " + a.String())
	if back != nil {
		w.undo = append(w.undo, func(ctx context.Context) error { return explainAction(name, back, h.Do(ctx, back)) })
	}
	return explainAction(name, a, h.Do(ctx, a))
}

// explainAction names host and action in an error.
func explainAction(name string, what fmt.Stringer, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", name, what, err)
}

// undoAll takes everything back, the last first, whatever of it fails; cause is why.
func (w *work) undoAll(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound)
	defer cancel()
	var failed []error
	for i := len(w.undo) - 1; i >= 0; i-- {
		failed = append(failed, w.undo[i](ctx))
	}
	w.undo = nil
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("%w; not all of it could be taken back: %w: ask for it again when that is mended", cause, err)
	}
	return cause
}
