package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/lab/demo"
)

// newDemoCommand returns the command that `make demo` runs. The lab is "demo" unless the caller
// names another.
func newDemoCommand(name *string) *cobra.Command {
	o := demo.Options{Attachments: 20, Guests: 2, CNI: cluster.Flannel}
	kubernetes, guests := false, false
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the main job: VFs made, given to containers, measured, taken back",
		Long: `Boots two nodes and installs Culvert on them, which makes 28 VFs. It starts a
container on each node with two interfaces over the same wire: a VF, and an
overlay as Flannel makes it. It runs culvert bench over both, shows the owner of
each VF, deletes the containers, and compares every VF with its earlier state.

It prints the figures beside those of report R0 from real hardware, and writes
report.txt, report.html with report.json.gz, and demo.json. The exit status is
not 0 when a check fails. It needs the source tree, with 'make build' done.

With --kubernetes the nodes are a cluster's, Culvert is installed on it by its
manifest, and report R0's objects are applied as they stand. It also times pods
with a VF and without, starts and deletes many at once, and writes demo-k8s.json.
--cni calico sets Calico against the VF, as report R0 did, in place of Flannel.

With --guests each node runs a guest of libvirt with a VF, and a container beside
it, on one VLAN. The demo shows that they reach each other, the owner of each VF,
and a refusal when the pool is used up. It shows that all VFs come back after QEMU
was killed. It writes demo-vm.json.`,
		Example: `  culvert lab demo --out build/demo
  culvert lab demo --kubernetes --attachments 100
  culvert lab demo --kubernetes --cni calico
  culvert lab demo --out /tmp/demo --keep     # and look around afterwards`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Name = *name; !cmd.Flags().Changed("name") {
				o.Name = demo.DefaultName
			}
			o.Log = os.Stdout
			screen := cli.ScreenOf(os.Stdout, os.Getenv)
			o.Live, o.Look = screen.Terminal, screen.Look
			switch {
			case kubernetes:
				return demo.RunKubernetes(cmd.Context(), o)
			case guests:
				return demo.RunGuests(cmd.Context(), o)
			}
			return demo.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Out, "out", "build/demo", "folder for the reports")
	cmd.Flags().StringVar(&o.Source, "source", sourceTree(), "Culvert's source tree")
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "leave the lab up")
	cmd.Flags().BoolVar(&o.Up, "up", false, "the lab is up, without Culvert (with it, for --guests): use it, and leave it up")
	cmd.Flags().BoolVar(&kubernetes, "kubernetes", false, "on a Kubernetes cluster")
	cmd.Flags().BoolVar(&guests, "guests", false, "with guests of libvirt")
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "measure once and briefly: shows that everything works, and the figures say little")
	cli.AddCount(cmd, &o.Attachments, "attachments", 1, 1000, "with --kubernetes: how many pods of each kind")
	cli.AddChoice(cmd, &o.CNI, "cni", "with --kubernetes: the default network", cluster.Flannel, cluster.Calico, cluster.CalicoCrossSubnet)
	cli.AddCount(cmd, &o.Guests, "guest-nodes", 1, 2, "with --guests: how many of the two nodes run a guest")
	cmd.MarkFlagsMutuallyExclusive("kubernetes", "guests")
	cmd.MarkFlagsMutuallyExclusive("up", "keep")
	return cmd
}

// sourceTree returns the folder where the program was built, if it still is in build/bin, and
// else the working directory.
func sourceTree() string {
	self, err := os.Executable()
	if err != nil {
		return "."
	}
	bin := filepath.Dir(self)
	if filepath.Base(bin) == "bin" && filepath.Base(filepath.Dir(bin)) == "build" {
		return filepath.Dir(filepath.Dir(bin))
	}
	return "."
}
