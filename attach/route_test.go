package attach_test

import (
	"testing"

	"github.com/culvert-net/culvert/attach"
	"github.com/culvert-net/culvert/vf"
)

// I6: a route that the netns has by another interface stays that one's. The
// attach succeeds, and the lease says what is there.
func TestI6RouteOfAnotherInterfaceStays(t *testing.T) {
	k, n := newNode(t)
	first, err := n.Engine.Attach(t.Context(), everything(t))
	if err != nil {
		t.Fatal(err)
	}
	req := everything(t)
	req.Network, req.Spec.MAC = "green", nil
	req.Owner.Interface, req.Spec.Interface = "net2", "net2"
	second, err := n.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal("a second network with a default route:", err)
	}
	if len(first.Lease.Wanted.Routes) != 2 || len(second.Lease.Wanted.Routes) != 0 {
		t.Errorf("the leases have the routes %v and %v; want both in the first and none in the second", first.Lease.Wanted.Routes, second.Lease.Wanted.Routes)
	}
	for _, owner := range []vf.Owner{first.Lease.Owner, second.Lease.Owner} {
		if err := n.Engine.Check(t.Context(), owner, attach.Request{}); err != nil {
			t.Error(err)
		}
	}
	st, err := k.VF(t.Context(), first.PCI, podNetns)
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Link.Routes) != 2 {
		t.Errorf("the first interface has the routes %v left", st.Link.Routes)
	}
}
