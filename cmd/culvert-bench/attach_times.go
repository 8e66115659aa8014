package main

import (
	"encoding/json"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/admin/cli"
)

// newAttachTimesCommand makes the command that the demo runs on a node.
func newAttachTimesCommand() *cobra.Command {
	var p bench.Plugin
	var config string
	times := 20
	cmd := &cobra.Command{
		Use:   "attach-times",
		Short: "Time a CNI plugin's ADD and DEL, and print nanoseconds as JSON",
		Long: `Runs a CNI plugin to attach an interface to a network namespace and detach it,
several times, and prints the duration of each. The demo runs it on its nodes.`,
		Example: `  culvert bench attach-times --config /etc/cni/net.d/a.conf --netns /run/netns/a`,
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if p.Config, err = os.ReadFile(config); err != nil {
				return err
			}
			took, err := bench.Attachments(cmd.Context(), p, times)
			return errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(took))
		},
	}
	cmd.Flags().StringVar(&p.Path, "plugin", "/opt/cni/bin/culvert", "the CNI plugin")
	cmd.Flags().StringVar(&config, "config", "", "file with the network's configuration")
	cmd.Flags().StringVar(&p.Netns, "netns", "", "path of the network namespace")
	cmd.Flags().StringVar(&p.Interface, "interface", "net1", "name of the interface")
	cli.AddCount(cmd, &times, "times", 1, 100000, "how many")
	return cmd
}
