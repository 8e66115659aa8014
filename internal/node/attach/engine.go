// Package attach gives VFs to owners. The intake packages call Attach, AttachBond and Check. Attach
// asks package alloc for a VF, writes the lease into the ledger, changes the kernel, reads the VF
// back, and writes the result into the ledger.
//
// Further packages are in its folder. Package lease makes the steps of a lease, and compares it with
// the kernel. Package hold locks VFs and finds their users. Package reset ends leases and restores
// baselines. Package loan changes the rate of an attached VF for a limited time. Package upkeep compares
// all VFs with the ledger, again and again, and mends what differs.
package attach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/attach/reset"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// Config has what an Engine needs beside the VFs of its host. All fields may be nil.
type Config struct {
	// MissingPools returns the reason why Spec may still lack pools of this node, or nil if it
	// has them all. While there is a reason, no pod gets a VF that is in no pool of Spec. The
	// function is nil without a cluster.
	MissingPools func() error
	// Blocks has the addresses that this node may hand out of networks that the cluster shares.
	// It is nil where there is no cluster; then the node may hand out all addresses.
	Blocks blocks
	// NamespaceLabels returns the labels of a namespace. It is called before the ledger is
	// locked, and only where a pool selects namespaces by label.
	// Nil without a cluster: then such a pool serves only namespaces that it names.
	NamespaceLabels func(ctx context.Context, namespace string) (map[string]string, error)
}

// Engine attaches. Its methods may be called concurrently.
type Engine struct {
	Config
	vfs       *hold.VFs
	resets    *reset.Resetter
	addresses addresses
	choosing  sync.Mutex // held by the attach that chooses its VFs
}

// New returns an Engine.
func New(vfs *hold.VFs, resets *reset.Resetter, c Config) *Engine {
	e := &Engine{Config: c, vfs: vfs, resets: resets}
	e.addresses = addresses{config: &e.Config, vfs: vfs}
	return e
}

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
	req.watch = e.vfs.StartWatch(hold.OperationAttach)
	defer req.watch.EndOperation(&err)
	return replaceDuplicates(ctx, req, e.attachOnce)
}

// attachOnce is Attach without a further try. left is how many tries are left after it.
func (e *Engine) attachOnce(ctx context.Context, req Request, left int) (journal.Record, error) {
	got, err := e.reserveClean(ctx, req)
	req.watch.EndStep(hold.StepReserve, err)
	if err != nil {
		return journal.Record{}, err
	}
	defer got.unlock()
	rec, at := got.rec, got.at
	done, st, err := e.configureVF(ctx, at, rec, req)
	if err != nil {
		err = e.addresses.reportDuplicates(at, done, req, left, err)
		req.watch.EndStep(hold.StepUndo, e.undoAttach(ctx, at, rec, err))
		return journal.Record{}, fmt.Errorf("attach VF %s of PF %s to %s: %w", rec.PCI, at.Label, req.Owner, err)
	}
	e.addresses.aside.remove(req.addressPool(), done.Lease.Wanted.Addresses)
	e.vfs.AnnounceAddresses(ctx, at, done)
	e.addresses.followDetection(ctx, at, done, st, req)
	req.reportMTU(at, done)
	return done, nil
}

// configureVF changes the kernel as the lease wants, reads it back and writes the outcome to the
// ledger. It returns the VF as it was read back.
func (e *Engine) configureVF(ctx context.Context, at lease.Site, rec journal.Record, req Request) (_ journal.Record, st vf.State, err error) {
	err = e.carryOut(ctx, at, &rec, lease.AttachSteps(at.Place, rec, req.detects()))
	req.watch.EndStep(hold.StepConfigure, err)
	if err != nil {
		return rec, st, err
	}
	if req.Late != nil {
		rec, err = e.addLate(ctx, at, rec, req)
		req.watch.EndStep(hold.StepPlugin, err)
		if err != nil {
			return rec, st, err
		}
	}
	rec, st, err = e.readBack(ctx, at, rec)
	req.watch.EndStep(hold.StepReadBack, err)
	if err != nil {
		return rec, st, err
	}
	if ctx.Err() != nil { // its DEL may have come and gone before there was anything to delete
		return rec, st, fmt.Errorf("the caller disconnected: %w", context.Cause(ctx))
	}
	err = e.vfs.Ledger.Update(func(tx *journal.Tx) error { return putAttached(tx, at, rec) })
	req.watch.EndStep(hold.StepRecord, err)
	return rec, st, err
}

// readBack compares the kernel with the lease, and returns the record of the attached VF and its
// state.
func (e *Engine) readBack(ctx context.Context, at lease.Site, rec journal.Record) (journal.Record, vf.State, error) {
	st, err := e.vfs.ReadGuarded(ctx, rec)
	if err != nil {
		return rec, st, fmt.Errorf("read back: %w", err)
	}
	if err := findDuplicates(rec, st); err != nil {
		return rec, st, err
	}
	rec.Lease.Effective = at.Driver.Effective(st.Admin) // rates as the driver rounds them: shown, not refused (I6)
	if d := lease.Diff(rec, st); len(d) > 0 {
		return rec, st, fmt.Errorf("the kernel accepted everything, but read back: %s", vf.Differences(d))
	}
	rec.Phase = vf.PhaseAttached
	switch {
	case st.Link != nil:
		rec.Lease.LinkMAC, rec.Lease.MTU = st.Link.MAC, st.Link.MTU
	case rec.Lease.Wanted.MTU != nil:
		rec.Lease.MTU = *rec.Lease.Wanted.MTU
	default:
		rec.Lease.MTU = at.MTU
	}
	return rec, st, nil
}

// putAttached writes that a VF is attached.
func putAttached(tx *journal.Tx, at lease.Site, rec journal.Record) error {
	event := rec.MakeEvent(journal.Normal, reasons.Attached, fmt.Sprintf("vf %d of %s to %s%s", rec.ID.Index, at.Label, rec.Lease.Owner, lease.OnNetwork(rec)))
	event.Settings = rec.DescribeSettings()
	return errors.Join(tx.Put(rec), tx.Event(event))
}

// carryOut carries out the steps of an attach. It removes an IPv6 route from the lease if another
// interface of the netns already has one to that destination. It does not wait longer than
// detectBound for the result of duplicate address detection; without carrier there is none.
func (e *Engine) carryOut(ctx context.Context, at lease.Site, rec *journal.Record, steps []step.Step) error {
	for _, s := range steps {
		err := e.vfs.DoStep(ctx, s)
		switch s := s.(type) {
		case step.AddRoute:
			if errors.Is(err, vf.ErrRouteTaken) {
				err = nil
				rec.Lease.Wanted.Routes = withoutRoute(rec.Lease.Wanted.Routes, s.Route)
				e.vfs.Log.Info("route left out: another interface of the netns has one", "pf", at.Label, "vf", rec.ID.Index, "owner", rec.Lease.Owner, "route", s.Route)
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

// undoAttach takes a VF back after a failed attach. The undo goes on after the caller has
// disconnected. An undo that fails quarantines the VF, and the ledger reports that, so the
// attach reports only its own failure. The returned error is for metrics, and is logged.
func (e *Engine) undoAttach(ctx context.Context, at lease.Site, rec journal.Record, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hold.UndoBound)
	defer cancel()
	err := e.resets.ReleaseVF(ctx, at, rec, reasons.AttachFailed, cause)
	if err != nil {
		e.vfs.Log.Error("undo of a failed attach", "pf", at.Label, "vf", rec.ID.Index, "owner", rec.Lease.Owner, "err", err)
	}
	return err
}
