package attach_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// I9: while culvertd does not know all pools of the node, as after a restart, a pod
// gets no VF that is in no known pool. The kubelet gave it the VF for a pool, which may
// not allow the request. Guests and containers outside Kubernetes are served.
func TestI9MissingPoolsAreWaitedFor(t *testing.T) {
	_, n := newNode(t)
	req := everything(t)
	req.VF = n.Inventory.PFs()[1].VFs[2].PCI
	n.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
		return func(vf.PCIAddr) string { return req.Owner.Name }, nil
	}
	spec := n.VFs.Spec()
	n.VFs.Spec = func() desired.Spec { return desired.Spec{} }
	n.Engine.MissingPools = func() error { return fmt.Errorf("%w: the NodePolicies are not known", vf.ErrNotReady) }
	if _, err := n.Engine.Attach(t.Context(), req); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("before the pools are known: %v", err)
	}
	clean(t, n, 14)
	n.VFs.Spec = func() desired.Spec { return spec }
	setAllow(n, &desired.Allow{})
	if _, err := n.Engine.Attach(t.Context(), req); !errors.Is(err, vf.ErrInvalid) {
		t.Errorf("a pool that allows nothing: %v", err)
	}
	setAllow(n, nil)
	if _, err := n.Engine.Attach(t.Context(), req); err != nil {
		t.Errorf("in a pool that is known: %v", err)
	}
	if err := n.Resets.Detach(t.Context(), req.Owner); err != nil {
		t.Fatal(err)
	}
	n.VFs.Spec = func() desired.Spec { return desired.Spec{} }
	n.VFs.Given = nil
	req.Owner.Kind = vf.OwnerContainer
	if _, err := n.Engine.Attach(t.Context(), req); err != nil {
		t.Errorf("a container: %v", err)
	}
}
