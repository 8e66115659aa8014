// Package attach gives VFs to their owners and takes them back: it asks alloc for a VF, writes
// the lease, changes the kernel, reads it back and writes the outcome to the ledger. The intake
// packages call Attach, Detach, Check and Collect; culvertd calls Replay once at start, and Tend
// each time that it has listed the hardware.
//
// One function takes a VF back, for every failure and every caller: resetVF. It compares the VF
// with its baseline and removes the difference, reads back, and quarantines a VF that it cannot
// clean. The undo of a failed attach, release, replay after a crash and the retry of a
// quarantined VF all call it.
package attach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/keylock"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// kernel is the part of kernel.Kernel that attach needs.
type kernel interface {
	steps
	users
	VF(ctx context.Context, pci vf.PCIAddr, netns string) (vf.State, error)
	Guard(ctx context.Context, pci vf.PCIAddr, netns string) (vf.Guard, error)
}

// users are the reads of who uses VFs.
type users interface {
	Users(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error)
	Uses(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error)
}

// steps are the steps of the kernel; Hung returns those whose calls have not come back.
type steps interface {
	Do(context.Context, step.Step) error
	Hung() []step.Step
}

// ledger is the part of journal.Ledger that attach needs.
type ledger interface {
	Update(func(*journal.Tx) error) error
	View(func(*journal.Tx) error) error
}

// hardware is inventory.Inventory: the PFs as they were last listed.
type hardware interface {
	PFs() []vf.PF
}

// Bounds of the time that steps may take. A step that hangs longer fails. Then the attach that it
// belongs to is undone, or the VF is quarantined.
const (
	stepBound     = 30 * time.Second
	undoBound     = 2 * time.Minute
	announceBound = 20 * time.Second
	// detectBound is how long an attach waits for the result of duplicate address detection,
	// including for carrier. The kernel needs 0.3 s (kernel.detectionSettings).
	detectBound = 5 * time.Second
)

// Config has the parts of an Engine. All fields but MissingPools, Blocks, Given, NamespaceLabels,
// KnowsPod, PodEvent, Patience, Now and Log are needed.
type Config struct {
	Kernel   kernel
	Ledger   ledger
	Hardware hardware
	// Spec is the host's pools at the moment.
	Spec func() desired.Spec
	// MissingPools returns the reason why Spec may still lack pools of this node, or nil if it
	// has them all. While there is a reason, no pod gets a VF that is in no pool of Spec. The
	// function is nil without a cluster.
	MissingPools func() error
	// Blocks has the addresses that this node may hand out of networks that the cluster shares.
	// It is nil where there is no cluster; then the node may hand out all addresses.
	Blocks blocks
	// Given returns a function that names the pod to which the kubelet gave a VF, as alloc.Want's
	// Given. Attach calls Given for each request, and again after each wait. It calls the
	// returned function while it chooses the VF, so that function must not block. Given is nil on
	// a host without a kubelet.
	Given func(context.Context) (func(vf.PCIAddr) string, error)
	// NamespaceLabels returns the labels of a namespace. It is called before the ledger is
	// locked, and only where a pool selects namespaces by label.
	// Nil without a cluster: then such a pool serves only namespaces that it names.
	NamespaceLabels func(ctx context.Context, namespace string) (map[string]string, error)
	// KnowsPod reports whether the API server or the kubelet knows the pod that has a lease. Its
	// error says that one of the two did not answer. It is nil without a cluster; then no lease
	// ends because its pod is gone.
	KnowsPod func(context.Context, journal.Lease) (bool, error)
	// PodEvent emits an event of the pod that has a lease. It returns at once. It is nil without a
	// cluster.
	PodEvent func(l journal.Lease, kind, reason, text string)
	// Observe takes the duration and the outcome of each attach and detach. It may be nil.
	Observe func(operation string, took time.Duration, err error)
	// Patience is how long Tend waits for VFs that are being mended; 0 is tendPatience. Slower work
	// goes on in the background and does not delay the other VFs (I7).
	Patience time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	Log *slog.Logger // nil discards
}

// Operations that the engine passes to Observe.
const (
	OperationAttach = "attach"
	OperationDetach = "detach"
)

