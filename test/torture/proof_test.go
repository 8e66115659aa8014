package torture

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// clean has the state of every VF, as read from the kernel before the VF had an owner.
type clean map[vf.ID]vf.State

func allClean(pfs []vf.PF) clean {
	c := clean{}
	for _, pf := range pfs {
		for _, v := range pf.VFs {
			c[v.ID] = lasting(v)
		}
	}
	return c
}

// lasting returns a VF without the facts that change when its driver is bound anew:
// the index of the interface and the carrier, or with each frame: its counters.
func lasting(v vf.State) vf.State {
	if v.Link != nil {
		l := *v.Link
		l.Index, l.Carrier, l.Traffic = 0, false, vf.Traffic{}
		v.Link = &l
	}
	return v
}

// unlike returns the difference between the earlier and the present state of VFs,
// without their names.
func unlike(before, now clean) string {
	nameless := func(c clean) clean {
		out := clean{}
		for id, v := range c {
			if v.Link != nil {
				l := *v.Link
				l.Name = ""
				v.Link = &l
			}
			out[id] = v
		}
		return out
	}
	return cmp.Diff(nameless(before), nameless(now), addresses)
}

// attributes compares the attributes that both have: the listing that the proof begins
// with has fewer than a read of one VF.
var attributes = cmp.Comparer(func(a, b vf.Attributes) bool { return len(a.Diff(b)) == 0 })

// addresses compares the address types of package netip.
var addresses = cmp.Options{
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
}

// settled returns an error unless culvertd is ready and every VF is free or attached.
func (d *daemon) settled(ctx context.Context) error {
	st, err := d.status(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range st.VFs {
		if v.Phase != string(vf.PhaseFree) && v.Phase != string(vf.PhaseAttached) {
			errs = append(errs, fmt.Errorf("VF %s is %s since %s: %s", v.Name, v.Phase, v.Since, v.Reason))
		}
	}
	if !st.Ready {
		errs = append(errs, fmt.Errorf("not ready: %v", st.Problems))
	}
	return errors.Join(errs...)
}

// proof compares three views of a node on which nothing changes: the answers to the
// runtimes, the ledger, and the kernel's state.
type proof struct {
	kernel *kernel.Kernel
	before clean
	ledger leases
	slots  []*slot
	errs   []error
}

func (p *proof) wrong(invariant, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(invariant+": "+format, args...))
}

// violations returns the violations of the invariants I1 to I4, I6 and I8.
func (p *proof) violations(ctx context.Context) error {
	holders := map[string]journal.Record{}
	for _, rec := range p.ledger.records {
		if rec.Phase == vf.PhaseFree {
			p.free(ctx, rec)
			continue
		}
		if rec.Phase != vf.PhaseAttached {
			p.wrong("I3", "VF %s is %s: %s", rec.PCI, rec.Phase, rec.Reason)
			continue
		}
		if other, twice := holders[rec.Lease.Owner.UID]; twice {
			p.wrong("I1", "%s has the VFs %s and %s", rec.Lease.Owner, other.PCI, rec.PCI)
		}
		holders[rec.Lease.Owner.UID] = rec
	}
	if len(p.ledger.records) != len(p.before) {
		p.wrong("I2", "the ledger has %d VFs, want %d", len(p.ledger.records), len(p.before))
	}
	for _, s := range p.slots {
		rec, has := holders[s.pod.id]
		delete(holders, s.pod.id)
		p.slot(ctx, s, rec, has)
	}
	for who, rec := range holders {
		p.wrong("I1", "VF %s is held by %s, whom nobody knows", rec.PCI, who)
	}
	p.addresses()
	return errors.Join(p.errs...)
}

// free checks that the kernel has a free VF as it was before the test (I2).
func (p *proof) free(ctx context.Context, rec journal.Record) {
	st, err := p.kernel.VF(ctx, rec.PCI, "")
	if err != nil {
		p.wrong("I2", "free VF %s: %v", rec.PCI, err)
		return
	}
	if d := cmp.Diff(p.before[rec.ID], lasting(st), addresses, attributes); d != "" {
		p.wrong("I2", "free VF %s: -when made +now\n%s", rec.PCI, d)
	}
}

