package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/lab"
)

func newLinkCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "link NODE PF up|down",
		Short: "Plug the cable of a PF in, or pull it",
		Long: `Pulls the cable of a PF, as a hand at the switch would, or plugs it in. The PF is
pf1 or pf2, or its interface (enp1s0) or PCI address. It stays so over a reboot.`,
		Example: `  culvert lab link worker01 enp2s0 down
  culvert lab link worker01 pf2 up`,
		Args: cobra.ExactArgs(3),
		RunE: func(_ *cobra.Command, args []string) error {
			if args[2] != "up" && args[2] != "down" {
				return fmt.Errorf("link %s %s %q: want up or down", args[0], args[1], args[2])
			}
			return withLab(*name, func(l *lab.Lab) error { return l.Link(args[0], args[1], args[2] == "up") })
		},
	}
}

func newRebootCommand(name *string) *cobra.Command {
	return nodeCommand(name, "reboot", "Reboot a node in order, and wait until it takes commands",
		"A node that is off is powered on.", (*lab.Lab).Reboot)
}

func newStartCommand(name *string) *cobra.Command {
	return nodeCommand(name, "start", "Power a node on that is off, and wait until it takes commands",
		"Its disk is as it was when the power went.", (*lab.Lab).Start)
}

func newKillCommand(name *string) *cobra.Command {
	return nodeCommand(name, "kill", "Cut a node's power",
		"Nothing is shut down or written. 'culvert lab start' powers the node on again.",
		func(l *lab.Lab, _ context.Context, node string) error { return l.Kill(node) })
}

// nodeCommand returns a command that does one thing to one node.
func nodeCommand(name *string, verb, short, long string, do func(*lab.Lab, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:     verb + " NODE",
		Short:   short,
		Long:    short + ".\n" + long,
		Example: "  culvert lab " + verb + " worker02",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withLab(*name, func(l *lab.Lab) error { return do(l, cmd.Context(), args[0]) })
		},
	}
}

func newCopyCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "cp SRC... NODE:DEST",
		Short: "Copy files and folders to a node",
		Long: `Copies files and folders with their modes, owned by root. A DEST that ends with
a slash is a folder to copy into; with several sources it always is one.`,
		Example: `  culvert lab cp build/culvertd worker01:/usr/local/bin/culvertd
  culvert lab cp manifests host.yaml worker01:/etc/culvert/`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			sources, target := args[:len(args)-1], args[len(args)-1]
			node, dest, ok := strings.Cut(target, ":")
			if !ok || !strings.HasPrefix(dest, "/") {
				return fmt.Errorf("copy to %q: want NODE:/PATH, such as worker01:/opt/", target)
			}
			if len(sources) > 1 && !strings.HasSuffix(dest, "/") {
				dest += "/"
			}
			return withLab(*name, func(l *lab.Lab) error {
				for _, src := range sources {
					if err := l.Copy(cmd.Context(), node, src, dest); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// withLab runs do on a lab that is up.
func withLab(name string, do func(*lab.Lab) error) error {
	l, err := lab.Open(name)
	if err != nil {
		return err
	}
	defer l.Close()
	return do(l)
}
