package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/lab/demo"
)

// The values of --wires.
const (
	wiresApart  = "apart"
	wiresJoined = "joined"
)

// upFlags are the flags of culvert lab up.
type upFlags struct {
	o                  cluster.Options
	kubernetes, guests bool
	wires              string
}

func newUpCommand(name *string) *cobra.Command {
	f := upFlags{
		o:     cluster.Options{Lab: lab.Options{CPUs: 1, PCIRoots: 1, Progress: os.Stderr}, Runtime: cluster.Containerd, CNI: cluster.Flannel, Version: cluster.Current},
		wires: wiresApart,
	}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring a lab up, and wait until its nodes take commands",
		Long: `Builds the nodes' image if it is not in the cache (a few minutes, once), powers
the nodes on, and returns when they take commands. Ctrl-C takes all of it back.
A lab that is up already is left as it is.

With --kubernetes the nodes are those of a Kubernetes cluster, with Flannel and
CoreDNS, and are waited for until they are Ready. Kubernetes is built from its
Go modules if it is not in the cache (ten minutes or more, once); this needs
Culvert's source tree. Prints the KUBECONFIG to use: kubectl, helm and other
clients on this host reach the API server through a port of the loopback.
--kubernetes-version 1.34.3 takes that release, built besides (ten minutes more).

With --runtime cri-o the nodes run CRI-O in place of containerd. It is built from
its Go module too, and the nodes' image is another one (ten minutes more, once).
--cni names the default network of the cluster's pods: flannel or calico, both
with VXLAN and an MTU of 1450. calico is its own manifest, with its network
policies. calico-crosssubnet encapsulates nothing between nodes of one subnet.

With --guests the nodes have libvirt and QEMU, a small guest to boot
(/boot/guest), and Culvert installed, with a pool for guests and one for
containers. Their image is another one, built once. This needs the source tree
with 'make build' done.`,
		Example: `  culvert lab up
  culvert lab up --nodes 4 --name big
  culvert lab up --guests
  culvert lab up --kubernetes
  culvert lab up --kubernetes --runtime cri-o
  culvert lab up --kubernetes --cni calico
  culvert lab up --kubernetes --kubernetes-version 1.34.3
  culvert lab up --kubernetes --names worker01,worker1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.bringUp(cmd, *name) },
	}
	f.addFlags(cmd)
	return cmd
}

func (f *upFlags) bringUp(cmd *cobra.Command, name string) error {
	f.o.Lab.Name = name
	f.o.Lab.JoinWires = f.wires == wiresJoined
	if f.kubernetes {
		return upKubernetes(cmd, f.o)
	}
	up := lab.Up
	if f.guests {
		up = func(ctx context.Context, labOptions lab.Options) (*lab.Lab, error) {
			return demo.UpGuests(ctx, labOptions, f.o.Source)
		}
	}
	l, err := up(cmd.Context(), f.o.Lab)
	if err != nil {
		return err
	}
	return l.Close()
}

func (f *upFlags) addFlags(cmd *cobra.Command) {
	cli.AddCount(cmd, &f.o.Lab.Nodes, "nodes", 1, 4, "how many nodes, 1 to 4 (2 unless they are named)")
	cmd.Flags().StringSliceVar(&f.o.Lab.Names, "names", nil, "the nodes' names (worker01 and up)")
	cli.AddCount(cmd, &f.o.Lab.CPUs, "cpus", 1, 64, "processors of each node")
	cmd.Flags().BoolVar(&f.o.Lab.NoSnapshot, "no-snapshot", false, "boot the nodes: neither use nor take a snapshot")
	cli.AddCount(cmd, &f.o.Lab.PCIRoots, "pcie-roots", 1, 2, "PCIe roots of each node: with 2 the PFs are enp1s0 and ens2, under one each")
	cli.AddChoice(cmd, &f.wires, "wires", "a switch for each wire, or linked switches", wiresApart, wiresJoined)
	cmd.Flags().BoolVar(&f.kubernetes, "kubernetes", false, "make the nodes a Kubernetes cluster")
	cli.AddChoice(cmd, &f.o.Runtime, "runtime", "with --kubernetes: the nodes' container runtime", cluster.Containerd, cluster.CRIO)
	cli.AddChoice(cmd, &f.o.CNI, "cni", "with --kubernetes: the default network", cluster.Flannel, cluster.Calico, cluster.CalicoCrossSubnet)
	cli.AddChoice(cmd, &f.o.Version, "kubernetes-version", "with --kubernetes: its version", cluster.Current, cluster.Earlier)
	cmd.Flags().BoolVar(&f.guests, "guests", false, "let the nodes run guests of libvirt, with Culvert installed")
	cmd.Flags().StringVar(&f.o.Source, "source", sourceTree(), "Culvert's source tree, for --kubernetes and --guests")
	cmd.MarkFlagsMutuallyExclusive("kubernetes", "guests")
}

func newDownCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Take a lab down",
		Long: `Ends the machines and removes the disks, sockets, logs and the network of a lab.
It also clears away a lab whose processes were killed. The cached image stays.`,
		Example: `  culvert lab down
  culvert lab down --name big`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return lab.Down(cmd.Context(), *name) },
	}
}
