package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/bench/place"
)

// systemNamespace is where the chart and the manifest install Culvert.
const systemNamespace = "culvert-system"

// clusterFlags is the cluster in which culvert bench run makes pods.
type clusterFlags struct {
	cluster                             bool
	kubeconfig, kcontext, image, system string
	nodes, networks                     []string
}

func (c *clusterFlags) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&c.cluster, "cluster", false, "make pods in the cluster of the kubeconfig, by kubectl, and remove them afterwards")
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "the cluster of this `FILE` (default $KUBECONFIG, ~/.kube/config)")
	f.StringVar(&c.kcontext, "context", "", "the cluster of this context of the kubeconfig")
	f.StringSliceVar(&c.nodes, "nodes", nil, "with --cluster: the node where traffic starts and the one where it stops; one for both")
	f.StringSliceVar(&c.networks, "network", nil, "with --cluster: NAMESPACE/NAME of the network that gives the pods a VF; they are in that namespace. Twice: that of the pod where traffic starts, and that of the other")
	f.StringVar(&c.system, "system-namespace", systemNamespace, "with --cluster: the namespace in which Culvert is installed; pods in the nodes' own networks are made there")
	f.StringVar(&c.image, "image", "", "with --cluster: what the pods run (default culvertd's image)")
	contexts := func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return place.Contexts(cmd.Context(), c.kubeconfig), cobra.ShellCompDirectiveNoFileComp
	}
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("context", contexts)) // only if the flag were not there
}

// isWanted reports whether the caller gave a flag that only applies to a cluster.
func (c *clusterFlags) isWanted() bool {
	return c.cluster || c.kubeconfig != "" || c.kcontext != "" || len(c.nodes) > 0 || len(c.networks) > 0 || c.image != "" || c.system != systemNamespace
}

// checkFlags checks the flags, and returns the cluster that they select. via is the node of a pod in the
// middle; empty for none.
func (c *clusterFlags) checkFlags(via string) (place.Cluster, error) {
	switch {
	case len(c.nodes) < 1 || len(c.nodes) > 2:
		return place.Cluster{}, errors.New("on which nodes? Name two with --nodes A,B, or one: kubectl get nodes")
	case len(c.networks) > 2:
		return place.Cluster{}, fmt.Errorf("--network %s: take one network for both pods, or two: that of the pod where traffic starts, and that of the other", strings.Join(c.networks, ","))
	case via != "" && len(c.networks) != 2:
		return place.Cluster{}, errors.New("--via with --cluster makes a pod on that node that routes from one network to another: name both, --network A --network B")
	}
	kubectl := []string{"kubectl"}
	if c.kubeconfig != "" {
		kubectl = append(kubectl, "--kubeconfig", c.kubeconfig)
	}
	if c.kcontext != "" {
		kubectl = append(kubectl, "--context", c.kcontext)
	}
	out := place.Cluster{Kubectl: kubectl, System: c.system, Image: c.image, Via: via}
	for i, seat := range []*place.Seat{&out.From, &out.To} {
		seat.Node, seat.Namespace = c.nodes[min(i, len(c.nodes)-1)], "default"
		if len(c.networks) == 0 {
			continue
		}
		seat.Network = c.networks[min(i, len(c.networks)-1)]
		if namespace, network, found := strings.Cut(seat.Network, "/"); found {
			seat.Namespace, seat.Network = namespace, network
		}
	}
	return out, nil
}
