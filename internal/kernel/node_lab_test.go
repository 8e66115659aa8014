package kernel_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// node is a lab node: two igb PFs, linked to each other, that nothing else
// uses.
type node struct {
	*kernel.Kernel
	t   testing.TB
	pfs []vf.PF
}

// perPF is how many VFs emulated igb has.
const perPF = 7

// labNode returns a node with 7 VFs on each PF, bound to no driver and without settings. It skips
// the test outside of a lab node.
func labNode(t testing.TB) *node {
	t.Helper()
	n := newNode(t)
	for _, pf := range n.pfs {
		n.do(step.SetAutoprobe{PF: pf.PCI, On: false}, step.SetPFUp{PF: pf.PCI})
		for _, v := range pf.VFs {
			n.clean(v)
		}
		if pf.NumVFs != perPF {
			n.do(step.WaitCarrier{PF: pf.PCI}, step.SetNumVFs{PF: pf.PCI, N: 0}, step.SetNumVFs{PF: pf.PCI, N: perPF})
		}
	}
	for _, pf := range n.pfs {
		// igb resets the port when it makes VFs: carrier goes and comes back.
		n.do(step.WaitCarrier{PF: pf.PCI})
	}
	n.read()
	return n
}

// clean removes the driver and the settings that an earlier test left on a VF.
func (n *node) clean(v vf.State) {
	pf, err := os.Readlink(filepath.Join("/sys/bus/pci/devices", v.PCI.String(), "physfn"))
	if err != nil {
		n.t.Fatal(err)
	}
	addr, err := vf.ParsePCIAddr(filepath.Base(pf))
	if err != nil {
		n.t.Fatal(err)
	}
	i := v.ID.Index
	n.do(
		step.Unbind{VF: v.PCI}, step.SetVFMAC{PF: addr, Index: i}, step.SetVFVLAN{PF: addr, Index: i},
		step.SetVFSwitch{PF: addr, Index: i, Setting: vf.SetSpoofChk, On: true}, step.SetVFSwitch{PF: addr, Index: i, Setting: vf.SetTrust},
	)
}

func newNode(t testing.TB) *node {
	t.Helper()
	if os.Getenv("CULVERT_LAB_NODE") != "1" {
		t.Skip("not in a lab node (CULVERT_LAB_NODE=1)")
	}
	n := &node{Kernel: kernel.New(kernel.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}), t: t}
	n.read()
	if len(n.pfs) != 2 {
		t.Fatalf("%d PFs, want two: %+v", len(n.pfs), n.pfs)
	}
	return n
}

// bareNode returns a node whose PFs are up, with carrier and without VFs.
func bareNode(t *testing.T) *node {
	t.Helper()
	n := newNode(t)
	for _, pf := range n.pfs {
		n.do(step.SetAutoprobe{PF: pf.PCI, On: false})
		n.do(step.SetNumVFs{PF: pf.PCI, N: 0})
		n.do(step.SetPFUp{PF: pf.PCI})
		n.do(step.WaitCarrier{PF: pf.PCI})
	}
	n.read()
	return n
}

func (n *node) read() {
	n.t.Helper()
	pfs, err := n.PFs(n.context())
	if err != nil {
		n.t.Fatal(err)
	}
	n.pfs = pfs
}

func (n *node) context() context.Context {
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	n.t.Cleanup(cancel)
	return ctx
}

func (n *node) do(steps ...step.Step) {
	n.t.Helper()
	for _, s := range steps {
		if err := n.Do(n.context(), s); err != nil {
			n.t.Fatal(err)
		}
	}
}

// timed carries out a step and logs how long it took.
func (n *node) timed(s step.Step) {
	n.t.Helper()
	start := time.Now()
	n.do(s)
	n.t.Logf("%7.1f ms  %s", float64(time.Since(start).Microseconds())/1000, s)
}

// vf reads a VF anew, by the index of its PF and its own index.
func (n *node) vf(pf, index int, netns string) vf.State {
	n.t.Helper()
	old, ok := n.pfs[pf].VF(index)
	if !ok {
		n.t.Fatalf("PF %d has no vf %d", pf, index)
	}
	s, err := n.VF(n.context(), old.PCI, netns)
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

// bound gives a VF an admin MAC of its own, binds its netdevice driver, and returns its state.
func (n *node) bound(pf, index int) vf.State {
	n.t.Helper()
	s := n.vf(pf, index, "")
	n.do(
		step.SetVFMAC{PF: n.pfs[pf].PCI, Index: index, MAC: vf.StableMAC(n.pfs[pf].ID, index)},
		step.Bind{VF: s.PCI},
	)
	s = n.vf(pf, index, "")
	if s.Link == nil {
		n.t.Fatalf("VF %s has no netdevice after Bind: %+v", s.PCI, s)
	}
	return s
}

// netns makes a network namespace for the test.
func (n *node) netns(name string) string {
	n.t.Helper()
	path := filepath.Join("/run/netns", name)
	if err := netns.New(path); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if err := netns.Delete(path); err != nil {
			n.t.Error(err)
		}
	})
	return path
}

// bindAll binds every VF at once.
func (n *node) bindAll() error {
	var g errgroup.Group
	for _, pf := range n.pfs {
		for _, v := range pf.VFs {
			g.Go(func() error { return n.Do(n.t.Context(), step.Bind{VF: v.PCI}) })
		}
	}
	return g.Wait()
}

func sysfs(t *testing.T, addr vf.PCIAddr, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/sys/bus/pci/devices", addr.String(), file))
	if err != nil {
		return fmt.Sprintf("error: %v", err)
	}
	return string(b[:max(len(b)-1, 0)])
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
