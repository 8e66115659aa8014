package attach_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/vf"
)

// I1: a request that names no VF takes none that the kubelet has given to a pod,
// and none at all while nobody knows which those are; the pod itself gets it.
func TestI1GivenByTheKubelet(t *testing.T) {
	_, n := newNode(t)
	req := everything(t)
	given := map[vf.PCIAddr]string{}
	var unknown error
	n.Engine.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
		return func(a vf.PCIAddr) string { return given[a] }, unknown
	}
	all := n.Inventory.PFs()
	for _, pf := range all {
		for _, v := range pf.VFs {
			given[v.PCI] = "default/b"
		}
	}
	if _, err := n.Engine.Attach(t.Context(), req); !errors.Is(err, vf.ErrNothingFree) || !strings.Contains(err.Error(), "pod default/b") {
		t.Errorf("all given: %v", err)
	}
	spare := all[1].VFs[3].PCI
	delete(given, spare)
	unknown = vf.ErrNotReady
	if _, err := n.Engine.Attach(t.Context(), req); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("unknown: %v", err)
	}
	named := req
	named.VF, named.Owner.UID, named.Netns = all[0].VFs[0].PCI, "b", podNetns
	named.Owner.Interface, named.Spec.Interface, named.Spec.MAC = "net2", "net2", nil
	if rec, err := n.Engine.Attach(t.Context(), named); err != nil || rec.PCI != named.VF {
		t.Errorf("by name: %s %v", rec.PCI, err)
	}
	unknown = nil
	if rec, err := n.Engine.Attach(t.Context(), req); err != nil || rec.PCI != spare {
		t.Errorf("%s, %v; want %s", rec.PCI, err, spare)
	}
}
