package controller

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
)

// confine removes requests from demands, and describes them, if the pool does not declare their
// addresses. The NetworkAttachmentDefinition or the AddressPool declares them. The network of a
// file on the nodes has no definition: only the nodes know its addresses.
func (a *Addresses) confine(ctx context.Context, p blocks.Pool, demands []blocks.Demand) (kept []blocks.Demand, outside []string, err error) {
	namespace, name, defined := strings.Cut(p.Network, "/")
	var d blocks.Declared
	switch {
	case !blocks.AnyAsks(demands):
		return demands, nil, nil
	case p.Declared != nil:
		d = p.Declared.Declared()
	case !defined:
		return demands, nil, nil
	default:
		if d, err = a.declared(ctx, namespace, name); err != nil {
			return nil, nil, err
		}
	}
	kept, outside = d.Confine(demands)
	if len(outside) > 0 {
		a.Log.Warn("requests outside of the network's ranges are refused", "net", p.Network, "requests", outside[:min(len(outside), mostOutside)])
	}
	return kept, outside, nil
}

// mostOutside is how many requests outside of a network's ranges a message lists.
const mostOutside = 8

// declared reads the ranges that a network declares. There are none if the definition does not
// exist or culvertd cannot use it. declared asks the API server, since nodes may know a change
// that a cache lacks.
func (a *Addresses) declared(ctx context.Context, namespace, name string) (out blocks.Declared, err error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(networkKind)
	err = a.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("read NetworkAttachmentDefinition %s/%s: %w", namespace, name, err)
	}
	config, _, _ := unstructured.NestedString(u.Object, "spec", "config")
	configs, err := cni.Own(api.NetworkDefinition{Namespace: namespace, Name: name, Config: config})
	if err != nil {
		a.Log.Warn("the network cannot be read, so no addresses are granted", "net", namespace+"/"+name, "err", err)
		return out, nil
	}
	for _, c := range configs {
		out.Add(c.IPAM)
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