// Engine attaches and detaches. Its methods may be called concurrently.
type Engine struct {
	Config
	vfs        keylock.Locks[vf.ID]
	drifts     memory[string]    // the text of the last event about drift
	absent     memory[absence]   // of pods whose VF is back
	closed     memory[time.Time] // since when the VF of a guest that ran is not open
	podLinks   memory[podLink]
	dark       memory[darkness]
	guardLooks memory[time.Time] // when upkeep last read the guard
	hangs      memory[hang]
	uses       memory[vf.Use] // outside Culvert, at the last look; see anyLease
	looking    chan struct{}  // has a value for each read of waitForTurn that is under way
	aside      setAside
	background sync.WaitGroup // announcements, late results of detection, and VFs that take long to mend
}

// New returns an Engine.
func New(c Config) *Engine {
	if c.Patience == 0 {
		c.Patience = tendPatience
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(string, time.Duration, error) {}
	}
	return &Engine{Config: c, looking: make(chan struct{}, mostLooks)}
}

// Wait returns when all work has ended that goes on after the answers to callers, such as
// announcements.
func (e *Engine) Wait() { e.background.Wait() }

// Attach gives the owner a VF as the request wants it. When it returns nil, the kernel was read
// back and the lease is durable (I6). When it returns an error, the VF is at its baseline
// again, or quarantined, and has no owner.
//
// If another machine on the segment has an address that Attach chose from a pool, Attach sets the
// address aside and tries again with another one, attachTries times in all.
//
// Errors: those of alloc.Choose and ipam's Allocate, vf.ErrUnable when the driver lacks a
// setting (then nothing was touched), vf.ErrHeld when this attachment exists already,
// vf.ErrDuplicate when another machine has an address that the request names, or that another
// project's plugin gave.
func (e *Engine) Attach(ctx context.Context, req Request) (_ journal.Record, err error) {
	defer e.observeDuration(OperationAttach, e.Now(), &err)
	return replaceDuplicates(ctx, req, e.attachOnce)
}

// attachOnce is Attach without a further try. left is how many tries are left after it.
func (e *Engine) attachOnce(ctx context.Context, req Request, left int) (journal.Record, error) {
	got, err := e.reserveClean(ctx, req)
	if err != nil {
		return journal.Record{}, err
	}
	defer got.unlock()
	rec, at := got.rec, got.at
	done, st, err := e.configureVF(ctx, at, rec, req)
	if err != nil {
		err = e.reportDuplicates(at, done, req, left, err)
		e.undoAttach(ctx, at, rec, err)
		return journal.Record{}, fmt.Errorf("attach VF %s of PF %s to %s: %w", rec.PCI, at.label, req.Owner, err)
	}
	e.aside.remove(req.addressPool(), done.Lease.Wanted.Addresses)
	e.announceAddresses(ctx, at, done)
	e.followDetection(ctx, at, done, st, req)
	return done, nil
}

func (e *Engine) observeDuration(operation string, start time.Time, err *error) {
	e.Observe(operation, e.Now().Sub(start), *err)
}

// configureVF changes the kernel as the lease wants, reads it back and writes the outcome to the
// ledger. It returns the VF as it was read back.
func (e *Engine) configureVF(ctx context.Context, at site, rec journal.Record, req Request) (_ journal.Record, st vf.State, err error) {
	if err := e.carryOut(ctx, at, &rec, attachSteps(at.place, rec, req.detects())); err != nil {
		return rec, st, err
	}
	if req.Late != nil {
		if rec, err = e.addLate(ctx, at, rec, req); err != nil {
			return rec, st, err
		}
	}
	if rec, st, err = e.readBack(ctx, at, rec); err != nil {
		return rec, st, err
	}
	if ctx.Err() != nil { // its DEL may have come and gone before there was anything to delete
		return rec, st, fmt.Errorf("the caller disconnected: %w", context.Cause(ctx))
	}
	return rec, st, e.Ledger.Update(func(tx *journal.Tx) error { return putAttached(tx, at, rec) })
}

// readBack compares the kernel with the lease, and returns the record of the attached VF and its
// state.
func (e *Engine) readBack(ctx context.Context, at site, rec journal.Record) (journal.Record, vf.State, error) {
	st, err := e.readGuarded(ctx, rec)
	if err != nil {
		return rec, st, fmt.Errorf("read back: %w", err)
	}
	if err := findDuplicates(rec, st); err != nil {
		return rec, st, err
	}
	rec.Lease.Effective = at.driver.Effective(st.Admin) // rates as the driver rounds them: shown, not refused (I6)
	if d := LeaseDiff(rec, st); len(d) > 0 {
		return rec, st, fmt.Errorf("the kernel accepted everything, but read back: %s", vf.Differences(d))
	}
	rec.Phase = journal.Attached
	switch {
	case st.Link != nil:
		rec.Lease.LinkMAC, rec.Lease.MTU = st.Link.MAC, st.Link.MTU
	case rec.Lease.Wanted.MTU != nil:
		rec.Lease.MTU = *rec.Lease.Wanted.MTU
	default:
		rec.Lease.MTU = at.mtu
	}
	return rec, st, nil
}

