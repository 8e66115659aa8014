package bond

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// stillKernel is a kernel with one PF without carrier. Each bond sends by a member on another PF.
type stillKernel struct {
	kernel

	down vf.PCIAddr
}

func (k stillKernel) Carrier(pf vf.PCIAddr) (bool, error) { return pf != k.down, nil }

func (k stillKernel) Do(context.Context, step.Step) error { return vf.ErrUnchanged }

// newStill returns a Follower of so many bonds that has nothing left to do. Each bond has a VF of a
// PF without carrier and a VF of another PF.
func newStill(ctx context.Context, bonds int) *Follower {
	pfs := []vf.PCIAddr{{Bus: 1}, {Bus: 2}}
	f := New(stillKernel{down: pfs[0]}, nil, nil, slog.New(slog.DiscardHandler))
	f.moves.SetLimit(-1)
	f.Now = func() time.Time { return time.Unix(1, 0) }
	f.bonds, f.ports = map[string]*bond{}, map[vf.PCIAddr]*port{pfs[0]: {}, pfs[1]: {}}
	for i := range bonds {
		b := &bond{mark: fmt.Sprint(i), name: "net1", netns: fmt.Sprintf("/run/netns/c%d", i), progress: &progress{}}
		for _, pf := range pfs {
			b.members = append(b.members, member{vf.PCIAddr{Bus: pf.Bus, Device: uint8(i/8) + 1, Function: uint8(i % 8)}, pf})
		}
		f.bonds[b.mark] = b
	}
	f.LookAtPFs(ctx)
	f.Wait()
	return f
}

// A look that finds no change allocates nothing: the Follower looks a hundred times a second, and a
// PF may be without carrier for hours.
func TestLookWithoutNewsAllocatesNothing(t *testing.T) {
	f := newStill(t.Context(), 128)
	if n := testing.AllocsPerRun(100, func() { f.LookAtPFs(t.Context()) }); n > 0 {
		t.Errorf("%.0f allocations in one look at the PFs of 128 bonds", n)
	}
}

// The Follower decides anew, without reading the ledger again, when a carrier changes, and when a
// PF that has its carrier back has settled.
func TestLookDecidesWhenThereIsNews(t *testing.T) {
	f := newStill(t.Context(), 1)
	f.bonds["0"].hasPrimary = true
	start := f.Now()
	for _, s := range []struct {
		name    string
		after   time.Duration
		down    vf.PCIAddr
		avoided int // members that the best step avoids
		home    bool
	}{
		{"the first wire is out", 0, vf.PCIAddr{Bus: 1}, 1, false},
		{"it is in", time.Hour, vf.PCIAddr{}, 1, false},
		{"it has not settled", time.Hour + holdDown - 1, vf.PCIAddr{}, 1, false},
		{"it has settled", time.Hour + holdDown, vf.PCIAddr{}, 0, true},
		{"the second wire is out", 2 * time.Hour, vf.PCIAddr{Bus: 2}, 1, false},
	} {
		f.Kernel, f.Now = stillKernel{down: s.down}, func() time.Time { return start.Add(s.after) }
		f.readCarriers(f.Now())
		f.decide(f.Now())
		d, avoided := f.bonds["0"].decision, 0
		if len(d.steps) > 0 {
			avoided = len(d.steps[0].From)
		}
		if avoided != s.avoided || d.home != s.home {
			t.Errorf("%s: avoids %d members, home %t", s.name, avoided, d.home)
		}
	}
}

func BenchmarkLookWithoutNews(b *testing.B) {
	f := newStill(b.Context(), 128)
	b.ReportAllocs()
	for b.Loop() {
		f.LookAtPFs(b.Context())
	}
}
