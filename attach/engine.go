// Package attach gives VFs to their owners and takes them back: it asks alloc
// for a VF, writes the lease, changes the kernel, reads it back and says so in
// the ledger. The ways in (intake/...) call Attach, Detach, Check and Collect;
// culvertd calls Replay once at start and Tend after every look at the
// hardware.
//
// There is one way back, whatever went wrong and whoever asks: reset, which
// compares the VF with its baseline and removes the difference, reads back,
// and quarantines what will not go. Undo of a failed attach, release, replay
// after a crash and the retry of a quarantined VF are that same function.
package attach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/keylock"
	"github.com/culvert-net/culvert/vf"
)

// kernel is the part of kernel.Kernel that attach needs.
type kernel interface {
	Do(context.Context, step.Step) error
	VF(ctx context.Context, pci vf.PCIAddr, netns string) (vf.State, error)
	Users(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error)
}

// ledger is the part of journal.Ledger that attach needs.
type ledger interface {
	Update(func(*journal.Tx) error) error
	View(func(*journal.Tx) error) error
}

// hardware is what inventory last saw.
type hardware interface {
	PFs() []vf.PF
}

// Bounds on what the kernel may take. A step that hangs past its bound fails,
// and what it belongs to is undone or quarantined.
const (
	stepBound     = 30 * time.Second
	undoBound     = 2 * time.Minute
	announceBound = 20 * time.Second
	blockBound    = 10 * time.Second // for the cluster to give this node addresses
)

// Config is what an Engine is made of. All fields but MissingPools, Blocks, Given,
// NamespaceLabels, KnowsPod, Now and Log are needed.
type Config struct {
	Kernel   kernel
	Ledger   ledger
	Hardware hardware
	// Spec is the host's pools at the moment.
	Spec func() desired.Spec
	// MissingPools returns why Spec may lack pools of this node, or nil: then a pod gets no
	// VF that Spec has in no pool. Nil without a cluster.
	MissingPools func() error
	// Blocks are what this node may hand out of networks that are not of scope
	// node; nil, where there is no cluster, hands out everything.
	Blocks blocks
	// Given lists the VFs that the kubelet has given to pods, as alloc.Want's Given does;
	// nil where the host has no kubelet. It is asked for each request, again after each
	// wait, and what it returns is called while the VF is being chosen, so it must not
	// wait. Nil without Kubernetes.
	Given func(context.Context) (func(vf.PCIAddr) string, error)
	// NamespaceLabels returns the labels of a namespace. It is called before the ledger is
	// locked, and only where a pool selects namespaces by label.
	// Nil without a cluster: then such a pool serves only namespaces that it names.
	NamespaceLabels func(ctx context.Context, namespace string) (map[string]string, error)
	// KnowsPod reports whether the API server or the kubelet knows the pod that has a
	// lease; an error says that one of them did not answer. Nil without a cluster:
	// then no lease ends because its pod is gone.
	KnowsPod func(context.Context, journal.Lease) (bool, error)
	// Observe takes the duration and the outcome of each attach and detach. Nil: no
	// metrics are wanted.
	Observe func(operation string, took time.Duration, err error)
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
	drifts     told
	absent     absences
	background sync.WaitGroup // announcements, and VFs that take long to mend
}

// New returns an Engine.
func New(c Config) *Engine {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(string, time.Duration, error) {}
	}
	return &Engine{Config: c}
}

// Wait returns when everything that runs behind the answers (announcements)
// has ended.
func (e *Engine) Wait() { e.background.Wait() }

// Attach gives the owner a VF as the request wants it. When it returns nil the
// kernel was read back and the lease is durable (I6); when it returns an error
// the VF is at its baseline again, or quarantined, and nobody's.
//
// Errors: those of alloc.Choose and ipam's Allocate, vf.ErrUnable when the
// driver lacks a setting (then nothing was touched), vf.ErrHeld when this
// attachment exists already.
func (e *Engine) Attach(ctx context.Context, req Request) (_ journal.Record, err error) {
	defer e.observe(OperationAttach, e.Now(), &err)
	got, err := e.reserveClean(ctx, req)
	if err != nil {
		return journal.Record{}, err
	}
	defer got.unlock()
	rec, at := got.rec, got.at
	done, err := e.configure(ctx, at, rec, req)
	if err != nil {
		e.undo(ctx, at, rec, err)
		return journal.Record{}, fmt.Errorf("attach VF %s of PF %s to %s: %w", rec.PCI, at.label, req.Owner, err)
	}
	e.announce(ctx, at, done)
	return done, nil
}