// putAttached writes that a VF is attached.
func putAttached(tx *journal.Tx, at site, rec journal.Record) error {
	return errors.Join(tx.Put(rec), tx.Event(journal.Event{
		Type: journal.Normal, Reason: "Attached", Object: "VF " + rec.PCI.String(),
		Text: fmt.Sprintf("vf %d of %s to %s%s", rec.ID.Index, at.label, rec.Lease.Owner, onNetwork(rec)),
	}))
}

// carryOut carries out the steps of an attach. It removes an IPv6 route from the lease if another
// interface of the netns already has one to that destination. It does not wait longer than
// detectBound for the result of duplicate address detection; without carrier there is none.
func (e *Engine) carryOut(ctx context.Context, at site, rec *journal.Record, steps []step.Step) error {
	for _, s := range steps {
		err := e.doStep(ctx, s)
		switch s := s.(type) {
		case step.AddRoute:
			if errors.Is(err, vf.ErrRouteTaken) {
				err = nil
				rec.Lease.Wanted.Routes = withoutRoute(rec.Lease.Wanted.Routes, s.Route)
				e.Log.Info("route left out: another interface of the netns has one", "pf", at.label, "vf", rec.ID.Index, "owner", rec.Lease.Owner, "route", s.Route)
			}
		case step.DetectDuplicates:
			if errors.Is(err, vf.ErrTimeout) && ctx.Err() == nil {
				err = nil // followDetection goes on
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// withoutRoute leaves out an IPv6 route that another interface of the netns already has. The
// cluster network may have given it to the pod, which must get its VF nevertheless. The lease and
// the result list the routes that exist (I6). An IPv4 route takes precedence over the existing
// ones.
func withoutRoute(routes []vf.Route, r vf.Route) []vf.Route {
	return slices.DeleteFunc(slices.Clone(routes), func(o vf.Route) bool { return o == r })
}

func onNetwork(rec journal.Record) string {
	if rec.Lease.Network == "" {
		return ""
	}
	return ", network " + rec.Lease.Network
}

// doStep carries out one step within its bound.
func (e *Engine) doStep(ctx context.Context, s step.Step) error {
	bound := stepBound
	if _, ok := s.(step.DetectDuplicates); ok {
		bound = detectBound
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	e.Log.Debug("step", "do", s)
	return e.Kernel.Do(ctx, s)
}

// undoAttach takes a VF back after a failed attach. The undo goes on after the caller has
// disconnected. An undo that fails quarantines the VF, and the ledger reports that, so the
// attach reports only its own failure.
func (e *Engine) undoAttach(ctx context.Context, at site, rec journal.Record, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound)
	defer cancel()
	if err := e.releaseVF(ctx, at, rec, "AttachFailed", cause); err != nil {
		e.Log.Error("undo of a failed attach", "pf", at.label, "vf", rec.ID.Index, "owner", rec.Lease.Owner, "err", err)
	}
}

// announceAddresses announces the addresses to the neighbours. An announcement needs carrier,
// which may come seconds later, so it runs in the background.
func (e *Engine) announceAddresses(ctx context.Context, at site, rec journal.Record) {
	w := rec.Lease.Wanted
	if len(w.Addresses) == 0 || w.Driver == vf.DriverVFIO {
		return
	}
	s := step.Announce{VF: rec.PCI, Netns: rec.Lease.Netns, Bond: bondOf(rec)}
	for _, a := range w.Addresses {
		s.Addresses = append(s.Addresses, a.Prefix)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), announceBound)
	e.background.Add(1)
	go func() {
		defer e.background.Done()
		defer cancel()
		if err := e.Kernel.Do(ctx, s); err != nil {
			e.Log.Warn("announce", "pf", at.label, "vf", rec.ID.Index, "owner", rec.Lease.Owner, "err", err)
		}
	}()
}
