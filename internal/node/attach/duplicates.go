package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

const (
	// attachTries is how often Attach tries to find an address that no other machine has.
	attachTries = 4
	// setAsideTime is how long a duplicate stays out of its pool.
	setAsideTime = 10 * time.Minute
	// mostSetAside bounds the addresses of one pool that are set aside, since a machine on the
	// segment may answer for every address.
	mostSetAside = 64
)

// detects reports whether the addresses of a request undergo duplicate address detection. An
// address that several attachments share on purpose has other holders.
func (r Request) detects() bool { return !r.IPAM.Shared }

// canReplace reports whether err is about duplicates that all came from a pool, so that another
// try gets other addresses.
func (r Request) canReplace(err error) bool {
	var found vf.DuplicateError
	if !errors.As(err, &found) || r.Late != nil {
		return false
	}
	named := r.IPAM.Named(r.Addresses)
	return !slices.ContainsFunc(found.Addresses, func(a netip.Addr) bool { return slices.Contains(named, a) })
}

// replaceDuplicates calls attach until it meets no duplicate that can be replaced, attachTries times
// at most. left is how many tries are left after that one.
func replaceDuplicates[T any](ctx context.Context, req Request, attach func(ctx context.Context, req Request, left int) (T, error)) (T, error) {
	for left := attachTries - 1; ; left-- {
		done, err := attach(ctx, req, left)
		if left == 0 || ctx.Err() != nil || !req.canReplace(err) {
			return done, err
		}
	}
}

// addressedLink returns the interface that has the lease's addresses: that of the VF, or the bond.
// It returns nil if there is none.
func addressedLink(rec journal.Record, st vf.State) *vf.Link {
	switch {
	case st.Link == nil || lease.BondOf(rec) == "":
		return st.Link
	case st.Link.Bond == nil:
		return nil
	}
	return &st.Link.Bond.Link
}

// findDuplicates returns a vf.DuplicateError for the lease's addresses that st shows as duplicates.
func findDuplicates(rec journal.Record, st vf.State) error {
	var found []netip.Addr
	link := addressedLink(rec, st)
	for _, a := range rec.Lease.Wanted.Addresses {
		if link != nil && slices.Contains(link.Duplicates, a.Prefix) {
			found = append(found, a.Prefix.Addr())
		}
	}
	if len(found) == 0 {
		return nil
	}
	return vf.DuplicateError{Addresses: found}
}

// reportDuplicates sets the addresses of a vf.DuplicateError aside, before the undo of the attach
// frees them, and reports them. It returns err with the next step. left is how many tries are left.
func (p *addresses) reportDuplicates(at lease.Site, rec journal.Record, req Request, left int, err error) error {
	var found vf.DuplicateError
	if !errors.As(err, &found) {
		return err
	}
	next := "exclude its addresses from the network, or stop it; dmesg of the node shows its MAC address"
	switch replaceable := req.canReplace(err); {
	case replaceable && left > 0:
		next = "it is replaced by another address"
	case !replaceable && req.Late == nil:
		next = "ask for another address, or stop that machine; dmesg of the node shows its MAC address"
	}
	p.noteDuplicates(at, rec, req, found, next)
	return fmt.Errorf("%w: %s", err, next)
}

// noteDuplicates sets addresses aside and makes the events about them.
func (p *addresses) noteDuplicates(at lease.Site, rec journal.Record, req Request, found vf.DuplicateError, next string) {
	now := p.vfs.Now()
	for _, a := range found.Addresses {
		p.aside.add(Duplicate{
			Pool: req.addressPool(), Addr: a, Owner: rec.Lease.Owner, Found: now, Until: now.Add(setAsideTime),
			Chosen: req.canReplace(vf.DuplicateError{Addresses: []netip.Addr{a}}),
		})
	}
	text := fmt.Sprintf("%s for %s%s: %s", found, rec.Lease.Owner, lease.OnNetwork(rec), next)
	p.vfs.Log.Warn("duplicate address", "pf", at.Label, "vf", rec.ID.Index, "owner", rec.Lease.Owner, "net", rec.Lease.Network, "addresses", found.Addresses)
	err := p.vfs.Ledger.Update(func(tx *journal.Tx) error {
		return tx.Event(rec.MakeEvent(journal.Warning, reasons.DuplicateAddress, text))
	})
	if err != nil {
		p.vfs.Log.Warn("record the event of a duplicate address", "owner", rec.Lease.Owner, "err", err)
	}
	if req.Report != nil {
		req.Report(reasons.DuplicateAddress, text)
	}
}

