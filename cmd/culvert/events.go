package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/status/text"
	"github.com/culvert-net/culvert/internal/rpc"
)

func newEventsCommand(n *node) *cobra.Command {
	var req api.EventsRequest
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened: attachments, releases, quarantines, changes",
		Long: `Shows the actions of culvertd and the problems that it met, oldest first. The
ledger keeps the last 1000 events through restarts and reboots. Each has a number
that only grows; --since goes on after one of them. Lines with ! are warnings.`,
		Example: `  culvert events
  culvert events --follow --since 120
  culvert events -o json | jq '.[] | select(.type == "Warning")'
  culvert events --follow -o json    # one event a line`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	out := addOutput(cmd, false)
	cmd.Flags().BoolVarP(&req.Follow, "follow", "f", false, "go on with events as they come, until interrupted")
	cli.AddCount(cmd, &req.After, "since", 0, math.MaxUint64, "only events after the one with this `number`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if req.Follow {
			return followEvents(cmd, n, req, out)
		}
		events := []api.Event{}
		err := n.streamEvents(cmd, req, func(e api.Event) error {
			events = append(events, e)
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
func followEvents(cmd *cobra.Command, n *node, req api.EventsRequest, out output) error {
	opts := out.textOptions(cmd)
	err := n.streamEvents(cmd, req, func(e api.Event) error {
		if out.IsForPrograms() {
			return cli.EncodeLine(cmd.OutOrStdout(), out.String(), e)
		}
		_, err := io.WriteString(cmd.OutOrStdout(), opts.Fit(text.Event(e, opts)))
		return err
	})
	if cmd.Context().Err() != nil {
		return nil //nolint:nilerr // interrupted, as is meant to be
	}
	if err == nil {
		err = fmt.Errorf("%w any more: it stopped; culvert events --follow goes on where it runs again", rpc.ErrNoDaemon)
	}
	return err
}

func (n *node) streamEvents(cmd *cobra.Command, req api.EventsRequest, each func(api.Event) error) error {
	return rpc.Stream(cmd.Context(), n.socket, api.MethodEvents, req, func(raw json.RawMessage) error {
		var e api.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("culvertd's answer to events: %w", err)
		}
		return each(e)
	})
}
