package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/bench/place"
)

// systemNamespace is where the chart and the manifest install Culvert.
const systemNamespace = "culvert-system"

// clusterFlags is the cluster in which culvert bench run makes pods.
type clusterFlags struct {
	cluster                                      bool
	kubeconfig, kcontext, network, image, system string
	nodes                                        []string
}

func (c *clusterFlags) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&c.cluster, "cluster", false, "make pods in the cluster of the kubeconfig, by kubectl, and remove them afterwards")
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "the cluster of this `FILE` (default $KUBECONFIG, ~/.kube/config)")
	f.StringVar(&c.kcontext, "context", "", "the cluster of this context of the kubeconfig")
	f.StringSliceVar(&c.nodes, "nodes", nil, "with --cluster: the node where traffic starts and the one where it stops; one for both")
	f.StringVar(&c.network, "network", "", "with --cluster: NAMESPACE/NAME of the network that gives the pods a VF; they are in that namespace")
	f.StringVar(&c.system, "system-namespace", systemNamespace, "with --cluster: the namespace in which Culvert is installed; pods in the nodes' own networks are made there")
	f.StringVar(&c.image, "image", "", "with --cluster: what the pods run (default culvertd's image)")
	contexts := func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return place.Contexts(cmd.Context(), c.kubeconfig), cobra.ShellCompDirectiveNoFileComp
	}
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("context", contexts)) // only if the flag were not there
}

// isWanted reports whether the caller gave a flag that only applies to a cluster.
func (c *clusterFlags) isWanted() bool {
	return c.cluster || c.kubeconfig != "" || c.kcontext != "" || len(c.nodes) > 0 || c.network != "" || c.image != "" || c.system != systemNamespace
}

// checkFlags checks the flags, and returns the cluster that they select.
func (c *clusterFlags) checkFlags() (place.Cluster, error) {
	if len(c.nodes) < 1 || len(c.nodes) > 2 {
		return place.Cluster{}, errors.New("on which nodes? Name two with --nodes A,B, or one: kubectl get nodes")
	}
	namespace, network, found := strings.Cut(c.network, "/")
	if !found {
		namespace, network = "default", c.network
	}
	kubectl := []string{"kubectl"}
	if c.kubeconfig != "" {
		kubectl = append(kubectl, "--kubeconfig", c.kubeconfig)
	}
	if c.kcontext != "" {
		kubectl = append(kubectl, "--context", c.kcontext)
	}
	return place.Cluster{Kubectl: kubectl, Namespace: namespace, System: c.system, Network: network, Image: c.image, From: c.nodes[0], To: c.nodes[len(c.nodes)-1]}, nil
}
