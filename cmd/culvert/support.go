package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/admin/doctor"
	"github.com/culvert-net/culvert/internal/admin/doctor/gather"
	"github.com/culvert-net/culvert/internal/admin/support"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/durable"
	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/node/desired"
)

func newSupportCommand(n *node) *cobra.Command {
	file := ""
	cmd := &cobra.Command{
		Use:   "support",
		Short: "Pack what others need to find a fault on this host into one file",
		Long: `Writes one archive with the status, the events and the ledger of this host, the
doctor's findings, host.yaml, versions, culvertd's log and the kernel's messages
about the PFs. The first file of the archive, README.txt, lists what is in it.

The archive has no packets, no kubeconfig and no environment. Tokens, passwords
and private keys are replaced. It has names and addresses of hosts, pods and
guests: read it before you pass it on.

Nothing is changed on the host. Without culvertd, and as another user than root,
the archive has less, and says so.`,
		Example: `  sudo culvert support
  sudo culvert support --out /tmp/fault.tar.gz
  tar -xzOf culvert-support-host1-20261130-1204.tar.gz --wildcards '*/README.txt'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&file, "out", "", "the `FILE` to write (default culvert-support-HOST-TIME.tar.gz)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("read the name of this host: %w", err)
		}
		now := time.Now()
		folder := fmt.Sprintf("culvert-support-%s-%s", host, now.UTC().Format("20060102-1504"))
		if file == "" {
			file = folder + ".tar.gz"
		}
		err = durable.Write(file, 0o600, func(w io.Writer) error {
			return support.Pack(cmd.Context(), w, folder, now, supportParts(n), func(p support.Packed) { fmt.Fprintln(cmd.ErrOrStderr(), p) })
		})
		if err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		fmt.Fprintln(cmd.OutOrStdout(), file)
		return nil
	}
	return cmd
}

// supportParts are the files of the archive.
func supportParts(n *node) []support.Part {
	return []support.Part{
		{Name: "versions.txt", About: "programs, kernel, distribution", Read: n.readVersions},
		{Name: "status.json", About: "culvert status: NICs, VFs with owners and settings, problems", Read: func(ctx context.Context) ([]byte, error) { return encodeJSON(n.readStatus(ctx)) }},
		{Name: "events.jsonl", About: "culvert events -o jsonl: the ledger's events, one a line", Read: n.readEvents},
		{Name: "ledger.json", About: "culvert ledger dump, without the events", Read: n.readRecords},
		{Name: "doctor.json", About: "culvert doctor: findings about this host", Read: n.readDoctor},
		{Name: "host.yaml", About: desired.DefaultPath, Read: func(context.Context) ([]byte, error) { return os.ReadFile(desired.DefaultPath) }},
		{Name: "journal.txt", About: "the last 5,000 lines of culvertd's log", Read: readJournal},
		{Name: "kernel.txt", About: "the kernel's messages about PFs, PCIe and vfio", Read: n.readKernelLog},
	}
}

func encodeJSON[T any](value T, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(value, "", "  ")
}

func (n *node) readVersions(ctx context.Context) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "culvert %s\n", version)
	if st, err := n.readStatus(ctx); err == nil {
		fmt.Fprintf(&b, "culvertd %s\n", st.Version)
	} else {
		fmt.Fprintf(&b, "culvertd: %v\n", err)
	}
	for _, file := range []string{"/proc/version", "/etc/os-release"} {
		text, err := os.ReadFile(file)
		if err != nil {
			text = []byte(err.Error() + "\n")
		}
		b.Write(text)
	}
	return b.Bytes(), nil
}

func (n *node) readDoctor(ctx context.Context) ([]byte, error) {
	o, err := doctorOptions(n, "")
	if err != nil {
		return nil, err
	}
	return encodeJSON(reportOf(o, doctor.Examine(gather.Facts(ctx, o))), nil)
}

// readEvents returns the events as JSON lines, so that a cut leaves whole events.
func (n *node) readEvents(ctx context.Context) ([]byte, error) {
	var b bytes.Buffer
	err := n.streamEvents(ctx, api.EventsRequest{}, func(e api.Event) error { return cli.EncodeLine(&b, cli.JSONL, e) })
	return b.Bytes(), err
}

// readRecords returns the ledger without its events.
func (n *node) readRecords(ctx context.Context) ([]byte, error) {
	l, err := n.readLedger(ctx, nil)
	l.Events = nil
	return encodeJSON(l, err)
}

// readJournal asks systemd for culvertd's log. In a pod, kubectl logs has it.
func readJournal(ctx context.Context) ([]byte, error) {
	var failed bytes.Buffer
	c := exec.CommandContext(ctx, "journalctl", "--unit=culvertd", "--lines=5000", "--no-pager", "--output=short-iso-precise")
	c.Stderr = &failed
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("journalctl: %w: %s (in a pod, kubectl -n culvert-system logs has it)", err, strings.TrimSpace(failed.String()))
	}
	return out, nil
}

// readKernelLog reads the kernel's messages about the PFs that culvertd knows.
func (n *node) readKernelLog(ctx context.Context) ([]byte, error) {
	words := []string{"culvert"}
	if st, err := n.readStatus(ctx); err == nil { // without culvertd there are the general ones
		for _, pf := range st.PFs {
			words = append(words, pf.Name, pf.PCI.String(), pf.Driver)
		}
		for _, v := range st.VFs {
			words = append(words, v.PCI.String())
		}
	}
	log, err := kernel.ReadLog()
	if err != nil {
		return nil, err
	}
	return support.PickMessages(string(log), words), nil
}
