package attach_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/culvert-net/culvert/ipam"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/fake"
	"github.com/culvert-net/culvert/kernel/faulty"
	"github.com/culvert-net/culvert/vf"
)

// countingGuards is a kernel that counts the reads of guards. Each takes long enough for others to
// begin meanwhile.
type countingGuards struct {
	*fake.Kernel
	reads, now, most atomic.Int32
}

func (c *countingGuards) Guard(ctx context.Context, pci vf.PCIAddr, netns string) (vf.Guard, error) {
	now := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	c.reads.Add(1)
	time.Sleep(time.Millisecond)
	return c.Kernel.Guard(ctx, pci, netns)
}

// Each read of a guard needs a thread. Upkeep of 256 guarded VFs reads eight at a time, each at most
// every 20 seconds, and mends those that drifted meanwhile.
func TestGuardsAreReadInTurn(t *testing.T) {
	const all = 256
	k := &countingGuards{Kernel: fake.New(fake.ICE, 2)}
	k.AddNetns(podNetns)
	n := start(t, machine{k.Kernel, faulty.New(k)})
	now := time.Now()
	n.Engine.Now = func() time.Time { return now }
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
	passAfter := func(d time.Duration) int {
		t.Helper()
		now = now.Add(d)
		k.reads.Store(0)
		k.most.Store(0)
		pass(t, n)
		if most := k.most.Load(); most > 8 {
			t.Errorf("%d guards are read at a time", most)
		}
		return int(k.reads.Load())
	}
	for i, tt := range []struct {
		after time.Duration
		want  int
	}{{0, all}, {time.Second, 0}, {18 * time.Second, 0}, {time.Second, all}, {-time.Minute, all}} {
		if got := passAfter(tt.after); got != tt.want {
			t.Errorf("pass %d reads %d guards, not %d", i, got, tt.want)
		}
	}
	for _, rec := range records {
		k.MeddleGuard(rec.PCI, podNetns, nil)
	}
	passAfter(20 * time.Second)
	if i := slices.IndexFunc(records, func(r journal.Record) bool {
		g, _ := k.Kernel.Guard(t.Context(), r.PCI, podNetns)
		return g.String() != r.Lease.Wanted.GuardOver(r.Baseline).String()
	}); i >= 0 {
		t.Errorf("the guard of VF %s is not mended", records[i].PCI)
	}
}
