package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api/nodestate"
	"github.com/culvert-net/culvert/internal/exactjson"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// nodePolicies refuses policies that culvertd could not read. It warns of policies that change
// nothing, or want more VFs than the NICs have.
type nodePolicies struct {
	client client.Reader
}

// Handle is admission.Handler.
func (n *nodePolicies) Handle(ctx context.Context, req admission.Request) admission.Response {
	var p v1alpha1.NodePolicy
	if err := excerpt.DecodeJSON(req.Object.Raw, func(text []byte) error { return json.Unmarshal(text, &p) }); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the policy: %w", err))
	}
	spec, err := desired.FromPolicy(p.Name, p.Spec)
	if err == nil {
		err = findUnknownField(req.Object.Raw)
	}
	if err != nil {
		return admission.Denied(err.Error())
	}
	warnings, err := n.warnings(ctx, p.Spec, spec)
	if err != nil {
		warnings = []string{"not compared with the nodes' NICs: " + err.Error()}
	}
	return admission.Allowed("").WithWarnings(warnings...)
}

// findUnknownField returns an error that names a field of a policy's spec which this controller does
// not know. The API server's CustomResourceDefinition has it, so that one is newer. Nodes of the
// controller's version would not follow the policy.
func findUnknownField(policy []byte) error {
	var unknown exactjson.Unknown
	if errors.As(exactjson.DecodeSpec(policy, &v1alpha1.NodePolicySpec{}), &unknown) {
		return fmt.Errorf("spec: %w: the CustomResourceDefinitions are newer than the controller: upgrade Culvert first", unknown)
	}
	return nil
}

// mostWarnings is how many warnings a response has.
const mostWarnings = 8

func (n *nodePolicies) warnings(ctx context.Context, policy v1alpha1.NodePolicySpec, spec desired.Spec) ([]string, error) {
	var states v1alpha1.NodeStateList
	nodes := metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(nodeKind.GroupVersion().WithKind("NodeList"))
	if err := errors.Join(n.client.List(ctx, &states), n.client.List(ctx, &nodes)); err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	var (
		out      []string
		pfs      []vf.PF
		selected int
	)
	for _, node := range nodes.Items {
		if !labels.SelectorFromSet(policy.NodeSelector).Matches(labels.Set(node.Labels)) {
			continue
		}
		selected++
		for _, s := range states.Items {
			if s.Name != node.Name {
				continue
			}
			out = append(out, mixedPools(spec, s)...)
			for _, pf := range s.Status.PFs {
				pfs = append(pfs, nodestate.ToPF(pf))
				if want, ok := spec.ForPF(pfs[len(pfs)-1]); ok {
					if err := want.Check(pfs[len(pfs)-1]); err != nil {
						out = append(out, fmt.Sprintf("node %s: %v", node.Name, err))
					}
				}
			}
		}
	}
	if selected == 0 {
		out = append(out, "nodeSelector: no node has these labels")
	}
	if len(pfs) > 0 { // otherwise no node has reported its PFs
		out = append(out, idle(spec, pfs)...)
		out = append(out, idleMaintenance(policy.Maintenance, pfs)...)
	}
	return out[:min(len(out), mostWarnings)], nil
}

// mixedPools describes the pools of a policy that would be on two named segments of a node, as far
// as this policy names them.
func mixedPools(spec desired.Spec, s v1alpha1.NodeState) (out []string) {
	var pfs []vf.PF
	for _, pf := range s.Status.PFs {
		pfs = append(pfs, nodestate.ToPF(pf))
	}
	for i, p := range spec.Pools {
		if why := spec.ForecastMixedSegments(p.FullName(), pfs); why != "" {
			out = append(out, fmt.Sprintf("node %s: pools[%d]: pool %s would give out no VF: %s: %s", s.Name, i, p.FullName(), why, desired.MixedNext))
		}
	}
	return out
}

// idle describes the entries of a policy that match none of the PFs.
func idle(spec desired.Spec, pfs []vf.PF) []string {
	var out []string
	for _, r := range spec.Unmatched(pfs) {
		out = append(out, fmt.Sprintf("pfs: no PF of the selected nodes matches (%s)", r))
	}
	for i, p := range spec.Pools {
		if !slices.ContainsFunc(pfs, func(pf vf.PF) bool { return selects(p, spec, pf) }) {
			out = append(out, fmt.Sprintf("pools[%d]: pool %s selects no VF of the selected nodes: correct its selectors", i, p.FullName()))
		}
	}
	return out
}

// idleMaintenance describes the names of a maintenance that match none of the PFs.
func idleMaintenance(m *v1alpha1.Maintenance, pfs []vf.PF) (out []string) {
	if m == nil {
		return nil
	}
	for i, pattern := range m.PFs {
		if !slices.ContainsFunc(pfs, func(pf vf.PF) bool { return desired.IsNameOf(pattern, pf) }) {
			out = append(out, fmt.Sprintf("maintenance.pfs[%d]: no PF of the selected nodes has the name %s", i, excerpt.Quote(pattern)))
		}
	}
	return out
}

// selects reports whether a pool would have a VF of the PF with the PF's wanted number of VFs.
func selects(p desired.Pool, spec desired.Spec, pf vf.PF) bool {
	vfs := pf.NumVFs
	if want, ok := spec.ForPF(pf); ok {
		vfs = want.VFs
	}
	return p.SelectsOneOf(pf, vfs)
}
