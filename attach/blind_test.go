package attach_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/culvert-net/culvert/kernel/faulty"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
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
			w.n.Engine.Now = func() time.Time { return w.now }
			k := &blindKernel{Kernel: w.k.faults}
			w.n.Engine.Kernel = k
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
