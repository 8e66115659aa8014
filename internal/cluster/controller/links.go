package controller

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
)

// links remembers how many VFs each network needs: several if its configuration has a bond. The
// cache has only the metadata of networks, since tenants may write large ones. So links reads the
// configuration once for each version of a network. The zero value is ready.
type links struct {
	mu    sync.Mutex // guards known
	known map[client.ObjectKey]knownLinks
}

type knownLinks struct {
	uid     types.UID
	version string
	n       int
}

// mostLinks bounds how many networks are remembered.
const mostLinks = 4096

// of returns how many VFs the network with this metadata needs.
func (l *links) of(ctx context.Context, live client.Reader, meta *metav1.PartialObjectMetadata) (int, error) {
	key := client.ObjectKeyFromObject(meta)
	l.mu.Lock()
	known, ok := l.known[key]
	l.mu.Unlock()
	if ok && known.uid == meta.UID && known.version == meta.ResourceVersion && known.version != "" {
		return known.n, nil
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(networkKind)
	if err := live.Get(ctx, key, u); err != nil {
		return 0, fmt.Errorf("read how many VFs it needs: %w", err)
	}
	text, _, _ := unstructured.NestedString(u.Object, "spec", "config")
	n := 1 // a network that cannot be parsed counts as one VF; the node refuses it
	if list, err := config.ParseDefinition(api.NetworkDefinition{Namespace: key.Namespace, Name: key.Name, Config: text}); err == nil {
		n = config.VFsOf(list)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil || len(l.known) >= mostLinks {
		l.known = map[client.ObjectKey]knownLinks{}
	}
	l.known[key] = knownLinks{u.GetUID(), u.GetResourceVersion(), n}
	return n, nil
}