// slot compares what one runtime knows with the ledger and the kernel.
func (p *proof) slot(ctx context.Context, s *slot, rec journal.Record, has bool) {
	switch {
	case s.state == gone && has:
		p.wrong("I8", "%s is detached, and has VF %s", s.pod.id, rec.PCI)
	case s.state == attached && !has:
		p.wrong("I6", "%s was told that it has a VF, and the ledger has none", s.pod.id)
	case has:
		p.lease(ctx, s, rec)
	}
	if !has && s.hasNetns {
		p.nothingIn(s.pod.netns)
	}
}

// lease checks that the VF is in the netns of its owner, with all settings that the
// owner requested.
func (p *proof) lease(ctx context.Context, s *slot, rec journal.Record) {
	want, path := s.kind.spec, s.pod.netns
	if want.Driver == vf.DriverVFIO {
		path = ""
	} else {
		want.Interface = iface
		want.Addresses = rec.Lease.Wanted.Addresses
	}
	if s.state == attached {
		i := s.has.Interfaces[0]
		if i.PCI != rec.PCI {
			p.wrong("I1", "%s was told that it has VF %s; the ledger says %s", s.pod.id, i.PCI, rec.PCI)
		}
		if want.Driver == "" && (len(s.has.IPs) != 1 || len(want.Addresses) != 1 || s.has.IPs[0].Address != want.Addresses[0].Prefix) {
			p.wrong("I6", "%s was told that it has %v; the ledger says %v", s.pod.id, s.has.IPs, want.Addresses)
		}
	}
	if rec.Lease.Netns != path {
		p.wrong("I6", "VF %s of %s: the ledger says netns %q, want %q", rec.PCI, s.pod.id, rec.Lease.Netns, path)
	}
	if path != "" && !s.hasNetns {
		return // its netns was deleted before a DEL that was cut off; the next DEL ends the lease
	}
	st, err := p.kernel.VF(ctx, rec.PCI, path)
	if err != nil {
		p.wrong("I6", "VF %s of %s: %v", rec.PCI, s.pod.id, err)
		return
	}
	if d := want.Diff(vf.BaselineOf(p.before[rec.ID]), path, st); len(d) > 0 {
		p.wrong("I6", "VF %s of %s (%s): %s", rec.PCI, s.pod.id, s.state, vf.Differences(d))
	}
}

// nothingIn checks that a netns has no interfaces but those that the kernel makes in
// each netns.
func (p *proof) nothingIn(path string) {
	var links []net.Interface
	err := netns.Run(path, func() (err error) {
		links, err = net.Interfaces()
		return err
	})
	if err != nil {
		p.wrong("I2", "%v", err)
	}
	for _, l := range links {
		if l.Name != "lo" && !strings.HasPrefix(l.Name, "sit") && !strings.HasPrefix(l.Name, "ip6") {
			p.wrong("I2", "%s is in %s, whose attachment is gone", l.Name, path)
		}
	}
}

// addresses checks that each address is held by the attachment that has it, and by no
// other (I4).
func (p *proof) addresses() {
	held := map[netip.Addr]journal.Address{}
	for _, a := range p.ledger.addresses {
		if other, twice := held[a.Addr]; twice {
			p.wrong("I4", "%s is held by %s and %s", a.Addr, other.Owner, a.Owner)
		}
		held[a.Addr] = a
	}
	for _, rec := range p.ledger.records {
		for _, w := range rec.Lease.Wanted.Addresses {
			a, ok := held[w.Prefix.Addr()]
			if !ok || a.VF != rec.ID || a.Owner != rec.Lease.Owner {
				p.wrong("I4", "%s of %s is held by %q", w.Prefix, rec.Lease.Owner, a.Owner)
			}
			delete(held, w.Prefix.Addr())
		}
	}
	for addr, a := range held {
		p.wrong("I4", "%s is held by %s, which has no such VF", addr, a.Owner)
	}
	seen := map[netip.Prefix]string{}
	for _, s := range p.slots {
		for _, ip := range s.has.IPs {
			if s.state == attached && seen[ip.Address] != "" {
				p.wrong("I4", "%s was given to %s and %s", ip.Address, seen[ip.Address], s.pod.id)
			}
			seen[ip.Address] = s.pod.id
		}
	}
}
