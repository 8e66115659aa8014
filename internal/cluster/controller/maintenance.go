package controller

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api/nodestate"
	"github.com/culvert-net/culvert/internal/excerpt"
	vfclaim "github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// taintRuleKind is that of the rules that taint devices (Kubernetes 1.37, k8s.io/api/resource/v1,
// DeviceTaintRule). This module's version of the API does not have it yet.
var taintRuleKind = schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceTaintRule"}

const (
	// taintRulePrefix begins the names of the controller's rules.
	taintRulePrefix = "culvert-"
	// maintenanceTaint is the key of their taints.
	maintenanceTaint = vfclaim.Driver + "/maintenance"
	// ruleNode and rulePF are annotations of a rule: the node, and the PF's name there.
	ruleNode, rulePF = vfclaim.Driver + "/node", vfclaim.Driver + "/pf"
	// maintenanceLook is how often the controller examines the rules of a maintenance.
	maintenanceLook = 5 * time.Second
)

// maintained is a PF with a maintenance.
type maintained struct {
	node, pf, pool string
	state          *v1alpha1.NodeState // nil: it has none, or does not list the PF now
}

// keepMaintenance writes and deletes rules until a policy has those of its maintenance, and sets the
// policy's condition. again is whether the rules have to be examined again soon. The rules belong to the policy: Kubernetes
// deletes them after it.
//
// The condition is written before the first rule, so that it stands as long as there are rules.
func (p *Policies) keepMaintenance(ctx context.Context, policy *v1alpha1.NodePolicy, nodes []metav1.PartialObjectMetadata, states []v1alpha1.NodeState) (again bool, _ error) {
	condition := func(is metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&policy.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionMaintenance, Status: is, Reason: reason,
			Message: message, ObservedGeneration: policy.Generation, LastTransitionTime: metav1.NewTime(p.Now())})
	}
	m, had := policy.Spec.Maintenance, meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionMaintenance)
	switch {
	case m == nil && had == nil:
		return false, nil
	case had == nil:
		condition(metav1.ConditionFalse, reasons.Beginning, "the DeviceTaintRules are not written yet")
		return true, nil
	}
	rules, err := p.listRules(ctx, policy)
	if meta.IsNoMatchError(err) {
		condition(metav1.ConditionFalse, reasons.NoTaintRules, "the cluster has no DeviceTaintRules: they need Kubernetes 1.37 or newer")
		if m == nil {
			meta.RemoveStatusCondition(&policy.Status.Conditions, v1alpha1.ConditionMaintenance)
		}
		return false, nil
	}
	if err != nil {
		return true, err
	}
	var wanted []maintained
	if m != nil {
		wanted = findMaintained(policy, nodes, states, rules)
	}
	if err := p.writeRules(ctx, policy, wanted, rules); err != nil {
		condition(metav1.ConditionFalse, reasons.NotWritten, excerpt.Error(err))
		return true, err
	}
	if m == nil {
		meta.RemoveStatusCondition(&policy.Status.Conditions, v1alpha1.ConditionMaintenance)
		return false, nil
	}
	if len(wanted) == 0 {
		condition(metav1.ConditionFalse, reasons.NoPF, "no PF with VFs on the selected nodes has such a name: compare nodeSelector and maintenance.pfs with kubectl get nodestates -o yaml")
		return true, nil
	}
	condition(metav1.ConditionTrue, reasonOf(m.Effect), describeMaintenance(wanted, rules, policy))
	return true, nil
}

// reasonOf returns the reason of the condition Maintenance for an effect.
func reasonOf(effect string) string {
	switch effect {
	case "NoExecute":
		return reasons.NoExecute
	case "NoSchedule":
		return reasons.NoSchedule
	}
	return reasons.DryRun
}

// listRules returns the rules of a policy by their names. It asks the API server.
func (p *Policies) listRules(ctx context.Context, policy *v1alpha1.NodePolicy) (map[string]*unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(taintRuleKind)
	if err := p.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("NodePolicy %s: list DeviceTaintRules: %w", policy.Name, err)
	}
	out := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		o := &list.Items[i]
		if slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == policy.UID }) && strings.HasPrefix(o.GetName(), taintRulePrefix) {
			out[o.GetName()] = o
		}
	}
	return out, nil
}

// findMaintained returns the PFs with a maintenance, in the order of their nodes and names. A PF that a
// rule names, and that its node does not list now, keeps its rule: it may be out of the machine.
func findMaintained(policy *v1alpha1.NodePolicy, nodes []metav1.PartialObjectMetadata, states []v1alpha1.NodeState, rules map[string]*unstructured.Unstructured) (out []maintained) {
	matches := func(pf vf.PF) bool {
		patterns := policy.Spec.Maintenance.PFs
		return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return desired.IsNameOf(p, pf) })
	}
	isSelected, listed := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		isSelected[n.Name] = labels.SelectorFromSet(policy.Spec.NodeSelector).Matches(labels.Set(n.Labels))
	}
	for i := range states {
		s := &states[i]
		if !isSelected[s.Name] {
			continue
		}
		for _, pf := range s.Status.PFs {
			p := nodestate.ToPF(pf)
			pool, err := vfclaim.PoolName(s.Name, p.ID)
			if err != nil || p.ID.IsZero() || pf.NumVFs == 0 && pf.WantedVFs == nil {
				continue
			}
			listed[pool] = true
			if matches(p) {
				out = append(out, maintained{s.Name, pf.Name, pool, s})
			}
		}
	}
	for _, r := range rules {
		node, pf := r.GetAnnotations()[ruleNode], r.GetAnnotations()[rulePF]
		pool, _, _ := unstructured.NestedString(r.Object, "spec", "deviceSelector", "pool")
		if isSelected[node] && !listed[pool] && vfclaim.IsPoolOf(node, pool) && matches(vf.PF{Name: pf}) {
			out = append(out, maintained{node, pf, pool, nil})
		}
	}
	slices.SortFunc(out, func(a, b maintained) int { return cmp.Or(strings.Compare(a.node, b.node), strings.Compare(a.pf, b.pf)) })
	return out
}

