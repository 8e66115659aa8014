package daemon

import (
	"context"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// emitPodEvent emits an event of the pod that has a lease.
func (s *Server) emitPodEvent(l journal.Lease, kind, reason, text string) {
	namespace, name, ok := strings.Cut(l.Owner.Name, "/")
	if !ok {
		return // the runtime did not name the pod
	}
	s.cluster.PodEvent(api.Pod{Namespace: namespace, Name: name, UID: l.PodUID}, kind, reason, text)
}

// podFinder asks the cluster whether it knows the pod of a lease.
type podFinder struct {
	// cluster is kube.Client, kubelet is kubelet.PodResources.
	cluster interface {
		HasPod(ctx context.Context, namespace, name, uid string) (has, another bool, err error)
	}
	kubelet interface {
		Knows(ctx context.Context, namespace, name string) (bool, error)
	}
}

// knowsPod serves attach.Config. The kubelet reports names only: if this node has another pod of
// that name, the kubelet means that pod, so knowsPod does not ask it.
func (f podFinder) knowsPod(ctx context.Context, l journal.Lease) (bool, error) {
	namespace, name, ok := strings.Cut(l.Owner.Name, "/")
	if !ok {
		return false, fmt.Errorf("%s: %w: its namespace is not known", l.Owner, vf.ErrInvalid)
	}
	has, another, err := f.cluster.HasPod(ctx, namespace, name, l.PodUID)
	if err != nil || has || another {
		return has, err
	}
	return f.kubelet.Knows(ctx, namespace, name)
}
