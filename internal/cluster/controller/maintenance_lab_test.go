//go:build lab

package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/test/apiserver"
)

// alteredRule is a rule of a policy's maintenance with a change of its fields.
func alteredRule(name string, change func(map[string]any)) *unstructured.Unstructured {
	policy := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "swap", UID: "u1"}, Spec: v1alpha1.NodePolicySpec{Maintenance: &v1alpha1.Maintenance{Effect: "None"}}}
	o := newRule(policy, maintained{"n1", "enp1s0f0", "n1/02-00-00-00-00-01", nil})
	o.SetName(name)
	change(o.Object)
	return o
}

// setField sets a field of an object, below the last of the keys.
func setField(value any, keys ...string) func(map[string]any) {
	return func(o map[string]any) { _ = unstructured.SetNestedField(o, value, keys...) }
}

// I10: the controller writes DeviceTaintRules of its own policies and for the pools of its own driver only. A
// rule with another selector would evict pods of other drivers. A maintenance works with these rights: a
// NodePolicy leads to a rule on a real API server, another effect changes it, and its end deletes it.
func TestI10TaintRulesOfAMaintenance(t *testing.T) {
	r := newRealCluster(t)
	own := connect(t, asController(r.config))
	t.Run("maintenance", func(t *testing.T) { r.maintain(t, own) })

	createObject(t, r.admin, alteredRule("theirs", setField("example.com", "spec", "deviceSelector", "driver")))
	createObject(t, r.admin, alteredRule("deleted", setField("example.com", "spec", "deviceSelector", "driver")))
	const policy = "culvert-taint-rules"
	nothing := func(map[string]any) {}
	attacks := []attack{
		{"rule with another name", policy, createAs(alteredRule("other", nothing))},
		{"rule of another driver", policy, createAs(alteredRule("culvert-driver", setField("example.com", "spec", "deviceSelector", "driver")))},
		{"rule of all pools", policy, createAs(alteredRule("culvert-pools", func(o map[string]any) { unstructured.RemoveNestedField(o, "spec", "deviceSelector", "pool") }))},
		{"rule of all devices", policy, createAs(alteredRule("culvert-all", func(o map[string]any) { unstructured.RemoveNestedField(o, "spec", "deviceSelector") }))},
		{"rule with another taint", policy, createAs(alteredRule("culvert-taint", setField("example.com/x", "spec", "taint", "key")))},
		{"rule without a policy", policy, createAs(alteredRule("culvert-alone", func(o map[string]any) { unstructured.RemoveNestedField(o, "metadata", "ownerReferences") }))},
		{"rule that cannot be deleted", policy, createAs(alteredRule("culvert-stuck", setField([]any{"example.com/x"}, "metadata", "finalizers")))},
		{"rule of another changed", policy, func(ctx context.Context, c client.Client) error {
			o := alteredRule("theirs", nothing)
			is := o.DeepCopy()
			if err := r.admin.Get(ctx, client.ObjectKeyFromObject(is), is); err != nil {
				return err
			}
			o.SetResourceVersion(is.GetResourceVersion())
			return c.Update(ctx, o)
		}},
		{"rule of another deleted", policy, func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, alteredRule("deleted", nothing))
		}},
	}
	r.provePolicies(t, own, attacks)
}

// maintain takes a policy through its effects.
func (r cluster) maintain(t *testing.T, own client.Client) {
	createObject(t, r.admin, maintainedNode("n1", "02:00:00:00:0a"))
	p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "swap"}, Spec: v1alpha1.NodePolicySpec{Maintenance: &v1alpha1.Maintenance{PFs: []string{"enp1s0f?"}, Effect: "None"}}}
	createObject(t, r.admin, p)
	policies := &Policies{Client: own, Now: time.Now}
	// step reconciles until there are so many rules with an effect and the condition has a reason.
	step := func(what string, rules int, effect, reason string) {
		t.Helper()
		apiserver.Eventually(t, what, func() error {
			if _, err := policies.Reconcile(t.Context(), named([]string{"swap"})[0]); err != nil {
				return err
			}
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(taintRuleKind)
			if err := r.admin.List(t.Context(), list); err != nil {
				return err
			}
			n := 0
			for _, o := range list.Items {
				if is, _, _ := unstructured.NestedString(o.Object, "spec", "taint", "effect"); is == effect {
					n++
				}
			}
			o := &v1alpha1.NodePolicy{}
			err := r.admin.Get(t.Context(), client.ObjectKey{Name: "swap"}, o)
			c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionMaintenance)
			if n != rules || len(list.Items) != rules || (c == nil) != (reason == "") || c != nil && c.Reason != reason {
				return fmt.Errorf("%d rules of %d have effect %s, condition %+v: %w", n, len(list.Items), effect, c, err)
			}
			return err
		})
	}
	set := func(m *v1alpha1.Maintenance) error {
		if err := r.admin.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		p.Spec.Maintenance = m
		return r.admin.Update(t.Context(), p)
	}
	step("dry run", 2, "None", reasons.DryRun)
	if err := set(&v1alpha1.Maintenance{PFs: []string{"enp1s0f0"}, Effect: "NoExecute"}); err != nil {
		t.Fatal(err)
	}
	step("eviction", 1, "NoExecute", reasons.NoExecute)
	for want, m := range map[string]*v1alpha1.Maintenance{
		"spec.maintenance.effect": {Effect: "Evict"},
		"spec.maintenance.pfs":    {Effect: "None", PFs: []string{"enp[0-9"}},
	} {
		if err := set(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error about %s", m, err, want)
		}
	}
	if err := set(nil); err != nil {
		t.Fatal(err)
	}
	step("end", 0, "", "")
}
