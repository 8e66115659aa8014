package daemon

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// The method answers how a VF differs, changes nothing before the differences are accepted,
// and refuses a VF that a pod has.
func TestRebaseMethod(t *testing.T) {
	k := fake.New(fake.IGB, 1)
	k.AddNetns("/run/netns/a")
	l, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	n := node.New(node.Config{Kernel: k, Ledger: l, BootID: "boot 1"})
	n.SetSpec(desired.Spec{
		PFs:   []desired.PFRule{{Name: "enp*", Want: desired.PFSpec{VFs: 1, Autoprobe: true, NeedCarrier: true}}},
		Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice}},
	})
	if err := errors.Join(n.Start(t.Context()), n.Reconciler.Pass(t.Context())); err != nil {
		t.Fatal(err)
	}
	owner := vf.Owner{Kind: vf.OwnerPod, UID: "c", Interface: "net1"}
	mac := vf.MAC{2, 1}
	rec, err := n.Engine.Attach(t.Context(), attach.Request{Owner: owner, Netns: "/run/netns/a", Spec: vf.Spec{Interface: "net1", MAC: &mac}})
	if err != nil {
		t.Fatal(err)
	}
	n.VFs.Wait()
	call := func(accept []vf.Difference) ([]vf.Difference, error) {
		t.Helper()
		raw, err := json.Marshal(api.RebaseRequest{VF: rec.PCI, Accept: accept})
		if err != nil {
			t.Fatal(err)
		}
		out, err := (&Server{node: n}).rebaseVF(t.Context(), raw)
		return out.(api.Rebased).Differences, err
	}
	if _, err := call(nil); !errors.Is(err, vf.ErrHeld) {
		t.Errorf("a VF that a pod has: %v", err)
	}
	k.SetNewAttribute("rings", "4096")
	if err := n.Resets.Detach(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if seen, err := call(nil); err != nil || vf.Differences(seen) != "rings is 4096, not 256" {
			t.Fatalf("%v (%v)", seen, err)
		}
	}
	seen, _ := call(nil)
	if changed, err := call(seen); err != nil || vf.Differences(changed) != vf.Differences(seen) {
		t.Errorf("%v (%v)", changed, err)
	}
	if left, err := call(nil); err != nil || len(left) > 0 {
		t.Errorf("it still differs: %v (%v)", left, err)
	}
}
