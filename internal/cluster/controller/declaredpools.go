package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/reasons"
)

// addressPools refuses AddressPools whose subnets cannot be served. It warns of subnets that
// another pool has, too, and of addresses that nodes have and that the new version of the pool
// leaves out.
type addressPools struct {
	client client.Reader
}

// Handle is admission.Handler.
func (a *addressPools) Handle(ctx context.Context, req admission.Request) admission.Response {
	var o v1alpha1.AddressPool
	if err := json.Unmarshal(req.Object.Raw, &o); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the AddressPool: %w", err))
	}
	p, err := blocks.FromObject(&o)
	switch {
	case err != nil || p.Declared == nil:
		return admission.Allowed("") // a condition that Addresses sets describes the fault of the blocks
	case p.Declared.Err != nil:
		return admission.Denied("spec: " + p.Declared.Err.Error())
	}
	warnings := outsideOf(p)
	overlaps, err := findOverlaps(ctx, a.client, o.Name, p.Declared)
	if err != nil {
		overlaps = "not compared with the other AddressPools: " + err.Error()
	}
	if overlaps != "" {
		warnings = append(warnings, overlaps)
	}
	return admission.Allowed("").WithWarnings(warnings...)
}

// outsideOf describes the nodes' blocks outside of the pool's subnets.
func outsideOf(p blocks.Pool) (out []string) {
	for _, b := range p.Blocks {
		if !p.Declared.Declared().Has(b.Run) {
			out = append(out, fmt.Sprintf("node %s has %s, which the subnets do not have: pods keep such addresses, and no other pod gets one", b.Node, b.Run))
		}
	}
	return out[:min(len(out), mostWarnings)]
}

// findOverlaps describes the AddressPools that give out addresses of a pool, too.
func findOverlaps(ctx context.Context, c client.Reader, name string, d *blocks.Declaration) (string, error) {
	var pools v1alpha1.AddressPoolList
	if err := c.List(ctx, &pools); err != nil {
		return "", fmt.Errorf("list the AddressPools: %w", err)
	}
	var out []string
	for i := range pools.Items {
		if o := &pools.Items[i]; o.Name != name {
			if both, some := overlapOf(d, o); some {
				out = append(out, fmt.Sprintf("AddressPool %s has %s, too", o.Name, both))
			}
		}
	}
	if len(out) == 0 {
		return "", nil
	}
	slices.Sort(out)
	return strings.Join(out[:min(len(out), mostWarnings)], "; ") + ": two pods get one address unless the networks of these pools are apart, by VLAN or NIC", nil
}

// overlapOf returns addresses that both a pool and another AddressPool give out.
func overlapOf(d *blocks.Declaration, o *v1alpha1.AddressPool) (fmt.Stringer, bool) {
	if len(o.Spec.Subnets) == 0 {
		return nil, false
	}
	p, err := blocks.FromObject(&v1alpha1.AddressPool{ObjectMeta: o.ObjectMeta, Spec: v1alpha1.AddressPoolSpec{Subnets: o.Spec.Subnets}})
	if err != nil || p.Declared == nil || p.Declared.Err != nil {
		return nil, false
	}
	return d.Overlap(p.Declared)
}

// poolsToCompare returns the pools to reconcile when an AddressPool has changed: that pool, and
// those whose condition Overlaps may change with it.
func poolsToCompare(ctx context.Context, c client.Reader, changed *v1alpha1.AddressPool) []reconcile.Request {
	ids := []string{changed.PoolID()}
	var pools v1alpha1.AddressPoolList
	if len(changed.Spec.Subnets) == 0 || c.List(ctx, &pools) != nil {
		return named(ids)
	}
	p, err := blocks.FromObject(changed)
	for i := range pools.Items {
		o := &pools.Items[i]
		if o.Name == changed.Name {
			continue
		}
		overlaps := meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionOverlaps)
		is := err == nil && p.Declared.Err == nil && changed.DeletionTimestamp == nil
		if is {
			_, is = overlapOf(p.Declared, o)
		}
		if is != overlaps {
			ids = append(ids, o.PoolID())
		}
	}
	return named(ids)
}

// judgeDeclared sets the conditions of a pool that a person declared, and reports whether
// addresses of it may be granted.
func (a *Addresses) judgeDeclared(ctx context.Context, o *v1alpha1.AddressPool, d *blocks.Declaration) (granting bool, err error) {
	if d == nil {
		return true, nil
	}
	valid := metav1.Condition{Type: v1alpha1.ConditionValid, Status: metav1.ConditionTrue, Reason: reasons.Valid, LastTransitionTime: metav1.NewTime(a.Now())}
	if d.Err != nil {
		valid.Status, valid.Reason, valid.Message = metav1.ConditionFalse, reasons.Invalid, d.Err.Error()+": no address is given out anew until that is corrected; pods keep theirs"
		meta.SetStatusCondition(&o.Status.Conditions, valid)
		return false, nil //nolint:nilerr // the condition reports the error
	}
	meta.SetStatusCondition(&o.Status.Conditions, valid)
	overlaps, err := findOverlaps(ctx, a.Client, o.Name, d)
	if err != nil {
		return false, err
	}
	a.setCondition(o, v1alpha1.ConditionOverlaps, overlaps != "", reasons.Overlaps, overlaps)
	o.Status.Subnets, o.Status.Addresses = d.Subnets(), d.Addresses()
	return true, nil
}

// reportConditions makes an event of each condition of a pool that became bad, or good again.
func (a *Addresses) reportConditions(before, after *v1alpha1.AddressPool) {
	if a.Events == nil {
		return
	}
	isBad := func(c *metav1.Condition) bool {
		return c != nil && (c.Status == metav1.ConditionTrue) != (c.Type == v1alpha1.ConditionValid)
	}
	for _, kind := range []string{
		v1alpha1.ConditionValid, v1alpha1.ConditionOverlaps, v1alpha1.ConditionExhausted, v1alpha1.ConditionDisputed, v1alpha1.ConditionOutside, v1alpha1.ConditionWaiting,
		v1alpha1.ConditionTooLarge,
	} {
		was, is := meta.FindStatusCondition(before.Status.Conditions, kind), meta.FindStatusCondition(after.Status.Conditions, kind)
		switch {
		case isBad(is) && !isBad(was):
			a.Events.Event(after, corev1.EventTypeWarning, is.Reason, is.Message)
		case isBad(was) && !isBad(is):
			a.Events.Eventf(after, corev1.EventTypeNormal, reasons.Recovered, "condition %s is over", kind)
		}
	}
}
