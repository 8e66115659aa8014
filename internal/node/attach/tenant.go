package attach

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
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
	case !slices.ContainsFunc(e.vfs.Spec().Pools, byLabel):
		t.Err = fmt.Errorf("%w: the pools changed while the VF was chosen: try again", vf.ErrNotReady)
	default:
		t.Labels, t.Err = e.NamespaceLabels(ctx, namespace)
	}
	return t
}

func (e *Engine) missingPools() error {
	if e.MissingPools == nil {
		return nil
	}
	return e.MissingPools()
}

// checkAllowed returns why the pool of a VF does not allow a request, or nil. While pools may be
// missing, a pod gets no VF that is in no known pool (TestI9MissingPoolsAreWaitedFor): the
// kubelet gave it that VF for a pool.
func checkAllowed(choice alloc.Choice, req Request, want vf.Spec) error {
	if choice.Pool == "" && req.Owner.Kind == vf.OwnerPod && req.missing != nil {
		return fmt.Errorf("VF %s is in no pool that is known on this node: %w", choice.Record.PCI, req.missing)
	}
	rate := vf.DriverOf(choice.PF.Driver).Effective(want.Over(choice.Record.Baseline.Admin)).MaxTxRate
	if want.MaxTxRate != nil && rate > *want.MaxTxRate { // i40e raises a low rate
		want.MaxTxRate = &rate
	}
	return choice.Rules.Check(req.tenant, want)
}
