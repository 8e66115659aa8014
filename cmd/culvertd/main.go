// Command culvertd owns every VF of a node: it makes them, gives them out,
// takes them back clean, and answers on a unix socket.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/daemon"
	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/rpc"
)

// version is set by the linker.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "culvertd:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var (
		c     daemon.Config
		debug bool
	)
	cmd := &cobra.Command{
		Use:   "culvertd",
		Short: "Own the SR-IOV Virtual Functions of this node",
		Long: `culvertd makes the Virtual Functions that host.yaml wants, gives them to pods,
containers and virtual machines, takes them back clean, and keeps a ledger of
who has which. It runs as root, one on a host, normally by systemd:

  systemctl enable --now culvertd
  culvert status

It re-applies host.yaml at every start, finishes or undoes what an earlier run
left half done, and tells systemd when the VFs are there, so that kubelet and
libvirtd can be ordered after it.`,
		Example: `  # in the foreground, with all it does to the kernel
  culvertd --debug

  # a second look at another configuration, away from the system's own files
  culvertd --host ./host.yaml --ledger ./ledger.db --socket ./culvertd.sock`,
		Args:          cobra.NoArgs,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			level := slog.LevelInfo
			if debug {
				level = slog.LevelDebug
			}
			c.Version = version
			c.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
			return daemon.Run(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.HostFile, "host", desired.DefaultPath, "what is wanted of this host")
	f.StringVar(&c.Ledger, "ledger", journal.DefaultPath, "the ledger of who has which VF")
	f.StringVar(&c.Socket, "socket", rpc.DefaultSocket, "where culvert and culvert-cni reach culvertd")
	f.BoolVar(&c.Kubernetes, "kubernetes", false, "this host is a node of a cluster: give the pools to its kubelet")
	f.StringVar(&c.KubeletDir, "kubelet-dir", daemon.DefaultKubeletDir, "root folder of the node's kubelet")
	f.BoolVar(&debug, "debug", false, "log every change to the kernel")
	return cmd
}
