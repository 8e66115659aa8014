package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

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
	o                   cluster.Options
	kubernetes, guests  bool
	wires, runtime, cni string
}

func newUpCommand(name *string) *cobra.Command {
	f := upFlags{o: cluster.Options{Lab: lab.Options{Progress: os.Stderr}}}
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
  culvert lab up --kubernetes --names worker01,worker1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.bringUp(cmd, *name) },
	}
	f.addFlags(cmd)
	return cmd
}

func (f *upFlags) bringUp(cmd *cobra.Command, name string) (err error) {
	f.o.Lab.Name = name
	if f.o.Lab.JoinWires, err = parseWires(f.wires); err != nil {
		return err
	}
	if f.o.Runtime, err = cluster.ParseRuntime(f.runtime); err != nil {
		return err
	}
	if f.o.CNI, err = cluster.ParseCNI(f.cni); err != nil {
		return fmt.Errorf("--cni: %w", err)
	}
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
	cmd.Flags().IntVar(&f.o.Lab.Nodes, "nodes", 0, "how many nodes, 1 to 4 (2 unless they are named)")
	cmd.Flags().StringSliceVar(&f.o.Lab.Names, "names", nil, "the nodes' names (worker01 and up)")
	cmd.Flags().IntVar(&f.o.Lab.CPUs, "cpus", 1, "processors of each node")
	cmd.Flags().BoolVar(&f.o.Lab.NoSnapshot, "no-snapshot", false, "boot the nodes: neither use nor take a snapshot")
	cmd.Flags().IntVar(&f.o.Lab.PCIRoots, "pcie-roots", 1, "PCIe roots of each node: with 2 the PFs are enp1s0 and ens2, under one each")
	cmd.Flags().StringVar(&f.wires, "wires", wiresApart, "\"apart\": a switch for each wire; \"joined\": the two switches are linked")
	cmd.Flags().BoolVar(&f.kubernetes, "kubernetes", false, "make the nodes a Kubernetes cluster")
	cmd.Flags().StringVar(&f.runtime, "runtime", string(cluster.Containerd), "with --kubernetes: the nodes' container runtime, containerd or cri-o")
	cmd.Flags().StringVar(&f.cni, "cni", string(cluster.Flannel), "with --kubernetes: flannel, calico or calico-crosssubnet")
	cmd.Flags().BoolVar(&f.guests, "guests", false, "let the nodes run guests of libvirt, with Culvert installed")
	cmd.Flags().StringVar(&f.o.Source, "source", sourceTree(), "Culvert's source tree, for --kubernetes and --guests")
	cmd.MarkFlagsMutuallyExclusive("kubernetes", "guests")
}

// parseWires reports whether the wires' switches are linked.
func parseWires(wires string) (joined bool, err error) {
	if wires != wiresApart && wires != wiresJoined {
		return false, fmt.Errorf("--wires %q: want %s or %s", wires, wiresApart, wiresJoined)
	}
	return wires == wiresJoined, nil
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
