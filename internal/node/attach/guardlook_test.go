package attach_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// countingGuards is a kernel that counts the reads of each VF's guard. A read takes long enough for
// others to begin meanwhile.
type countingGuards struct {
	*fake.Kernel
	now, most atomic.Int32

	mu    sync.Mutex
	reads map[vf.PCIAddr]int
}

func (c *countingGuards) Guard(ctx context.Context, pci vf.PCIAddr, netns string) (vf.Guard, error) {
	now := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	c.mu.Lock()
	c.reads[pci]++
	c.mu.Unlock()
	time.Sleep(time.Millisecond)
	return c.Kernel.Guard(ctx, pci, netns)
}

// Each read of a guard needs a thread. Upkeep reads at most eight guards at a time, and each guard
// at most every 20 seconds, and mends the guards that have drifted. A guard whose turn does not
// come within a second, as on a busy machine, is left to the next pass.
func TestGuardsAreReadInTurn(t *testing.T) {
	const all = 40
	k := &countingGuards{Kernel: fake.New(fake.ICE, 2), reads: map[vf.PCIAddr]int{}}
	k.AddNetns(podNetns)
	n := start(t, machine{k.Kernel, faulty.New(k)})
	now := time.Now()
	n.VFs.Now = func() time.Time { return now }
	req := guardedRequest(t)
	config, err := ipam.Parse([]byte(`{"type":"host-local","scope":"node","ranges":[[{"subnet":"10.1.0.0/16"}]]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.IPAM = config
	var records []journal.Record
	for i := range all {
		req.Owner.UID, req.Owner.Interface, req.Spec.Interface = fmt.Sprint("c", i), fmt.Sprint("net", i), fmt.Sprint("net", i)
		rec, err := n.Engine.Attach(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
	// passAfter returns how many guards upkeep reads once, after a time, and how many more often.
	passAfter := func(d time.Duration) (once, more int) {
		t.Helper()
		now = now.Add(d)
		clear(k.reads)
		for before := -1; before < len(k.reads); {
			before = len(k.reads)
			pass(t, n)
		}
		for _, reads := range k.reads {
			if reads == 1 {
				once++
			} else {
				more++
			}
		}
		return once, more
	}
	for i, tt := range []struct {
		after time.Duration
		want  int
	}{{0, all}, {time.Second, 0}, {18 * time.Second, 0}, {time.Second, all}, {-time.Minute, all}} {
		if once, more := passAfter(tt.after); once != tt.want || more != 0 {
			t.Errorf("after step %d upkeep reads %d guards once and %d more often, not %d once", i, once, more, tt.want)
		}
	}
	for _, rec := range records {
		k.MeddleGuard(rec.PCI, podNetns, nil)
	}
	passAfter(20 * time.Second)
	if most := k.most.Load(); most > 8 {
		t.Errorf("%d guards are read at a time", most)
	}
	if i := slices.IndexFunc(records, func(r journal.Record) bool {
		g, _ := k.Kernel.Guard(t.Context(), r.PCI, podNetns)
		return g.String() != r.Lease.Wanted.GuardOver(r.Baseline).String()
	}); i >= 0 {
		t.Errorf("the guard of VF %s is not mended", records[i].PCI)
	}
}
