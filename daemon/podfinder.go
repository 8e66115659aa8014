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

// knowsPod is for attach.Config. The kubelet tells names only: where the API server has
// another pod of the name, the kubelet's one is taken for that.
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