func (e *Engine) observe(operation string, start time.Time, err *error) {
	e.Observe(operation, e.Now().Sub(start), *err)
}

// configure changes the kernel, reads it back and writes the outcome.
func (e *Engine) configure(ctx context.Context, at site, rec journal.Record, req Request) (_ journal.Record, err error) {
	if err := e.carryOut(ctx, at, &rec, attachSteps(at.place, rec)); err != nil {
		return rec, err
	}
	if req.Late != nil {
		if rec, err = e.addLate(ctx, at, rec, req); err != nil {
			return rec, err
		}
	}
	st, err := e.look(ctx, rec)
	if err != nil {
		return rec, fmt.Errorf("read back: %w", err)
	}
	rec.Lease.Effective = at.driver.Effective(st.Admin) // rates as the driver rounds them: shown, not refused (I6)
	if d := LeaseDiff(rec, st); len(d) > 0 {
		return rec, fmt.Errorf("the kernel accepted everything, but read back: %s", vf.Differences(d))
	}
	if ctx.Err() != nil { // its DEL may have come and gone before there was anything to delete
		return rec, fmt.Errorf("who asked has gone: %w", context.Cause(ctx))
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
	return rec, e.Ledger.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.Put(rec), tx.Event(journal.Event{
			Type: journal.Normal, Reason: "Attached", Object: "VF " + rec.PCI.String(),
			Text: fmt.Sprintf("vf %d of %s to %s%s", rec.ID.Index, at.label, rec.Lease.Owner, onNetwork(rec)),
		}))
	})
}

// carryOut does the steps of an attach. It takes routes that another interface has out of
// what the lease wants.
func (e *Engine) carryOut(ctx context.Context, at site, rec *journal.Record, steps []step.Step) error {
	for _, s := range steps {
		err := e.do(ctx, s)
		if r, ok := s.(step.AddRoute); ok && errors.Is(err, vf.ErrRouteTaken) {
			err = nil
			rec.Lease.Wanted.Routes = without(rec.Lease.Wanted.Routes, r.Route)
			e.Log.Info("route left out: another interface of the netns has one", "pf", at.label, "vf", rec.ID.Index, "owner", rec.Lease.Owner, "route", r.Route)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// without leaves out a route of IPv6 that another interface of the netns has: a pod has
// one by its cluster network, and must get its VF all the same. What the lease and the
// result say is what is there (I6). A route of IPv4 goes in front of those that are there.
func without(routes []vf.Route, r vf.Route) []vf.Route {
	return slices.DeleteFunc(slices.Clone(routes), func(o vf.Route) bool { return o == r })
}

func onNetwork(rec journal.Record) string {
	if rec.Lease.Network == "" {
		return ""
	}
	return ", network " + rec.Lease.Network
}

// do carries out one step within its bound.
func (e *Engine) do(ctx context.Context, s step.Step) error {
	ctx, cancel := context.WithTimeout(ctx, stepBound)
	defer cancel()
	e.Log.Debug("step", "do", s)
	return e.Kernel.Do(ctx, s)
}

// undo takes a VF back after a failed attach. The caller may have gone away;
// the undo goes on all the same. Its own failure ends in quarantine, which the
// ledger tells, so the attach reports why it failed and no more.
func (e *Engine) undo(ctx context.Context, at site, rec journal.Record, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound)
	defer cancel()
	if err := e.release(ctx, at, rec, "AttachFailed", cause); err != nil {
		e.Log.Error("undo of a failed attach", "pf", at.label, "vf", rec.ID.Index, "owner", rec.Lease.Owner, "err", err)
	}
}

// announce tells the neighbours where the addresses are now. It needs carrier,
// which may come seconds later, so nobody waits for it.
func (e *Engine) announce(ctx context.Context, at site, rec journal.Record) {
	w := rec.Lease.Wanted
	if len(w.Addresses) == 0 || w.Driver == vf.DriverVFIO {
		return
	}
	s := step.Announce{VF: rec.PCI, Netns: rec.Lease.Netns}
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
