package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/node/status/text"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

func newLedgerCommand(n *node) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Show, check and repair the ledger of VFs and their owners",
		Long: `The ledger is one file, /var/lib/culvert/ledger.db. culvertd keeps the owner of
each VF and of each address in it, and the state of each VF when it is clean. It
writes the ledger before it changes the kernel. It does not start with a damaged
one: it never guesses the owner of a VF.

dump shows the content, check finds damage and contradictions, and repair makes a
sound ledger of the readable parts of a damaged one.`,
		Example: `  culvert ledger dump
  culvert ledger check && echo fine
  culvert ledger check /tmp/copy-of-ledger.db
  sudo systemctl stop culvertd && sudo culvert ledger repair`,
	}
	return cli.Group(cmd, newLedgerCheckCommand(n), newLedgerDumpCommand(n), newLedgerRepairCommand(n))
}

func newLedgerCheckCommand(n *node) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check the ledger for damage and contradictions",
		Long: `Reads the whole ledger and lists every problem with its meaning. Problems are
pages that are not as they were written, entries whose checksum is wrong, and
contradictions (one VF with two owners, an address that two hold). It recognizes a
file that was never a ledger.

Without FILE it asks culvertd about the ledger that it has open, or reads
/var/lib/culvert/ledger.db when culvertd does not run. Nothing is changed.

Exit status is 0 when nothing is wrong, and 1 otherwise.`,
		Example: `  culvert ledger check
  culvert ledger check /tmp/copy-of-ledger.db
  culvert ledger check -o json | jq -r '.problems[].object'`,
		Args: cobra.MaximumNArgs(1),
	}
	out := addOutput(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l, err := n.readLedger(cmd.Context(), args)
		if err != nil {
			return err
		}
		if err := out.writeValue(cmd, l, func(o text.Options) string { return text.LedgerCheck(l, o) }); err != nil {
			return err
		}
		if len(l.Problems) > 0 {
			return cli.ExitStatus(1)
		}
		return nil
	}
	return cmd
}

func newLedgerDumpCommand(n *node) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dump [FILE]",
		Short: "Show the content of the ledger",
		Long: `Shows every VF with its phase, its generation (how often it was given out) and its
owner, and every address that is held. A VF's name is the permanent MAC address of
its PF and its index, 52:54:00:c0:00:01#0. On Chelsio cards it is the first port's
MAC address and the PCI function, 00:07:43:00:00:01/pf2#0. Neither changes. -o
json and yaml add the baselines, the settings that owners requested, and the
events.

Unreadable entries are shown as damaged; culvert ledger check has the reason.
Without FILE it asks culvertd, or reads /var/lib/culvert/ledger.db when culvertd
does not run.`,
		Example: `  culvert ledger dump
  culvert ledger dump -o json | jq '.records[] | select(.owner).vf'
  culvert ledger dump /tmp/copy-of-ledger.db`,
		Args: cobra.MaximumNArgs(1),
	}
	out := addOutput(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l, err := n.readLedger(cmd.Context(), args)
		if err != nil {
			return err
		}
		return out.writeValue(cmd, l, func(o text.Options) string { return text.Ledger(l, o) })
	}
	return cmd
}

// readLedger asks culvertd about its ledger, or reads a file.
func (n *node) readLedger(ctx context.Context, args []string) (l api.Ledger, err error) {
	file := journal.DefaultPath
	if len(args) > 0 {
		file = args[0]
	} else {
		bound, cancel := context.WithTimeout(ctx, statusBound)
		defer cancel()
		err := rpc.Call(bound, n.socket, api.MethodLedger, nil, &l)
		if err == nil && len(l.Events) == 0 { // an older culvertd sends them too
			l.Events, err = n.listEvents(bound, api.EventsRequest{})
		}
		if !errors.Is(err, rpc.ErrNoDaemon) {
			return l, err
		}
	}
	c, err := journal.Inspect(file)
	if errors.Is(err, journal.ErrBusy) {
		return l, fmt.Errorf("%w: without FILE, this command asks it", err)
	}
	if err != nil {
		return l, err
	}
	return status.Ledger(file, c), nil
}

