package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
)

// confine fills in the range sets of a pool, and removes requests from r, and describes them, if no
// object of the cluster declares their addresses.
func (a *Addresses) confine(ctx context.Context, p *blocks.Pool, r *reports) error {
	asked := r.demands
	if !blocks.AnyAsks(asked) {
		return nil
	}
	_, shared := ipam.WhereaboutsName(p.Network)
	for _, age := range []time.Duration{sharedAge, 0} {
		d, err := a.declared(ctx, *p, age)
		if err != nil {
			return err
		}
		p.Sets = d.ShareSets()
		r.declared = len(p.Sets) > 0 || d.AnyAddress
		if r.demands, r.outside = d.Confine(asked); len(r.outside) == 0 || !shared {
			break // else the list of networks may be old
		}
	}
	if len(r.outside) > 0 {
		a.Log.Warn("requests outside of the network's ranges are refused", "net", p.Network, "requests", r.outside[:min(len(r.outside), mostOutside)])
	}
	return nil
}

// mostOutside is how many requests outside of a network's ranges a message lists.
const mostOutside = 8

// declared returns the addresses that nodes may request of a pool. AddressPools and
// NetworkAttachmentDefinitions declare addresses; the list of the latter may have an age. The network of a file on the nodes has no
// definition, and only the nodes know its addresses: each node gets its share of them.
func (a *Addresses) declared(ctx context.Context, p blocks.Pool, age time.Duration) (d blocks.Declared, err error) {
	namespace, name, defined := strings.Cut(p.Network, "/")
	_, shared := ipam.WhereaboutsName(p.Network)
	switch {
	case p.Declared != nil:
		return p.Declared.Declared(), nil
	case shared:
		all, err := a.shared.listWithin(ctx, a.Live, a.Definitions, a.Now(), age)
		return all.addressesOf(p), err
	case defined:
		return a.declaredBy(ctx, namespace, name)
	}
	return blocks.Declared{Open: true}, nil
}

// declaredBy reads the addresses that a network declares. There are none if the
// definition does not exist or culvertd cannot use it. declaredBy asks the API server, since nodes
// may know a change that a cache lacks.
func (a *Addresses) declaredBy(ctx context.Context, namespace, name string) (out blocks.Declared, err error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(networkKind)
	err = a.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("read NetworkAttachmentDefinition %s/%s: %w", namespace, name, err)
	}
	configs, err := a.Definitions.Read(toDefinition(u)).Own()
	if err != nil {
		a.Log.Warn("the network cannot be read, so no addresses are granted", "net", namespace+"/"+name, "err", err)
		return out, nil
	}
	for _, c := range configs {
		out.AddSection(c.IPAM)
	}
	return out, nil
}

// again returns when Reconcile has to read the network again, since a change of the network does
// not wake it.
func (r reports) again() ctrl.Result {
	if len(r.outside) > 0 {
		return ctrl.Result{RequeueAfter: absentLook}
	}
	return ctrl.Result{}
}
