package blocks

import (
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
)

// Admits reports whether the networks of a namespace may use the pool. The namespace is empty for
// the network of a file on the nodes. The pool of a network_name of whereabouts belongs to its
// Namespaces, or to such files if it has none. Every network may use the pool of the whereabouts
// networks without a network_name, unless the pool has Namespaces (I9).
func (p Pool) Admits(namespace string) bool {
	name, shared := ipam.WhereaboutsName(p.Network)
	switch {
	case p.Declared != nil:
		return p.Declared.admits(namespace)
	case shared && len(p.Namespaces) == 0:
		return name == "" || namespace == ""
	}
	return !shared || slices.Contains(p.Namespaces, namespace)
}

// CheckNamespace returns an error if the pool does not admit the networks of a namespace. It does
// not reveal whose the pool is.
func (p Pool) CheckNamespace(namespace string) error {
	if p.Admits(namespace) {
		return nil
	}
	return fmt.Errorf("AddressPool %s: %w: it does not admit %s: add the namespace to its spec.namespaces, or give the network another ipam.network_name",
		v1alpha1.AddressPoolName(p.Network), vf.ErrInvalid, originOf(namespace))
}

// originOf names the networks of a namespace in a message.
func originOf(namespace string) string {
	if namespace == "" {
		return "the network of a file"
	}
	return "namespace " + namespace
}

// Admits returns an error if a pool does not admit the networks of a namespace, which is empty for
// the network of a file. The node has no addresses of a pool that it does not know yet.
func (b *NodeBlocks) Admits(pool, namespace string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, known := b.pools[pool]; known {
		return p.CheckNamespace(namespace)
	}
	return nil
}