// nameRule returns the name of a policy's rule for a pool of devices.
func nameRule(policy, pool string) string {
	sum := sha256.Sum256([]byte(policy + "\n" + pool))
	return taintRulePrefix + strings.TrimRight(policy[:min(len(policy), 200)], ".-") + "-" + hex.EncodeToString(sum[:4])
}

// newRule returns the rule of a PF.
func newRule(policy *v1alpha1.NodePolicy, m maintained) *unstructured.Unstructured {
	taint := map[string]any{"key": maintenanceTaint, "effect": policy.Spec.Maintenance.Effect}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"deviceSelector": map[string]any{"driver": vfclaim.Driver, "pool": m.pool}, "taint": taint,
	}}}
	o.SetGroupVersionKind(taintRuleKind)
	o.SetName(nameRule(policy.Name, m.pool))
	o.SetAnnotations(map[string]string{ruleNode: m.node, rulePF: m.pf})
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodePolicy", Name: policy.Name, UID: policy.UID}})
	return o
}

// writeRules makes the rules of a policy those of the wanted PFs, and writes only what differs. A rule with
// another effect has another time of its taint, which the API server sets.
func (p *Policies) writeRules(ctx context.Context, policy *v1alpha1.NodePolicy, wanted []maintained, rules map[string]*unstructured.Unstructured) error {
	var errs []error
	isWanted := map[string]bool{}
	for _, m := range wanted {
		o := newRule(policy, m)
		isWanted[o.GetName()] = true
		is, there := rules[o.GetName()]
		if !there {
			err := p.Client.Create(ctx, o)
			if apierrors.IsAlreadyExists(err) { // listRules would have found a rule of this policy
				err = fmt.Errorf("%w, and is not of this policy: kubectl delete devicetaintrule %s", err, o.GetName())
			}
			errs = append(errs, err)
			continue
		}
		spec, _, _ := unstructured.NestedMap(is.Object, "spec")
		unstructured.RemoveNestedField(spec, "taint", "timeAdded")
		if equality.Semantic.DeepEqual(spec, o.Object["spec"]) {
			continue
		}
		o.SetResourceVersion(is.GetResourceVersion())
		if err := p.Client.Update(ctx, o); !apierrors.IsConflict(err) {
			errs = append(errs, client.IgnoreNotFound(err))
		}
		delete(rules, o.GetName()) // its status is about the earlier effect
	}
	for name, o := range rules {
		if !isWanted[name] {
			errs = append(errs, client.IgnoreNotFound(p.Client.Delete(ctx, o)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("NodePolicy %s: write DeviceTaintRules: %w", policy.Name, err)
	}
	return nil
}

// mostMaintained is how many PFs the condition Maintenance describes, and mostKept how many owners of each.
const mostMaintained, mostKept = 16, 8

// describeMaintenance returns the message of the condition Maintenance.
func describeMaintenance(all []maintained, rules map[string]*unstructured.Unstructured, policy *v1alpha1.NodePolicy) string {
	texts := make([]string, 0, mostMaintained+1)
	for i, m := range all {
		if i == mostMaintained {
			texts = append(texts, excerpt.More(len(all)-i))
			break
		}
		text := m.node + " " + m.pf + ": " + describeRule(rules[nameRule(policy.Name, m.pool)])
		if m.state == nil {
			text += "; the node does not list the PF now"
		} else if kept := findUnreached(m); len(kept) > 0 {
			more := ""
			if len(kept) > mostKept {
				kept, more = kept[:mostKept], ", "+excerpt.More(len(kept)-mostKept)
			}
			text += "; no taint reaches " + strings.Join(kept, ", ") + more
		}
		texts = append(texts, text)
	}
	return excerpt.Fit(strings.Join(texts, "; "), maxMaintenance)
}

// maxMaintenance bounds the message in bytes, below the API server's bound on a condition's message.
const maxMaintenance = 16 << 10

// describeRule returns what Kubernetes says of a rule: the message of the rule's condition EvictionInProgress.
// Kubernetes writes it once for the effect None, and as long as it evicts for NoExecute
// (k8s.io/kubernetes pkg/controller/devicetainteviction).
func describeRule(rule *unstructured.Unstructured) string {
	const waiting = "Kubernetes has not looked at it yet"
	if rule == nil {
		return waiting
	}
	all, _, _ := unstructured.NestedSlice(rule.Object, "status", "conditions")
	for _, c := range all {
		fields, _ := c.(map[string]any)
		about, _ := fields["observedGeneration"].(int64)
		text, _ := fields["message"].(string)
		if fields["type"] != "EvictionInProgress" || about != rule.GetGeneration() {
			continue
		}
		before, _, _ := strings.Cut(text, " This information will not be updated again.")
		if before = strings.TrimSuffix(before, "."); before == "" {
			before, _ = fields["reason"].(string)
		}
		return excerpt.Fit(before, longestAilment)
	}
	return waiting
}

// findUnreached returns the owners of a PF's VFs that have them without a claim, so that no taint reaches
// them.
func findUnreached(m maintained) (out []string) {
	for _, v := range m.state.Status.VFs {
		if !strings.HasPrefix(v.Name, m.pf+"#") || v.Claim != "" {
			continue
		}
		switch {
		case v.Owner != nil:
			out = append(out, strings.TrimSpace(v.Owner.Kind+" "+v.Owner.Name))
		case v.UsedBy != "":
			out = append(out, v.UsedBy)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
