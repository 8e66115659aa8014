package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/admin/guests"
	"github.com/culvert-net/culvert/internal/node/status/text"
)

const migrateHelp = `Moves a guest, named by its name or UUID, to a host with culvertd and libvirt. ssh
reaches it as HOST, by a key, as a user who may use their sockets (root). The
guest gets VFs of that host's pools of the same names, or of --pool, with the same
MAC addresses, VLANs and settings. Its definition and its autostart setting move.
The VFs that it had here are free then.

Storage is not moved: disks, kernel and firmware have to be on HOST under the same
paths, shared (NFS, a SAN). The command checks that they are there.

The guest has to be off; --shutdown shuts it down. --live migrates it while it
runs, if each of its VFs is the fast path of a virtio interface (culvert vm attach
--failover). The command then unplugs the VF, migrates the guest by virsh, and
plugs in a VF of HOST.

--transport selects the way of the guest's memory:

  ssh  over libvirt's connection to HOST, which ssh encrypts. The default.
  tls  from QEMU to QEMU, encrypted. Faster. QEMU on both hosts needs
       certificates (/etc/pki/qemu), that of HOST for its name there (uname -n)
       or --tls-name.
  tcp  from QEMU to QEMU, not encrypted: for a network that you trust.

Everything else of a migration goes over ssh. The command reports the transport at
the end.

Where both hosts have libvirt's hooks, the guest can never start on both: the
hooks refuse a definition with the mark of a migration. The command undoes a step
that fails. Repeat an interrupted migration: the command completes it or begins
anew.`

func newVMMigrateCommand(n *node) *cobra.Command {
	m := guests.Migration{Transport: guests.SSH}
	cmd := &cobra.Command{
		Use:   "migrate GUEST HOST",
		Short: "Move a guest to another host, with VFs of that host",
		Long:  migrateHelp,
		Example: `  culvert vm migrate db1 root@host2
  culvert vm migrate db1 root@host2 --shutdown --pool fast
  culvert vm migrate db1 root@host2 --live
  culvert vm migrate db1 root@host2 --live --transport tls -o json`,
		Args: cobra.ExactArgs(2),
	}
	f := cmd.Flags()
	f.StringVar(&m.Pool, "pool", "", "the pool of HOST, as prefix/name or name; those of the same names when not given")
	f.BoolVar(&m.Live, "live", false, "migrate the guest as it runs")
	f.BoolVar(&m.Shutdown, "shutdown", false, "shut the guest down before")
	cli.AddChoice(cmd, &m.Transport, "transport", "with --live: the way of the guest's memory", guests.Transports()...)
	f.StringVar(&m.TLSName, "tls-name", "", "with --transport tls: the name of HOST in its certificate")
	cmd.MarkFlagsMutuallyExclusive("live", "shutdown")
	out := addOutput(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		m.Guest = args[0]
		switch given := cmd.Flags().Changed; {
		case given("transport") && !m.Live:
			return errors.New("--transport goes with --live: a guest that is off has no memory to send, and all else goes over ssh")
		case given("tls-name") && m.Transport != guests.TLS:
			return errors.New("--tls-name goes with --transport tls")
		}
		here, err := guests.Here(n.socket)
		if err != nil {
			return err
		}
		there, err := guests.Open(cmd.Context(), args[1])
		if err != nil {
			return err
		}
		done, err := guests.Migrate(cmd.Context(), here, there, m, func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), s) })
		if err := errors.Join(err, there.Close()); err != nil {
			return err
		}
		return out.writeValue(cmd, done, func(text.Options) string { return text.GuestMigrated(done) })
	}
	return cmd
}