// followDetection waits in the background for detection that had no result when the attach
// answered, as without carrier, and reports duplicates. CHECK and the status report them too.
func (p *addresses) followDetection(ctx context.Context, at lease.Site, rec journal.Record, st vf.State, req Request) {
	link := addressedLink(rec, st)
	if link == nil {
		return
	}
	s := step.DetectDuplicates{VF: rec.PCI, Netns: rec.Lease.Netns, Bond: lease.BondOf(rec)}
	for _, a := range rec.Lease.Wanted.Addresses {
		if slices.Contains(link.Tentative, a.Prefix) {
			s.Addresses = append(s.Addresses, a.Prefix)
		}
	}
	if len(s.Addresses) == 0 {
		return
	}
	p.vfs.Log.Warn("attached before duplicate address detection has a result", "pf", at.Label, "vf", rec.ID.Index, "owner", rec.Lease.Owner, "addresses", s.Addresses)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hold.AnnounceBound)
	p.vfs.Background.Add(1)
	go func() {
		defer p.vfs.Background.Done()
		defer cancel()
		err := p.vfs.Kernel.Do(ctx, s)
		var found vf.DuplicateError
		switch {
		case errors.As(err, &found):
			p.noteDuplicates(at, rec, req, found, "its owner has it and cannot use it: start the owner anew")
		case err != nil:
			p.vfs.Log.Warn("wait for duplicate address detection", "pf", at.Label, "vf", rec.ID.Index, "owner", rec.Lease.Owner, "err", err)
		}
	}()
}

// Duplicate is an address of a pool that an attach found on another machine.
type Duplicate struct {
	Pool         string // as journal.Address.Network
	Addr         netip.Addr
	Owner        vf.Owner // the owner that was to get it
	Chosen       bool     // the node chose it from the pool, and chooses it no more before Until
	Found, Until time.Time
}

type poolAddress struct {
	pool string
	addr netip.Addr
}

// setAside has the duplicates that were found lately. It is in memory only: a culvertd that
// starts gives such an address out again, and detection finds it again. The zero value is ready.
type setAside struct {
	mu sync.Mutex // guards of
	of map[poolAddress]Duplicate
}

// add adds a duplicate, and removes the oldest one of its pool if there are too many.
func (s *setAside) add(d Duplicate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[poolAddress]Duplicate{}
	}
	s.of[poolAddress{d.Pool, d.Addr}] = d
	var oldest Duplicate
	count := 0
	for _, o := range s.of {
		if o.Pool != d.Pool {
			continue
		}
		if count++; count == 1 || o.Found.Before(oldest.Found) {
			oldest = o
		}
	}
	if count > mostSetAside {
		delete(s.of, poolAddress{oldest.Pool, oldest.Addr})
	}
}

// remove removes addresses that an attachment has got.
func (s *setAside) remove(pool string, addresses []vf.Address) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range addresses {
		delete(s.of, poolAddress{pool, a.Prefix.Addr()})
	}
}

// list returns the duplicates whose time is not over, ordered by pool and address. It forgets the
// expired ones, and those with a Found after now, since the clock was set back.
func (s *setAside) list(now time.Time) (out []Duplicate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, d := range s.of {
		if now.Before(d.Until) && !d.Found.After(now) {
			out = append(out, d)
		} else {
			delete(s.of, key)
		}
	}
	slices.SortFunc(out, func(a, b Duplicate) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), a.Addr.Compare(b.Addr)) })
	return out
}

// inPool returns the addresses of a pool that are not to be chosen.
func (s *setAside) inPool(pool string, now time.Time) map[netip.Addr]bool {
	var out map[netip.Addr]bool
	for _, d := range s.list(now) {
		if d.Pool == pool && d.Chosen {
			if out == nil {
				out = map[netip.Addr]bool{}
			}
			out[d.Addr] = true
		}
	}
	return out
}

// Duplicates returns the addresses that were found on other machines lately.
func (e *Engine) Duplicates() []Duplicate { return e.addresses.aside.list(e.vfs.Now()) }
