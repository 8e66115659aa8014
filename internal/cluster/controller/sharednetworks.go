package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
)

// sharedNetwork is what the controller keeps of a NetworkAttachmentDefinition for the pools that
// several networks share.
type sharedNetwork struct {
	config.Shared
	namespace string
	created   time.Time
}

// hasPool reports whether the network has addresses of a pool.
func (n sharedNetwork) hasPool(pool string) bool {
	return slices.Contains(n.Pools, pool) || v1alpha1.IsDeclaredPool(pool) && slices.Contains(n.AddressPools, v1alpha1.AddressPoolName(pool))
}

// sharedNetworks has the NetworkAttachmentDefinitions of the cluster by namespace/name.
type sharedNetworks map[string]sharedNetwork

// definitionPage is how many NetworkAttachmentDefinitions the API server returns at a time.
const definitionPage = 500

// listShared asks the API server for all NetworkAttachmentDefinitions, since nodes may know a change
// that a cache lacks.
func listShared(ctx context.Context, live client.Reader) (sharedNetworks, error) {
	out, next := sharedNetworks{}, ""
	for {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(networkKind.GroupVersion().WithKind(networkKind.Kind + "List"))
		err := live.List(ctx, list, client.Limit(definitionPage), client.Continue(next))
		if meta.IsNoMatchError(err) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list NetworkAttachmentDefinitions: %w", err)
		}
		for _, u := range list.Items {
			text, _, _ := unstructured.NestedString(u.Object, "spec", "config")
			d := api.NetworkDefinition{Namespace: u.GetNamespace(), Name: u.GetName(), Config: text}
			out[d.Namespace+"/"+d.Name] = sharedNetwork{config.ReadShared(d), d.Namespace, u.GetCreationTimestamp().Time}
		}
		if next = list.GetContinue(); next == "" {
			return out, nil
		}
	}
}

// sortedNames returns the names of the networks in order.
func (all sharedNetworks) sortedNames() []string { return slices.Sorted(maps.Keys(all)) }

// addressesOf returns the addresses that the networks of a whereabouts pool declare, whose namespaces
// the pool admits. A network whose configuration is a file on the nodes may be one of them, and
// only the nodes know its addresses.
func (all sharedNetworks) addressesOf(p blocks.Pool) (out blocks.Declared) {
	for _, name := range all.sortedNames() {
		n := all[name]
		out.Open = out.Open || n.IsFile && p.Admits("")
		for _, c := range n.Whereabouts {
			if c.Pool == p.Network && p.Admits(n.namespace) {
				out.AddSection(c)
			}
		}
	}
	return out
}

// ownerOf returns the namespace of the oldest network of a whereabouts pool, or "" if it has none. A
// network that is newer than the pool does not own it: the networks of files on the nodes had the
// pool before.
func (all sharedNetworks) ownerOf(pool string, made time.Time) (namespace string) {
	var oldest time.Time
	for _, name := range all.sortedNames() {
		n := all[name]
		isOf := slices.ContainsFunc(n.Whereabouts, func(c ipam.Config) bool { return c.Pool == pool })
		if isOf && (made.IsZero() || !n.created.After(made)) && (namespace == "" || n.created.Before(oldest)) {
			namespace, oldest = n.namespace, n.created
		}
	}
	return namespace
}

// nameOwner records the namespace that owns a pool of whereabouts networks with a network_name, as
// long as the pool has no namespaces: the networks of other namespaces need the consent of a person,
// who adds them (I9).
func (a *Addresses) nameOwner(ctx context.Context, o *v1alpha1.AddressPool, p *blocks.Pool, r reports) error {
	name, shared := ipam.WhereaboutsName(p.Network)
	if !shared || name == "" || len(p.Namespaces) > 0 || o.ResourceVersion == "" && !blocks.AnyAsks(r.demands) {
		return nil
	}
	all, err := a.shared.listWithin(ctx, a.Live, a.Now(), 0)
	if err != nil {
		return err
	}
	if owner := all.ownerOf(p.Network, o.CreationTimestamp.Time); owner != "" {
		p.Namespaces = []string{owner}
		o.Spec.Namespaces = p.Namespaces
	}
	return nil
}

// sharedAge is how old a list of NetworkAttachmentDefinitions may be that shows nothing wrong.
const sharedAge = 10 * time.Second

// sharedCache keeps the last list of NetworkAttachmentDefinitions, since the requests of nodes
// change with each attachment. The zero value is ready to use.
type sharedCache struct {
	mu     sync.Mutex // guards the rest
	listed time.Time
	all    sharedNetworks
}

// listWithin returns a list that is at most of an age.
func (c *sharedCache) listWithin(ctx context.Context, live client.Reader, now time.Time, age time.Duration) (sharedNetworks, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if passed := now.Sub(c.listed); c.all != nil && passed >= 0 && passed < age {
		return c.all, nil
	}
	all, err := listShared(ctx, live)
	if err == nil {
		c.all, c.listed = all, now
	}
	return all, err
}
