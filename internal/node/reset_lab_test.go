package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// On Linux with the stock igb and igbvf drivers: after a reset of a PF the pod's interface is as its
// lease says and has carrier, without a restart. After a new start of the PF's driver the VFs are
// made anew, and the pod gets an event that it has to be restarted. A restarted pod gets a VF
// again.
func TestLabResetOfAPF(t *testing.T) {
	if os.Getenv("CULVERT_LAB_NODE") != "1" {
		t.Skip("not in a lab node (CULVERT_LAB_NODE=1)")
	}
	l := newLabPod(t)
	pf := l.n.Inventory.PFs()[0]
	rec := l.attach()
	if rec.ID.PF != pf.ID {
		t.Fatalf("VF %s is not of PF %s", rec.ID, pf.Label())
	}
	l.awaitSound()
	l.write("/sys/bus/pci/devices/"+pf.PCI.String()+"/reset", "1")
	l.awaitSound()
	if len(l.events) > 0 {
		t.Errorf("after a reset the pod has the events %q", l.events)
	}
	l.write("/sys/bus/pci/drivers/igb/unbind", pf.PCI.String())
	l.write("/sys/bus/pci/drivers/igb/bind", pf.PCI.String())
	l.awaitVFs()
	if len(l.events) != 1 || !strings.Contains(l.events[0], "VFLost") || !strings.Contains(l.events[0], "restart the pod") {
		t.Errorf("after a new start of the PF's driver the pod has the events %q", l.events)
	}
	if err := l.n.Resets.Detach(t.Context(), l.req.Owner); err != nil {
		t.Error("the DEL of the pod that is restarted:", err)
	}
	l.attach()
	l.awaitSound()
}

// labPod is a node of a lab, and a pod on it.
type labPod struct {
	t      *testing.T
	n      *node.Node
	k      *kernel.Kernel
	req    attach.Request
	rec    journal.Record
	events []string
}

func newLabPod(t *testing.T) *labPod {
	t.Helper()
	l := &labPod{t: t, k: kernel.New(kernel.Options{})}
	ledger, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	spec, err := desired.Parse("host.yaml", []byte("pfs:\n- {name: \"*\", vfs: 2}\npools:\n- {name: a}\n"))
	if err != nil {
		t.Fatal(err)
	}
	l.n = node.New(node.Config{Kernel: l.k, Ledger: ledger, BootID: "b"})
	t.Cleanup(l.n.VFs.Wait)
	l.n.SetSpec(spec)
	l.n.Upkeep.PodEvent = func(_ journal.Lease, _, reason, text string) { l.events = append(l.events, reason+" "+text) }
	if err := l.n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.awaitVFs()
	path := "/run/netns/reset"
	if err := netns.New(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Delete(path) })
	addresses, err := ipam.Parse([]byte(`{"type":"static","addresses":[{"address":"10.1.0.5/24"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	mtu, trust := 1400, true
	l.req = attach.Request{
		Owner:   vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: "net1"},
		Network: "blue", Netns: path, IPAM: addresses,
		Spec: vf.Spec{Interface: "net1", MTU: &mtu, Trust: &trust, VLAN: &vf.VLAN{ID: 5}},
	}
	return l
}

// awaitVFs waits until both PFs have their VFs. On a busy machine the kernel may not answer a read in
// time while a driver binds, so a pass may fail.
func (l *labPod) awaitVFs() {
	l.t.Helper()
	l.await("the VFs are made", func() error {
		if err := l.n.Reconciler.Pass(l.t.Context()); err != nil {
			return err
		}
		for _, now := range l.n.Inventory.PFs() {
			if len(now.VFs) != 2 || !now.Carrier {
				return errors.New(now.Label() + " is not ready")
			}
		}
		return nil
	})
}

func (l *labPod) attach() journal.Record {
	l.t.Helper()
	var err error
	if l.rec, err = l.n.Engine.Attach(l.t.Context(), l.req); err != nil {
		l.t.Fatal(err)
	}
	return l.rec
}

// awaitSound waits until the VF is as its lease says, with carrier, after a pass.
func (l *labPod) awaitSound() {
	l.t.Helper()
	l.await("the VF is as its lease says", func() error {
		if err := l.n.Reconciler.Pass(l.t.Context()); err != nil {
			return err
		}
		if err := l.n.Engine.Check(l.t.Context(), l.req.Owner, attach.Request{}); err != nil {
			return err
		}
		st, err := l.k.VF(l.t.Context(), l.rec.PCI, l.req.Netns)
		if err == nil && (st.Link == nil || !st.Link.Carrier) {
			err = errors.New("it has no carrier")
		}
		return err
	})
}

// await tries until is returns nil. The test's own timeout ends the wait.
func (l *labPod) await(what string, is func() error) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 3*time.Minute)
	defer cancel()
	begin := time.Now()
	for {
		err := is()
		if err == nil {
			l.t.Logf("%7.1f s  %s", time.Since(begin).Seconds(), what)
			return
		}
		select {
		case <-ctx.Done():
			l.t.Fatalf("%s: %v", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (l *labPod) write(file, text string) {
	l.t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o200); err != nil {
		l.t.Fatal(err)
	}
}
