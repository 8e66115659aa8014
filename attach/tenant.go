package attach

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/vf"
)

// tenantOf describes the owner of a request to Pool.Check. It asks for the labels of
// the owner's namespace where a pool of this host selects namespaces by label.
func (e *Engine) tenantOf(ctx context.Context, req Request) desired.Tenant {
	namespace, _, inNamespace := strings.Cut(req.Owner.Name, "/")
	if req.Owner.Kind != vf.OwnerPod || !inNamespace {
		return desired.Tenant{}
	}
	t := desired.Tenant{Namespace: namespace}
	byLabel := func(p desired.Pool) bool { return p.Allow != nil && len(p.Allow.NamespaceSelector) > 0 }
	switch {
	case e.NamespaceLabels == nil:
		t.Err = fmt.Errorf("%w: culvertd is not connected to the cluster", vf.ErrNotReady)
	case !slices.ContainsFunc(e.Spec().Pools, byLabel):
		t.Err = fmt.Errorf("%w: the pools changed while the VF was chosen: try again", vf.ErrNotReady)
	default:
		t.Labels, t.Err = e.NamespaceLabels(ctx, namespace)
	}
	return t
}
