package source

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/admin/migrate"
	"github.com/culvert-net/culvert/internal/admin/page"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/vf"
)

// mostPlans is how many nodes have a plan of one file.
const mostPlans = 50

// policy is a NodePolicy of a file or of the cluster.
type policy struct {
	desired.Policy
	selector map[string]string
}

// ReadPlans implements page.Source: the effect of each file alone. It reads the files anew, so that the
// page shows edits.
func (c *Cluster) ReadPlans(ctx context.Context) ([]page.Plan, error) {
	out := []page.Plan{}
	for _, file := range c.plans {
		plans, err := c.planFile(ctx, file)
		if err != nil {
			plans = []page.Plan{{File: file, Error: err.Error()}}
		}
		out = append(out, plans...)
	}
	return out, nil
}

func (c *Cluster) planFile(ctx context.Context, file string) ([]page.Plan, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, cli.ExplainFile(file, err)
	}
	policies, err := readPolicies(file, text)
	if err != nil {
		return nil, err
	}
	var nodes map[string]map[string]string
	if slices.ContainsFunc(policies, func(p policy) bool { return len(p.selector) > 0 }) {
		if nodes, err = c.cluster.NodeLabels(ctx); err != nil {
			return nil, fmt.Errorf("the nodeSelector in %s needs the labels of Nodes: %w", file, err)
		}
	}
	if err := c.awaitObjects(ctx); err != nil {
		return nil, err
	}
	present := readPresent(c.shared.Policies)
	states := slices.Collect(maps.Values(c.nodes))
	c.mu.Unlock()
	var out []page.Plan
	for _, s := range states {
		now, next, isAffected := replacePolicies(s, present, policies, nodes[s.Name])
		if isAffected {
			out = append(out, page.Plan{File: file, Node: s.Name, Plan: status.PlanPolicies(*s, now, next)})
		}
	}
	return boundPlans(file, out), nil
}

// readPolicies reads the NodePolicies of a file.
func readPolicies(file string, text []byte) (out []policy, err error) {
	for _, o := range migrate.ReadAll(file, text) {
		if o.Err != nil {
			return nil, o.Err
		}
		if o.Kind != "NodePolicy" {
			return nil, fmt.Errorf("%s has a %s: %w: --plan takes NodePolicies", cmp.Or(o.From, file), o.Kind, vf.ErrInvalid)
		}
		p, err := readPolicy(o.Name, o.Spec)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no NodePolicy: %w", file, vf.ErrInvalid)
	}
	return out, nil
}

// readPolicy reads a policy by the parser that culvertd has.
func readPolicy(name string, spec any) (policy, error) {
	p := policy{Policy: desired.Policy{Name: name}}
	var err error
	if p.Spec, err = desired.FromPolicy(name, spec); err != nil {
		return p, err
	}
	var cluster struct {
		NodeSelector map[string]string `json:"nodeSelector"`
		Priority     int32             `json:"priority"`
	}
	text, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(text, &cluster)
	}
	if err != nil {
		return p, fmt.Errorf("NodePolicy %s: %w: %s", name, vf.ErrInvalid, excerpt.Error(err))
	}
	p.selector, p.Priority = cluster.NodeSelector, cluster.Priority
	return p, nil
}

// readPresent returns the policies of the cluster, by name. culvertd does not follow those that cannot be
// read.
func readPresent(all []v1alpha1.NodePolicy) map[string]desired.Policy {
	out := map[string]desired.Policy{}
	for _, o := range all {
		if p, err := readPolicy(o.Name, o.Spec); err == nil {
			out[o.Name] = p.Policy
		}
	}
	return out
}

// replacePolicies returns the policies that select a node, and those that would if the cluster had the
// file's. isAffected is false if the file changes nothing of that.
func replacePolicies(s *v1alpha1.NodeState, present map[string]desired.Policy, file []policy, node map[string]string) (now, next []desired.Policy, isAffected bool) {
	inFile := func(name string) bool {
		return slices.ContainsFunc(file, func(p policy) bool { return p.Name == name })
	}
	for _, on := range s.Status.Policies {
		p, ok := present[on.Name]
		if !ok {
			continue
		}
		now = append(now, p)
		if inFile(on.Name) {
			isAffected = true
			continue
		}
		next = append(next, p)
	}
	for _, p := range file {
		if labels.SelectorFromSet(p.selector).Matches(labels.Set(node)) { // as culvertd selects its policies (package kube)
			next, isAffected = append(next, p.Policy), true
		}
	}
	return now, next, isAffected
}

// boundPlans orders plans, those that cannot be done or take VFs from owners first, and cuts them.
func boundPlans(file string, all []page.Plan) []page.Plan {
	rank := func(p page.Plan) int {
		bad := func(pf api.PFPlan) bool { return pf.Refused != "" || len(pf.Hurts) > 0 }
		switch {
		case slices.ContainsFunc(p.Plan.PFs, bad):
			return 0
		case len(p.Plan.PFs) > 0:
			return 1
		}
		return 2
	}
	slices.SortFunc(all, func(a, b page.Plan) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a.Node, b.Node)) })
	if len(all) == 0 {
		return []page.Plan{{File: file, Plan: api.Plan{PFs: []api.PFPlan{}, Notes: []string{"it selects no node that has a NodeState"}}}}
	}
	if more := len(all) - mostPlans; more > 0 {
		note := fmt.Sprintf("%d more nodes have plans that are not shown; the nodes where owners lose VFs come first", more)
		all = append(all[:mostPlans:mostPlans], page.Plan{File: file, Plan: api.Plan{PFs: []api.PFPlan{}, Notes: []string{note}}})
	}
	return all
}
