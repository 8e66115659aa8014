package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/guest/admin"
)

func newVMMigrateCommand(n *node) *cobra.Command {
	m := admin.Migration{}
	cmd := &cobra.Command{
		Use:   "migrate GUEST HOST",
		Short: "Move a guest to another host, with VFs of that host",
		Long: `Moves a guest, named by its name or UUID, to a host with culvertd and libvirt. ssh
reaches it as HOST, by a key, as a user who may use their sockets (root). The
guest gets VFs of that host's pools of the same names, or of --pool, with the same
MAC addresses, VLANs and settings. Its definition moves, and whether it starts
with the host. The VFs that it had here are free then.

Storage is not moved: disks, kernel and firmware have to be on HOST under the same
paths, shared (NFS, a SAN). That they are there is checked.

The guest has to be off; --shutdown shuts it down. --live migrates it as it runs,
if each of its VFs is the fast path of a virtio interface (culvert vm attach
--failover): the VF is unplugged, the guest migrated by virsh, and a VF of HOST
plugged in.

At no time can the guest start on both hosts. What fails is undone; what is
interrupted is completed or begun anew when it is asked for again.`,
		Example: `  culvert vm migrate db1 root@host2
  culvert vm migrate db1 root@host2 --shutdown --pool fast
  culvert vm migrate db1 root@host2 --live`,
		Args: cobra.ExactArgs(2),
	}
	f := cmd.Flags()
	f.StringVar(&m.Pool, "pool", "", "the pool of HOST, as prefix/name or name; those of the same names when not given")
	f.BoolVar(&m.Live, "live", false, "migrate the guest as it runs")
	f.BoolVar(&m.Shutdown, "shutdown", false, "shut the guest down before")
	cmd.MarkFlagsMutuallyExclusive("live", "shutdown")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m.Guest = args[0]
		here, err := admin.Here(n.socket)
		if err != nil {
			return err
		}
		there, err := admin.Open(cmd.Context(), args[1])
		if err != nil {
			return err
		}
		err = admin.Migrate(cmd.Context(), here, there, m, func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), s) })
		if err := errors.Join(err, there.Close()); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "vm %s is on %s\n", m.Guest, args[1])
		return nil
	}
	return cmd
}
