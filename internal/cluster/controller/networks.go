package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/api/nodestate"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/vf"
)

// networks refuses NetworkAttachmentDefinitions for Culvert that no node could attach. culvertd's
// own parser refuses them, or no NIC of the network's resource has their settings.
type networks struct {
	client client.Reader
}

// definition is the part of a NetworkAttachmentDefinition that is read.
type definition struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Config string `json:"config"`
	} `json:"spec"`
}

// Handle is admission.Handler.
func (n *networks) Handle(ctx context.Context, req admission.Request) admission.Response {
	var d definition
	if err := json.Unmarshal(req.Object.Raw, &d); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the network: %w", err))
	}
	read := api.NetworkDefinition{Namespace: d.Metadata.Namespace, Name: d.Metadata.Name, Config: d.Spec.Config}
	j := config.Judge(read)
	if j.Err != nil && j.List.HasOwn() { // networks of other plugins are not Culvert's to refuse
		return admission.Denied(j.Err.Error())
	}
	warnings := slices.Concat(j.Warnings, n.findForeignPools(ctx, read), warnNodeSelector(d.Metadata.Annotations))
	if j.NoAddress != nil { // another version of whereabouts may give one
		warnings = append(warnings, j.NoAddress.Error())
	}
	for _, c := range j.Own {
		wrong, maybe, err := n.judge(ctx, d, c)
		if err != nil {
			maybe = []string{"not compared with the nodes' NICs: " + err.Error()}
		}
		if len(wrong) > 0 {
			return admission.Denied("spec.config: " + strings.Join(wrong, "; "))
		}
		warnings = append(warnings, maybe...)
	}
	return admission.Allowed("").WithWarnings(warnings...)
}

// findForeignPools describes the pools of whereabouts networks that do not admit a network's
// namespace. It finds none that no pod has used yet.
func (n *networks) findForeignPools(ctx context.Context, d api.NetworkDefinition) (out []string) {
	for _, c := range config.Read(d).Shared().Whereabouts {
		o := &v1alpha1.AddressPool{}
		if n.client.Get(ctx, client.ObjectKey{Name: v1alpha1.AddressPoolName(c.Pool)}, o) != nil {
			continue // nodes refuse the pods
		}
		p := blocks.Pool{Network: o.PoolID(), Namespaces: o.Spec.Namespaces}
		if err := p.CheckNamespace(d.Namespace); err != nil && p.Network == c.Pool {
			out = append(out, "pods are refused: "+excerpt.Error(err))
		}
	}
	return out
}

// mostNodesNamed is how many nodes the warnings about one network name.
const mostNodesNamed = 4

// judge compares a network's settings with the NICs of its resource. wrong has the settings that no
// NIC supports. maybe has the settings that only some NICs support, and the nodes that cannot make
// the network's bond.
func (n *networks) judge(ctx context.Context, d definition, c config.Config) (wrong, maybe []string, err error) {
	resource := d.Metadata.Annotations[netannotation.ResourceName]
	if resource == "" {
		resource = c.Pool
	}
	if resource == "" {
		return nil, nil, nil // the network names no resource: any VF will do
	}
	var states v1alpha1.NodeStateList
	if err := n.client.List(ctx, &states); err != nil {
		return nil, nil, fmt.Errorf("list the nodes' states: %w", err)
	}
	if why := refuseBond(c, states.Items, resource); why != "" {
		return []string{why}, nil, nil
	}
	if wrong, maybe, err = n.compareWithPools(ctx, d.Metadata.Namespace, resource, c.Spec); err != nil || len(wrong) > 0 {
		return wrong, maybe, err
	}
	var (
		count           int
		failures, bonds []string
		segments, lower []string
	)
	for _, s := range states.Items {
		pfs := pfsOf(s.Status, resource)
		segments = append(segments, warnSegment(c, s, resource)...)
		if text := warnBond(c.Bond, s.Name, resource, pfs); text != "" {
			bonds = append(bonds, text)
		}
		for _, pf := range pfs {
			count++
			spec, lowered := c.Spec, false
			if c.Lenient {
				spec, lowered = pf.LowerMTU(c.Spec)
			}
			if lowered {
				lower = append(lower, fmt.Sprintf("mtu %d is above that of PF %s, so pods get %d (node %s)", *c.Spec.MTU, pf.Label(), *spec.MTU, s.Name))
			}
			if err := pf.Fits(spec, vf.Admin{}, "its NodePolicy"); err != nil {
				failures = append(failures, fmt.Sprintf("%s (node %s)", excerpt.Error(err), s.Name))
			}
		}
	}
	switch {
	case count == 0 && len(states.Items) > 0:
		return nil, append(maybe, fmt.Sprintf("no node has a VF of resource %s: declare the pool in a NodePolicy, or correct the annotation %s", resource, netannotation.ResourceName)), nil
	case count > 0 && len(failures) == count:
		return failures[:1], maybe, nil
	}
	return nil, slices.Concat(maybe, segments[:min(len(segments), mostNodesNamed)], bonds[:min(len(bonds), mostNodesNamed)], lower[:min(len(lower), mostNodesNamed)], failures[:min(len(failures), mostNodesNamed)]), nil
}

// pfsOf returns the PFs of a node whose VFs are in a pool. pool may lack its prefix.
func pfsOf(s v1alpha1.NodeStateStatus, pool string) []vf.PF {
	var out []vf.PF
	for _, pf := range pfStatesOf(s, pool) {
		p := nodestate.ToPF(pf)
		p.Carrier = true // the PF may have carrier by the time that a pod is attached
		out = append(out, p)
	}
	return out
}

// pfStatesOf returns the states of the PFs of pfsOf, each once.
func pfStatesOf(s v1alpha1.NodeStateStatus, pool string) (out []v1alpha1.PFState) {
	has := map[string]bool{}
	for _, candidate := range s.Pools {
		if _, bare, _ := strings.Cut(candidate.Name, "/"); candidate.Name != pool && bare != pool {
			continue
		}
		for _, name := range candidate.PFs {
			has[name] = true
		}
	}
	for _, pf := range s.PFs {
		if has[pf.Name] {
			out = append(out, pf)
		}
	}
	return out
}
