package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/why"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/status/text"
	"github.com/culvert-net/culvert/internal/vf"
)

// newWhyCommand asks a cluster about a pod, and this host about a guest.
func newWhyCommand(p *place) *cobra.Command {
	namespace := ""
	cmd := &cobra.Command{
		Use:   "why pod/NAME | guest/NAME",
		Short: "Explain what a pod or a guest waits for",
		Long: `Explains why a pod or a guest does not run, or what is wrong with its VFs: what it
waits for, since when, who holds that, and what would help.

For a pod it reads, in the cluster of the kubeconfig, the pod, its events, its
networks, the Nodes and Culvert's objects. The role view permits that; without the
right to list Nodes the answer leaves out what only they show. For a guest it asks
the culvertd of this host.

The first cause is the most probable one. The exit status is 0 if the answer was
found, also when the pod waits; scripts look at .state and .causes of -o json.`,
		Example: `  culvert why pod/db-0
  culvert why pod/db-0 -n prod
  culvert why guest/db1
  culvert why pod/db-0 -o json | jq -r '.causes[0].text'`,
		Args: cobra.RangeArgs(1, 2),
	}
	p.addClusterFlags(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "the pod's `NAMESPACE` (default: the kubeconfig's)")
	out := addOutput(cmd, false)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, start string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return p.completeSubjects(cmd.Context(), args, start, namespace), cobra.ShellCompDirectiveNoFileComp
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kind, name, err := parseSubject(args)
		if err != nil {
			return err
		}
		ask := p.whyPod
		if kind == "guest" {
			ask = p.whyGuest
		}
		answer, err := ask(cmd, namespace, name)
		if err != nil {
			return err
		}
		return out.writeValue(cmd, answer, func(o text.Options) string { return text.Why(answer, o) })
	}
	return cmd
}

// parseSubject reads "pod/NAME", "pod NAME", "guest/NAME" or "guest NAME". NAME alone is a pod's.
func parseSubject(args []string) (kind, name string, err error) {
	kind, name, found := strings.Cut(strings.Join(args, "/"), "/")
	if !found {
		kind, name = "pod", kind
	}
	switch kind {
	case "pod", "pods", "po":
		kind = "pod"
	case "guest", "vm":
		kind = "guest"
	default:
		return "", "", fmt.Errorf("%s: %w: culvert why explains pods and guests: culvert why pod/NAME, culvert why guest/NAME", kind, vf.ErrInvalid)
	}
	if name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("%s: %w: name one %s: culvert why %[3]s/NAME (-n names the namespace of a pod)", strings.Join(args, " "), vf.ErrInvalid, kind)
	}
	return kind, name, nil
}

// whyPod reads a pod and what it may wait for.
func (p *place) whyPod(cmd *cobra.Command, namespace, name string) (api.Why, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), statusBound)
	defer cancel()
	c, err := p.openCluster()
	if err != nil {
		return api.Why{}, err
	}
	if namespace == "" {
		namespace = c.Namespace
	}
	facts, err := c.ReadPod(ctx, namespace, name)
	if err != nil {
		return api.Why{}, err
	}
	o, err := c.Read(ctx, "")
	if err != nil {
		return api.Why{}, err
	}
	facts.Cluster, facts.Policies = assembleCluster(c.Name, o), o.Policies
	return why.OfPod(facts), nil
}

// whyGuest reads this host's status and events.
func (p *place) whyGuest(cmd *cobra.Command, _, name string) (api.Why, error) {
	if p.wanted {
		return api.Why{}, errors.New("a cluster's objects have no guests of libvirt: on the guest's host, run culvert why guest/" + name)
	}
	st, err := p.node.readStatus(cmd.Context())
	if err != nil {
		return api.Why{}, err
	}
	events, err := p.node.listEvents(cmd.Context(), api.EventsRequest{})
	if err != nil {
		return api.Why{}, err
	}
	return why.OfGuest(st, events, name)
}

// completeSubjects offers the kinds, then the pods of the namespace or the guests with VFs.
func (p *place) completeSubjects(ctx context.Context, args []string, start, namespace string) []cobra.Completion {
	ctx, cancel := context.WithTimeout(ctx, completionBound)
	defer cancel()
	var out []cobra.Completion
	switch {
	case len(args) > 0:
	case strings.HasPrefix(start, "guest/"):
		st, err := p.node.readStatus(ctx)
		if err != nil {
			return nil
		}
		for _, v := range st.VFs {
			if v.Owner != nil && v.Owner.Kind == vf.OwnerGuest {
				out = append(out, "guest/"+v.Owner.Name)
			}
		}
	default:
		c, err := p.openCluster()
		if err != nil {
			return nil
		}
		if namespace == "" {
			namespace = c.Namespace
		}
		names, err := c.PodNames(ctx, namespace)
		if err != nil {
			return nil
		}
		for _, name := range names {
			out = append(out, "pod/"+name)
		}
	}
	return out
}