func newLedgerRepairCommand(_ *node) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "repair [FILE]",
		Short: "Make a sound ledger of the readable parts of a damaged one",
		Long: `Reads a damaged ledger (default /var/lib/culvert/ledger.db), shows the repair, and
makes it when --yes is given or a person agrees. A new file with every readable
entry takes the place of the damaged one, as a whole or not at all. The damaged
one stays beside it, byte by byte.

It invents nothing. It marks a VF whose record is lost as damaged. Culvert gives
such a VF to no owner until the kernel shows that it is unused, and holds its
addresses until then. On the node itself it compares with the kernel, and marks
VFs that Culvert made and that the ledger no longer has.

It refuses a file that was never a ledger, since that has no page that culvertd
wrote. It repairs a file without content, empty or zeros, when its name is
ledger.db.

culvertd must not run: systemctl stop culvertd. Containers keep their VFs.`,
		Example: `  sudo systemctl stop culvertd
  sudo culvert ledger repair           # says what it would do, and asks
  sudo culvert ledger repair --yes
  sudo systemctl start culvertd && culvert status`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it, without asking")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file := journal.DefaultPath
		if len(args) > 0 {
			file = args[0]
		}
		return repairLedger(cmd, file, yes)
	}
	return cmd
}

func repairLedger(cmd *cobra.Command, file string, yes bool) error {
	c, err := journal.Inspect(file)
	switch {
	case errors.Is(err, journal.ErrBusy):
		return fmt.Errorf("%w: stop it first: systemctl stop culvertd", err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: there is nothing to repair; culvertd makes a new one when it starts", err)
	case err != nil:
		return err
	case c.Newer():
		return fmt.Errorf("ledger %s: %s: only that one may change it: start that one", file, c.Faults[0])
	}
	out := cmd.OutOrStdout()
	opts := text.Options{Look: cli.ScreenOf(out, os.Getenv).Look}
	if !c.Mendable() {
		fmt.Fprint(out, opts.Fit(text.LedgerCheck(status.Ledger(file, c), opts)), "There is nothing that a repair could mend.\n")
		return nil
	}
	boot, err := kernel.BootID("/proc")
	if err != nil {
		return err
	}
	made, err := madeVFs(cmd.Context())
	if err != nil {
		fmt.Fprintf(out, "The kernel could not be asked which VFs there are (%v).\n", err)
	}
	rescue := journal.Mend(c, boot, made)
	rescue.By = kernel.Peer{PID: os.Getpid(), UID: uint32(os.Getuid())}.NameUser("/proc")
	fmt.Fprint(out, opts.Fit(text.LedgerCheck(status.Ledger(file, c), opts)+text.LedgerRepair(rescue.Did, opts)))
	if !yes && !askPerson(cmd, "Write it? The damaged file stays beside it. [y/N] ") {
		return fmt.Errorf("ledger %s: nothing was changed, since the answer was not y: run it again, or give --yes", file)
	}
	backup, err := rescue.Write(file, time.Now())
	if err != nil {
		return fmt.Errorf("repair %s: nothing was changed: %w", file, err)
	}
	fmt.Fprintf(out, "%s is repaired. The damaged file is %s.\nNext: systemctl start culvertd, then culvert status\n", file, backup)
	return nil
}

// askPerson asks a person, if there is one.
func askPerson(cmd *cobra.Command, question string) bool {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return false
	}
	fmt.Fprint(cmd.OutOrStdout(), question)
	answer, _ := bufio.NewReader(in).ReadString('\n')
	return strings.EqualFold(strings.TrimSpace(answer), "y") || strings.EqualFold(strings.TrimSpace(answer), "yes")
}

// madeVFs returns the VFs of this host that Culvert made: they bear the MAC
// addresses that it gives them.
func madeVFs(ctx context.Context) (map[vf.ID]vf.PCIAddr, error) {
	pfs, err := kernel.New(kernel.Options{}).PFs(ctx)
	made := map[vf.ID]vf.PCIAddr{}
	for _, pf := range pfs {
		for _, v := range pf.VFs {
			if v.Admin.MAC == vf.StableMAC(pf.ID, v.ID.Index) {
				made[v.ID] = v.PCI
			}
		}
	}
	return made, err
}
