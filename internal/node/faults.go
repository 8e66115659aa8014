package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/vf"
)

// FaultPeriod is how long an error of a device stays a problem after the last one.
const FaultPeriod = 10 * time.Minute

// Faults counts the errors of PFs and VFs since it was made, and keeps the recent ones as
// problems. Make one with NewFaults; its methods may be called concurrently.
type Faults struct {
	now func() time.Time

	mu     sync.Mutex                     // guards the fields below
	last   map[vf.PCIAddr]vf.ErrorCounts  // by device, as they were read last
	totals map[vf.PCIAddr]vf.ErrorCounts  // by PF, with those of its VFs
	recent map[fault]map[vf.PCIAddr]since // devices with errors within FaultPeriod
	shown  []api.Problem
}

// fault is a kind of error of a PF and its VFs.
type fault struct {
	pf    vf.PCIAddr
	label string // of the PF
	kind  vf.Fault
}

// since is the time of the first and the last error of a device.
type since struct{ first, last time.Time }

// NewFaults returns a Faults without errors. now is the clock; nil stands for time.Now.
func NewFaults(now func() time.Time) *Faults {
	if now == nil {
		now = time.Now
	}
	return &Faults{
		now: now, last: map[vf.PCIAddr]vf.ErrorCounts{}, totals: map[vf.PCIAddr]vf.ErrorCounts{}, recent: map[fault]map[vf.PCIAddr]since{},
	}
}

// Add adds the counts that a kernel.ErrorReader has read of the PFs, and reports whether the
// problems have changed. Errors from before the first read of a device do not count.
func (f *Faults) Add(pfs []vf.PF, counts map[vf.PCIAddr]vf.ErrorCounts) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	for _, pf := range pfs {
		f.addDevice(pf, pf.PCI, counts, now)
		for _, v := range pf.VFs {
			f.addDevice(pf, v.PCI, counts, now)
		}
	}
	for what, devices := range f.recent {
		maps.DeleteFunc(devices, func(_ vf.PCIAddr, s since) bool { return now.Sub(s.last) >= FaultPeriod })
		if len(devices) == 0 {
			delete(f.recent, what)
		}
	}
	before := f.shown
	f.shown = f.describe()
	return !slices.Equal(before, f.shown)
}

// addDevice adds the new errors of a PF or of one of its VFs.
func (f *Faults) addDevice(pf vf.PF, addr vf.PCIAddr, counts map[vf.PCIAddr]vf.ErrorCounts, now time.Time) {
	c, isRead := counts[addr]
	if !isRead {
		return
	}
	before, known := f.last[addr]
	f.last[addr] = c
	if !known {
		return
	}
	risen := c.Since(before)
	f.totals[pf.PCI] = f.totals[pf.PCI].Plus(risen)
	if risen.Nonfatal > 0 || risen.Fatal > 0 {
		f.addRecent(fault{pf.PCI, pf.Label(), vf.FaultPCIe}, addr, now)
	}
	if risen.TxTimeouts > 0 {
		f.addRecent(fault{pf.PCI, pf.Label(), vf.FaultTransmitQueue}, addr, now)
	}
}

func (f *Faults) addRecent(what fault, addr vf.PCIAddr, now time.Time) {
	if f.recent[what] == nil {
		f.recent[what] = map[vf.PCIAddr]since{}
	}
	s, known := f.recent[what][addr]
	if !known {
		s.first = now
	}
	s.last = now
	f.recent[what][addr] = s
}

// describe returns the problems. A problem has no counts, so that it stays the same while errors go
// on: each change is a write of the NodeState.
func (f *Faults) describe() (out []api.Problem) {
	for what, devices := range f.recent {
		var p api.Problem
		all := slices.SortedFunc(maps.Keys(devices), vf.PCIAddr.Compare)
		for _, s := range devices {
			if p.Since.IsZero() || s.first.Before(p.Since) {
				p.Since = s.first
			}
		}
		switch what.kind {
		case vf.FaultPCIe:
			p.Object = "PCIe of PF " + what.label
			p.Reason = fmt.Sprintf("%s had errors that PCIe does not correct (AER, nonfatal or fatal)", excerpt.List(all, 0))
			p.Next = "dmesg has each error; look at the slot, the riser and the firmware of the card"
		case vf.FaultTransmitQueue:
			p.Object = "transmit queues of PF " + what.label
			p.Reason = "a queue did not send in time (tx timeout), so the driver has reset the PF or the queue"
			p.Next = "dmesg has the queue; look at the switch port (pause frames), the driver and the firmware of the card"
		}
		p.Next += fmt.Sprintf("; this is shown for %d min after the last error", int(FaultPeriod.Minutes()))
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b api.Problem) int { return cmp.Compare(a.Object, b.Object) })
	return out
}

// Problems returns the devices that had errors within FaultPeriod, as the last Add has found.
func (f *Faults) Problems() []api.Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.shown)
}

// Kinds returns the kinds of the recent errors of each PF that had some, as the last Add has found.
func (f *Faults) Kinds() map[vf.PCIAddr][]vf.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[vf.PCIAddr][]vf.Fault{}
	for what := range f.recent {
		if !slices.Contains(out[what.pf], what.kind) {
			out[what.pf] = append(out[what.pf], what.kind)
		}
	}
	for _, kinds := range out {
		slices.Sort(kinds)
	}
	return out
}

// Count returns how many errors a PF and its VFs have had since the first Add.
func (f *Faults) Count(pf vf.PCIAddr) vf.ErrorCounts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.totals[pf]
}
