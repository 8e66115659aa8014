package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/clusterview"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/rpc"
)

// place is the source that a command reads: this node, through its culvertd, or a cluster,
// through its API server.
type place struct {
	node
	wanted               bool // a flag or the plugin selects the cluster
	kubeconfig, kcontext string
	nodeName             string // in the cluster; empty: all
}

// addFlags gives cmd and those below it the flags that choose a cluster, and a node of it.
func (p *place) addFlags(cmd *cobra.Command) {
	p.addClusterFlags(cmd)
	cmd.PersistentFlags().StringVar(&p.nodeName, "node", "", "ask the cluster about this node alone")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("node", p.completeNode)) // only if the flag were not there
}

// addClusterFlags gives cmd and those below it the flags that choose a cluster.
func (p *place) addClusterFlags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&p.kubeconfig, "kubeconfig", "", "ask the cluster of this `FILE` (default $KUBECONFIG, ~/.kube/config)")
	f.StringVar(&p.kcontext, "context", "", "ask the cluster of this context of the kubeconfig")
	contexts := func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return clusterview.Contexts(p.kubeconfig), cobra.ShellCompDirectiveNoFileComp
	}
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("context", contexts)) // only if the flag were not there
}

// inCluster reports whether the command reads a cluster: its flags select one, or it is
// kubectl's plugin.
func (p *place) inCluster() bool {
	return p.wanted || p.kubeconfig != "" || p.kcontext != "" || p.nodeName != ""
}

// readCluster returns the status of the cluster, or of one of its nodes.
func (p *place) readCluster(ctx context.Context) (api.ClusterStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, statusBound)
	defer cancel()
	c, err := p.openCluster()
	if err != nil {
		return api.ClusterStatus{}, err
	}
	o, err := c.Read(ctx, p.nodeName)
	if err != nil {
		return api.ClusterStatus{}, err
	}
	return assembleCluster(c.Name, o), nil
}

// assembleCluster makes the status of a cluster from its objects.
func assembleCluster(name string, o clusterview.Objects) api.ClusterStatus {
	return status.AssembleCluster(status.Cluster{
		Name: name, Now: time.Now(), States: o.States, Policies: o.Policies, Pools: o.Pools, Daemons: o.Daemons,
	})
}

// openCluster returns a client for the cluster that the kubeconfig names.
func (p *place) openCluster() (*clusterview.Cluster, error) {
	return clusterview.Open(p.kubeconfig, p.kcontext, "culvert/"+version)
}

// mergedStatus returns the status of this node, or of all nodes of the cluster in one.
func (p *place) mergedStatus(ctx context.Context) (api.NodeStatus, error) {
	if !p.inCluster() {
		st, err := p.node.readStatus(ctx)
		if errors.Is(err, rpc.ErrNoDaemon) {
			err = fmt.Errorf("%w; --cluster asks a Kubernetes cluster instead", err)
		}
		return st, err
	}
	c, err := p.readCluster(ctx)
	if err != nil {
		return api.NodeStatus{}, err
	}
	if len(c.Nodes) == 1 {
		return c.Nodes[0], nil
	}
	all := api.NodeStatus{Time: c.Time, PFs: []api.PF{}, VFs: []api.VF{}, Pools: []api.Pool{}, Problems: []api.Problem{}}
	for _, n := range c.Nodes {
		all.PFs = append(all.PFs, n.PFs...)
		all.VFs = append(all.VFs, n.VFs...)
		all.Pools = append(all.Pools, n.Pools...)
	}
	return all, nil
}

// completeWords offers words of the status; none when there is no answer.
func (p *place) completeWords(words func(api.NodeStatus) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionBound)
		defer cancel()
		st, err := p.mergedStatus(ctx)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(st), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag completes the value of a flag like completeWords.
func (p *place) completeFlag(cmd *cobra.Command, flag string, words func(api.NodeStatus) []string) {
	complete := p.completeWords(words)
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, start string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(cmd, nil, start)
	})
	cobra.CheckErr(err) // only if the flag were not there
}

// completeNode offers the nodes of the cluster.
func (p *place) completeNode(cmd *cobra.Command, _ []string, start string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionBound)
	defer cancel()
	all := place{kubeconfig: p.kubeconfig, kcontext: p.kcontext}
	c, err := all.readCluster(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, n := range c.Nodes {
		names = append(names, n.Node)
	}
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, start) }), cobra.ShellCompDirectiveNoFileComp
}
