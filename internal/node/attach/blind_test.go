package attach_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// blindKernel cannot read VFs in the netns of their owners while it is blind.
type blindKernel struct {
	*faulty.Kernel
	blind atomic.Bool
	reads atomic.Int32 // that failed
}

func (k *blindKernel) VF(ctx context.Context, pci vf.PCIAddr, netns string) (vf.State, error) {
	if k.blind.Load() && netns != "" {
		k.reads.Add(1)
		return vf.State{}, errors.New("enter netns: permission denied")
	}
	return k.Kernel.VF(ctx, pci, netns)
}

// I7: a pod whose netns cannot be read is no problem of the host, so culvertd is ready at once. It is
// read every 20 s, and once after a reset of its PF, which is mended when it can be read again.
func TestI7PodThatCannotBeRead(t *testing.T) {
	for name, known := range map[string]bool{"from the start": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			w := &watchedPod{t: t, now: time.Now()}
			w.k, w.n = newNode(t)
			w.n.VFs.Now = func() time.Time { return w.now }
			k := &blindKernel{Kernel: w.k.faults}
			w.n.VFs.Kernel = k
			var err error
			w.rec, err = w.n.Engine.Attach(t.Context(), everything(t))
			w.do(err)
			w.pf = pfOf(t, w.n, w.rec.ID.PF).PCI
			if known {
				w.passAfter(time.Minute)
			}
			k.blind.Store(true)
			check := func(after time.Duration, reads int32) {
				t.Helper()
				w.passAfter(after)
				if p := w.n.Reconciler.Problems(); k.reads.Load() != reads || len(p) > 0 {
					t.Errorf("%d reads, want %d; problems: %v", k.reads.Load(), reads, p)
				}
			}
			check(20*time.Second, 1)
			check(5*time.Second, 1)
			check(14*time.Second, 1)
			check(time.Second, 2)
			w.k.Cable(w.pf, false)
			w.k.Cable(w.pf, true)
			w.do(w.k.Do(t.Context(), step.SetUp{VF: w.rec.PCI, Netns: podNetns}))
			check(time.Second, 3)
			check(time.Second, 3)
			k.blind.Store(false)
			w.passAfter(20 * time.Second)
			st, err := w.k.VF(t.Context(), w.rec.PCI, podNetns)
			w.do(err)
			if st.Link.Up != known {
				t.Errorf("up %t, known before %t", st.Link.Up, known)
			}
		})
	}
}

// I9: a pod makes its netns unreadable, and the PF loses the settings for its VF. culvertd restores
// those all the same, with or without a guard, and reports that the rest cannot be read.
func TestI9PodThatCannotBeReadStaysInItsVLAN(t *testing.T) {
	for name, guard := range map[string]vf.GuardMode{"without a guard": "", "with a guard": vf.GuardIP} {
		t.Run(name, func(t *testing.T) {
			k, blind, n, rec := blindPod(t, guard)
			before := k.String()
			err := k.Meddle(rec.PCI, func(st *vf.State) { st.Admin.VLAN, st.Admin.SpoofChk = vf.VLAN{}, vf.No })
			if err != nil {
				t.Fatal(err)
			}
			blind.Store(true)
			if err := n.Reconciler.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("the pass says %v", err)
			}
			if d := cmp.Diff(before, k.String()); d != "" {
				t.Errorf("-before +after:\n%s", d)
			}
		})
	}
}

// I8: a pod makes its netns unreadable. The DEL takes the VF back all the same: it binds the VF's
// driver anew, which makes a new interface on the host.
func TestI8DELOfAPodThatCannotBeRead(t *testing.T) {
	_, blind, n, rec := blindPod(t, "")
	blind.Store(true)
	if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
		t.Fatal(err)
	}
	if now := record(t, n, rec.ID); now.Phase != vf.PhaseFree {
		t.Errorf("VF %s is %s: %s", now.PCI, now.Phase, now.Reason)
	}
	clean(t, n, 14)
}

// blindPod attaches a VF with a VLAN to a pod of a node whose kernel can be made blind.
func blindPod(t *testing.T, guard vf.GuardMode) (m machine, blind *atomic.Bool, n *node.Node, rec journal.Record) {
	t.Helper()
	m, n = newNode(t)
	k := &blindKernel{Kernel: m.faults}
	n.VFs.Kernel = k
	req := everything(t)
	req.Spec.Guard = guard
	rec, err := n.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return m, &k.blind, n, rec
}
