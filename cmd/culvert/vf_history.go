package main

import (
	"errors"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/status/pick"
	"github.com/culvert-net/culvert/internal/node/status/text"
	"github.com/culvert-net/culvert/internal/vf"
)

// newVFHistoryCommand needs the ledger of a node, which a cluster's objects do not have.
func newVFHistoryCommand(p *place) *cobra.Command {
	var filter pick.Events
	var since cli.Since
	pf := ""
	cmd := &cobra.Command{
		Use:   "history [VF]",
		Short: "Show who had which VF when, and what was changed on it",
		Long: `Shows a row for each time in which an owner had a VF, or in which a VF was in
quarantine. CHANGES has the settings that the VF got, and what happened meanwhile:
repairs, quarantines, lost links and errors of the PF, commands of administrators.
The events of these changes follow below.

The history is in the ledger of this host. It keeps the last 10,000 events, or as
many as culvertd's flag --keep-events says. It survives restarts, reboots and
upgrades. "earlier" is before the oldest event.

--since takes a day, a time, or how long ago: 2026-11-24, "2026-11-24 15:04", 2d,
90m. It shows the rows that end after that. -o jsonl writes events, one a line.
A VF that is gone has a name by its PF's MAC address: 90:e2:ba:00:00:01#3.`,
		Example: `  culvert vf history enp1s0f0#3 --since 7d
  culvert vf history --owner default/a
  culvert vf history --address 10.56.0.9 --since 2026-11-24
  culvert vf history -o jsonl > history.jsonl`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: p.completeWords(pick.IDs),
	}
	out := output{cli.AddFormat(cmd, "what to write instead of a table", cli.JSON, cli.YAML, cli.JSONL)}
	addSubject(cmd, &filter.Subject)
	cmd.Flags().StringVar(&pf, "pf", "", "only VFs of this PF")
	p.completeFlag(cmd, "pf", pick.PFs)
	cli.AddSince(cmd, &since, false, "only what was there after this `time`, or this long ago")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if p.inCluster() {
			return errors.New("culvert vf history works on this node alone, since a cluster's objects have no history: in a cluster, run it in the culvertd of a node:\n" +
				"kubectl -n culvert-system exec culvertd-x7k2p -- culvert vf history")
		}
		filter.Since = since.Time
		return showHistory(cmd, &p.node, filter, append(args, "")[0], pf, out)
	}
	return cmd
}

// showHistory writes the events of the VFs that a filter, a word and a PF select: as rows of owners, or as they are.
func showHistory(cmd *cobra.Command, n *node, filter pick.Events, word, pf string, out output) error {
	st, err := n.readStatus(cmd.Context())
	if err != nil {
		return err
	}
	h, err := pick.NewHistory(st, filter, word, pf)
	if err != nil {
		return err
	}
	events, err := n.listEvents(cmd.Context(), api.EventsRequest{})
	if err != nil {
		return err
	}
	if out.String() == cli.JSONL {
		for _, e := range h.SelectEvents(st, events) {
			if err := cli.EncodeLine(cmd.OutOrStdout(), cli.JSONL, e); err != nil {
				return err
			}
		}
		return nil
	}
	spans := h.MakeSpans(st, events)
	return out.writeValue(cmd, spans, func(o text.Options) string { return text.DrawHistory(spans, o) })
}

// addSubject gives cmd the flags that select owners of the past.
func addSubject(cmd *cobra.Command, s *pick.Subject) {
	f := cmd.Flags()
	f.StringVar(&s.Owner, "owner", "", "only of this owner, e.g. default/a")
	f.StringVar(&s.PodUID, "pod-uid", "", "only of the pod with this `UID` in its cluster")
	cli.AddParsed(cmd, &s.MAC, "mac", "address", "a MAC address, such as 02:00:00:00:00:01", "only with this MAC `address`", vf.ParseMAC)
	cli.AddParsed(cmd, &s.Address, "address", "address", "an IP address, such as 10.56.0.9", "only with this IP `address`", netip.ParseAddr)
}
