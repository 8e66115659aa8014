package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/status/pick"
	"github.com/culvert-net/culvert/internal/node/status/text"
	"github.com/culvert-net/culvert/internal/rpc"
)

func newEventsCommand(n *node) *cobra.Command {
	var req api.EventsRequest
	var filter pick.Events
	var since cli.Since
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened: attachments, releases, quarantines, changes",
		Long: `Shows the actions of culvertd, the problems that it met and the commands of
administrators, oldest first. The ledger keeps the last 10,000 events through
restarts and reboots, or as many as culvertd's flag --keep-events says. Each has a
number that only grows. Lines with ! are warnings.

--since takes such a number, and goes on after that event. It also takes a day, a
time, or how long ago: 2026-11-24, "2026-11-24 15:04", 2d, 90m. culvert vf history
shows the same as a table of owners.`,
		Example: `  culvert events
  culvert events --follow --since 120
  culvert events --since 2d --owner default/a
  culvert events -o json | jq '.[] | select(.type == "Warning")'
  culvert events --follow -o json    # one event a line`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	out := output{cli.AddFormat(cmd, "what to write instead of a table", cli.JSON, cli.YAML, cli.JSONL)}
	cmd.Flags().BoolVarP(&req.Follow, "follow", "f", false, "go on with events as they come, until interrupted")
	addSubject(cmd, &filter.Subject)
	cli.AddSince(cmd, &since, true, "only events after this `time`, this long ago, or after the event with this number")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		req.After, filter.Since = since.After, since.Time
		if req.Follow || out.String() == cli.JSONL {
			return followEvents(cmd, n, req, filter, out)
		}
		events := []api.Event{}
		err := n.streamEvents(cmd.Context(), req, func(e api.Event) error {
			if filter.AdmitsEvent(e) {
				events = append(events, e)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return out.writeValue(cmd, events, func(o text.Options) string { return text.Events(events, o) })
	}
	return cmd
}

// followEvents writes events as they come. An interrupt ends it without an
// error.
func followEvents(cmd *cobra.Command, n *node, req api.EventsRequest, filter pick.Events, out output) error {
	opts := out.textOptions(cmd)
	err := n.streamEvents(cmd.Context(), req, func(e api.Event) error {
		if !filter.AdmitsEvent(e) {
			return nil
		}
		if out.IsForPrograms() {
			return cli.EncodeLine(cmd.OutOrStdout(), out.String(), e)
		}
		_, err := io.WriteString(cmd.OutOrStdout(), opts.Fit(text.Event(e, opts)))
		return err
	})
	if cmd.Context().Err() != nil {
		return nil //nolint:nilerr // interrupted, as is meant to be
	}
	if err == nil && req.Follow {
		err = fmt.Errorf("%w any more: it stopped; culvert events --follow goes on where it runs again", rpc.ErrNoDaemon)
	}
	return err
}

// listEvents returns the events that culvertd streams.
func (n *node) listEvents(ctx context.Context, req api.EventsRequest) ([]api.Event, error) {
	events := []api.Event{}
	err := n.streamEvents(ctx, req, func(e api.Event) error {
		events = append(events, e)
		return nil
	})
	return events, err
}

func (n *node) streamEvents(ctx context.Context, req api.EventsRequest, each func(api.Event) error) error {
	return rpc.Stream(ctx, n.socket, api.MethodEvents, req, func(raw json.RawMessage) error {
		var e api.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("culvertd's answer to events: %w", err)
		}
		return each(e)
	})
}
