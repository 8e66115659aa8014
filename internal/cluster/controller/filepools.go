package controller

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
)

// mostFilePools bounds how many AddressPools networks of files on the nodes get. No object of the
// cluster names these networks, so a node could make up any number of them, and every node keeps all
// AddressPools in its memory. A pool that is there is served, whatever their number.
const mostFilePools = 256

// mayMake reports whether the controller may make the AddressPool of a network. It makes none of a
// network without addresses: a node that holds some of such a network goes on to claim them.
func (a *Addresses) mayMake(ctx context.Context, p blocks.Pool, r reports) (bool, error) {
	if !blocks.AnyAsks(r.demands) || !r.declared {
		return false, nil
	}
	if !isOfFile(p.Network, p.Namespaces) {
		return true, nil
	}
	var pools v1alpha1.AddressPoolList
	if err := a.Client.List(ctx, &pools, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list the AddressPools: %w", err)
	}
	count := 0
	for i := range pools.Items {
		if s := &pools.Items[i].Spec; s.Network != "" && isOfFile(s.Network, s.Namespaces) {
			count++
		}
	}
	if count < mostFilePools {
		return true, nil
	}
	a.Log.Error("no AddressPool is made: there are too many of networks that no object defines; delete those that are not in use", "net", p.Network, "pools", count)
	return false, nil
}

// isOfFile reports whether a pool may be of networks that only the nodes know.
func isOfFile(network string, namespaces []string) bool {
	if _, shared := ipam.WhereaboutsName(network); shared {
		return len(namespaces) == 0
	}
	return !strings.Contains(network, "/")
}
