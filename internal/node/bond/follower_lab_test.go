package bond_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/bond"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// On Linux, a PF that goes down takes no carrier from its VF, and the kernel's own look at the
// members finds nothing. The Follower moves the bond. It moves a bond back to its primary member when
// the PF has carrier for long, and leaves other bonds where they are.
func TestLabBondFollowsItsPFs(t *testing.T) {
	if os.Getenv("CULVERT_LAB_NODE") != "1" {
		t.Skip("not in a lab node (CULVERT_LAB_NODE=1)")
	}
	k := kernel.New(kernel.Options{})
	l, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	spec, err := desired.Parse("host.yaml", []byte("pfs:\n- {name: \"*\", vfs: 2}\npools:\n- {name: pair}\n"))
	if err != nil {
		t.Fatal(err)
	}
	n := node.New(node.Config{Kernel: k, Ledger: l, BootID: "b"})
	n.SetSpec(spec)
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	// On a busy machine the kernel may not answer a read in time while a driver binds, so a pass may
	// fail. culvertd repeats it as well. The test's own timeout ends the wait.
	for err := n.Reconciler.Pass(t.Context()); err != nil; err = n.Reconciler.Pass(t.Context()) {
		t.Log(err)
		time.Sleep(100 * time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	f := bond.New(k, l, n.Inventory, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	go func() { ended <- f.Run(ctx) }()
	t.Run("without a primary PF", func(t *testing.T) {
		b := attachLabBond(t, n, k, "follow", "")
		first := b.awaitSender()
		for _, i := range []int{first, 1 - first} {
			b.setPF(i, false)
			b.await(1 - i)
			b.setPF(i, true)
		}
	})
	t.Run("with a primary PF", func(t *testing.T) {
		b := attachLabBond(t, n, k, "prefer", n.Inventory.PFs()[1].Name)
		b.await(1)
		b.setPF(1, false)
		b.await(0)
		b.setPF(1, true)
		b.await(1)
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// labBond is a bond in a pod of a lab node.
type labBond struct {
	t   *testing.T
	k   *kernel.Kernel
	n   *node.Node
	pod string
	vfs []vf.PCIAddr // of the members, in the order of the inventory's PFs
}

func attachLabBond(t *testing.T, n *node.Node, k *kernel.Kernel, pod, primary string) *labBond {
	t.Helper()
	b := &labBond{t: t, k: k, n: n, pod: "/run/netns/" + pod}
	if err := netns.New(b.pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Delete(b.pod) })
	addresses, err := ipam.Parse([]byte(`{"type":"static","addresses":[{"address":"10.1.0.5/24"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	owner := vf.Owner{Kind: vf.OwnerContainer, UID: pod, Name: pod, Interface: "net1"}
	got, err := n.Engine.AttachBond(t.Context(), attach.Request{
		Owner: owner, Network: pod, Netns: b.pod, IPAM: addresses,
		Bond: &vf.Bond{Links: 2, Mode: vf.BondActiveBackup, AntiAffinity: vf.ApartPF, Primary: primary}, Spec: vf.Spec{Interface: "net1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Resets.Detach(context.Background(), owner); err != nil {
			t.Error(err)
		}
	})
	for _, pf := range n.Inventory.PFs() {
		for _, m := range got.Members {
			if m.ID.PF == pf.ID {
				b.vfs = append(b.vfs, m.PCI)
			}
		}
	}
	return b
}

// findSender returns the index of the PF whose VF sends, -1 if there is none.
func (b *labBond) findSender() int {
	return slices.IndexFunc(b.vfs, func(a vf.PCIAddr) bool {
		st, err := b.k.VF(b.t.Context(), a, b.pod)
		return err == nil && st.Link != nil && st.Link.Bond != nil && st.Link.Bond.Active
	})
}

// awaitSender waits until a VF sends, and returns its index. The test's own timeout ends the wait.
func (b *labBond) awaitSender() int {
	for {
		if i := b.findSender(); i >= 0 {
			return i
		}
		time.Sleep(time.Millisecond)
	}
}

// await waits until the VF of a PF sends. The test's own timeout ends the wait.
func (b *labBond) await(want int) {
	b.t.Helper()
	begin := time.Now()
	for b.findSender() != want {
		time.Sleep(time.Millisecond)
	}
	b.t.Logf("the VF of PF %d sends, seen after %s", want, time.Since(begin))
}

// setPF takes the PF of the inventory with this index down, or brings it up and waits for its carrier.
func (b *labBond) setPF(i int, up bool) {
	b.t.Helper()
	pf := b.n.Inventory.PFs()[i]
	state := map[bool]string{true: "up", false: "down"}[up]
	if out, err := exec.Command("ip", "link", "set", pf.Name, state).CombinedOutput(); err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
	for has := !up; has != up; {
		var err error
		if has, err = b.k.Carrier(pf.PCI); err != nil {
			b.t.Fatal(err)
		}
	}
}
