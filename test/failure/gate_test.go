package failure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

var errKilled = errors.New("culvertd was killed")

// gate stands for one life of culvertd, from its start to its kill. Each kernel
// call, commit and answer of culvertd passes the gate before and after. At the
// moment that a test chose, the gate closes for good. From then on nothing that
// the code still tries has an effect, as after kill -9.
type gate struct {
	mu   sync.Mutex // guards the rest
	at   int        // moments so far
	kill int        // the moment of the kill; 0: none
	last string     // the moment at which culvertd was killed
}

// pass counts one moment. It returns errKilled if culvertd is killed at this
// moment, or was before.
func (g *gate) pass(format string, args ...any) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != "" {
		return errKilled
	}
	g.at++
	if g.at == g.kill {
		g.last = fmt.Sprintf(format, args...)
		return errKilled
	}
	return nil
}

// killAfter has the gate close at the nth moment from now.
func (g *gate) killAfter(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kill = g.at + n
}

// spare cancels a kill that has not happened yet.
func (g *gate) spare() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kill = 0
}

// killed returns the moment at which culvertd was killed. It is empty while
// culvertd lives.
func (g *gate) killed() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// mortalKernel is the kernel as one life of culvertd sees it.
type mortalKernel struct {
	*faulty.Kernel
	gate   *gate
	reads  *reads
	before func(step.SetNumVFs)

	cutAddBond func(step.AddBond) error
}

func (k mortalKernel) Do(ctx context.Context, s step.Step) error {
	if err := k.gate.pass("before %s", s); err != nil {
		return err
	}
	if n, ok := s.(step.SetNumVFs); ok {
		k.before(n)
	}
	if add, ok := s.(step.AddBond); ok { // it sends two messages to the kernel
		if err := k.gate.pass("within %s", s); err != nil {
			return errors.Join(err, k.cutAddBond(add))
		}
	}
	err := k.Kernel.Do(ctx, s)
	return errors.Join(err, k.gate.pass("after %s", s))
}

func (k mortalKernel) PFs(ctx context.Context) ([]vf.PF, error) {
	if err := k.gate.pass("list PFs"); err != nil {
		return nil, err
	}
	pfs, err := k.Kernel.PFs(ctx)
	return k.reads.listed(pfs), err
}

func (k mortalKernel) VF(ctx context.Context, pci vf.PCIAddr, netns string) (vf.State, error) {
	if err := k.gate.pass("read VF %s", pci); err != nil {
		return vf.State{}, err
	}
	if err := k.reads.hangs(pci); err != nil {
		return vf.State{}, err
	}
	return k.Kernel.VF(ctx, pci, netns)
}

func (k mortalKernel) Guard(ctx context.Context, pci vf.PCIAddr, netns string) (vf.Guard, error) {
	if err := k.gate.pass("read the guard of VF %s", pci); err != nil {
		return vf.Guard{}, err
	}
	if err := k.reads.hangs(pci); err != nil {
		return vf.Guard{}, err
	}
	return k.Kernel.Guard(ctx, pci, netns)
}

func (k mortalKernel) Users(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error) {
	if err := k.gate.pass("read open files"); err != nil {
		return nil, err
	}
	if err := k.reads.hangs(openFiles); err != nil {
		return nil, err
	}
	return k.Kernel.Users(ctx, vfs...)
}

func (k mortalKernel) Uses(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error) {
	if err := k.gate.pass("read who uses VFs"); err != nil {
		return nil, err
	}
	if err := k.reads.hangs(openFiles); err != nil {
		return nil, err
	}
	return k.Kernel.Uses(ctx, vfs...)
}

func (k mortalKernel) Probe(ctx context.Context, pf vf.PCIAddr, index int) (vf.Abilities, error) {
	if err := k.gate.pass("probe %s", pf); err != nil {
		return nil, err
	}
	return k.Kernel.Probe(ctx, pf, index)
}

// mortalLedger is the ledger as one life of culvertd sees it.
type mortalLedger struct {
	*journal.Ledger
	gate *gate
	disk *disk
}

// disk is the disk of the ledger, which may be full.
type disk struct {
	mu          sync.Mutex // guards the rest
	commits     int        // so far
	first, last int        // commits that find no room
	hit         bool
}

// fill makes count commits fail for lack of room, beginning with the nth from
// now.
func (d *disk) fill(n, count int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.first, d.last, d.hit = d.commits+n, d.commits+n+count-1, false
}

// wasFull reports whether a commit found no room, and clears the disk.
func (d *disk) wasFull() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.first, d.last = 0, 0
	return d.hit
}

func (d *disk) room() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commits++
	if d.commits < d.first || d.commits > d.last {
		return nil
	}
	d.hit = true
	return syscall.ENOSPC
}

func (l mortalLedger) Update(f func(*journal.Tx) error) error {
	if err := l.gate.pass("before a commit"); err != nil {
		return err
	}
	err := l.Ledger.Update(func(tx *journal.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return l.disk.room()
	})
	return errors.Join(err, l.gate.pass("after a commit"))
}

func (l mortalLedger) View(f func(*journal.Tx) error) error {
	if err := l.gate.pass("read the ledger"); err != nil {
		return err
	}
	return l.Ledger.View(f)
}
