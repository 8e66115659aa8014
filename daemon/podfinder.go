package daemon

import (
	"context"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

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

// knowsPod is for attach.Config. The kubelet reports names only: where another pod of the
// name is on this node, that is the one that the kubelet reports.
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
