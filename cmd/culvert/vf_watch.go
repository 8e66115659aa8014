package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/node/status/pick"
	"github.com/culvert-net/culvert/internal/node/status/text"
	"github.com/culvert-net/culvert/internal/rpc"
)

func newVFWatchCommand(p *place) *cobra.Command {
	w := &watcher{place: p, interval: 2 * time.Second, wake: change.NewWake()}
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Watch the VFs, and what changes of them",
		Long: `Shows the VFs as culvert vf list does, and then what changes: phases, owners,
addresses, settings, problems. On a terminal the list is drawn anew, and the rows
that changed within ten seconds begin with a mark. Elsewhere each change is one
line, after one line for each VF that is there at first. The marks are: + comes,
- goes, ~ becomes something else.

The command looks at each event of culvertd, and each --interval for what has no
event; of a cluster only each --interval. It waits while culvertd restarts. Ctrl-C
ends it with status 0.`,
		Example: `  culvert vf watch
  culvert vf watch --pf enp1s0f0 >> vfs.log
  culvert vf watch -o json | jq -r 'select(.op == "~") | .vf'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	w.out = output{cli.AddFormat(cmd, "what to write instead of text, one change a line", cli.JSON)}
	addFilter(cmd, p, &w.filter)
	cli.AddTime(cmd, &w.interval, "interval", 500*time.Millisecond, time.Hour, "how often to look without an event")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		w.screen = cli.ScreenOf(cmd.OutOrStdout(), os.Getenv)
		return w.run(cmd)
	}
	return cmd
}

// watcher has the state of culvert vf watch.
type watcher struct {
	*place
	filter   pick.Filter
	interval time.Duration
	out      output
	screen   cli.Screen
	wake     change.Wake // an event

	began   bool
	away    bool // culvertd did not answer the last time
	vfs     []api.VF
	changed []api.VFChange // those on the screen
}

func (w *watcher) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if !w.inCluster() {
		go w.followEvents(ctx)
	}
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		if err := w.look(cmd); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-w.wake:
		}
	}
}

// followEvents wakes the watcher at each event of culvertd, and tries again when culvertd is away.
func (w *watcher) followEvents(ctx context.Context) {
	var after uint64
	for ctx.Err() == nil {
		_ = rpc.Stream(ctx, w.socket, api.MethodEvents, api.EventsRequest{After: after, Follow: true}, func(raw json.RawMessage) error {
			var e api.Event
			if err := json.Unmarshal(raw, &e); err != nil {
				return err
			}
			after = e.Seq
			w.wake.Notify()
			return nil
		}) // look reports that culvertd is away
		select {
		case <-ctx.Done():
		case <-time.After(w.interval):
		}
	}
}

// look reads the VFs and writes what has changed. culvertd may be away, but not at the first look.
func (w *watcher) look(cmd *cobra.Command) error {
	st, err := w.mergedStatus(cmd.Context())
	if errors.Is(err, rpc.ErrNoDaemon) && w.began {
		return w.reportAway(cmd)
	}
	if err != nil {
		return err
	}
	vfs, err := w.filter.VFs(st)
	if err != nil && !w.began {
		return err
	}
	if err != nil { // a PF or pool that was there is gone
		vfs = nil
	}
	if w.away {
		w.away = false
		fmt.Fprintln(cmd.ErrOrStderr(), "culvertd answers again")
	}
	changes := pick.Changes(w.vfs, vfs, st.Time)
	first := !w.began
	w.vfs, w.began = vfs, true
	return w.write(cmd, changes, st.Time, first)
}

func (w *watcher) reportAway(cmd *cobra.Command) error {
	if w.away {
		return nil
	}
	w.away = true
	_, err := fmt.Fprintf(cmd.ErrOrStderr(), "culvertd does not answer on %s: waiting for it\n", w.socket)
	return err
}

func (w *watcher) write(cmd *cobra.Command, changes []api.VFChange, now time.Time, first bool) error {
	o := text.Options{Look: w.screen.Look, Zone: time.Local}
	if w.screen.Terminal && !w.out.IsForPrograms() {
		if !first {
			w.changed = append(w.changed, changes...)
		}
		w.changed = text.OnScreen(w.changed, now)
		const home = "\x1b[H\x1b[J" // ECMA-48: cursor home, erase to the end of the screen
		_, err := io.WriteString(cmd.OutOrStdout(), home+o.Fit(text.Watched(w.vfs, w.changed, now, w.interval, o)))
		return err
	}
	for _, c := range changes {
		if w.out.IsForPrograms() {
			if err := cli.EncodeLine(cmd.OutOrStdout(), w.out.String(), c); err != nil {
				return err
			}
			continue
		}
		if _, err := io.WriteString(cmd.OutOrStdout(), text.VFChange(c, o)); err != nil {
			return err
		}
	}
	return nil
}
