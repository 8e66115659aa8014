package attach

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Check compares the kernel with the lease and with the attachment that the request wants now;
// the error lists every difference (CNI CHECK). Check does not compare the interface of a request
// that names none. A request that names one may belong to a chain whose later plugins change the
// interface: the CNI project's plugin tuning changes the MAC address and the MTU, its plugin
// default-route the default routes.
func (e *Engine) Check(ctx context.Context, owner vf.Owner, req Request) error {
	rec, ok, err := e.vfs.FindHeld(owner)
	if err != nil {
		return err
	}
	if ok && rec.Lease.Bond != nil {
		return e.checkBond(ctx, rec, req)
	}
	if !ok || rec.Phase != vf.PhaseAttached {
		return fmt.Errorf("%s has no VF as %s: %w in the ledger", owner, owner.Interface, vf.ErrNotFound)
	}
	st, err := e.vfs.ReadGuarded(ctx, rec)
	if err != nil {
		return fmt.Errorf("VF %s of %s: read back: %w", rec.PCI, owner, err)
	}
	d := lease.Diff(rec, st)
	if req.Spec.Interface != "" {
		req.Spec = req.expectedOf(rec)
		for _, more := range lease.SpecDiff(req.Spec, rec, lease.WithoutGuard(st)) {
			if !slices.Contains(d, more) {
				d = append(d, more)
			}
		}
		d = append(slices.DeleteFunc(d, req.mayHaveChanged), req.linkDiff(rec, st)...)
	}
	if len(d) > 0 {
		return fmt.Errorf("VF %s of %s: %s: delete and add the attachment again, or mend it by hand", rec.PCI, owner, vf.Differences(d))
	}
	return nil
}

// expectedOf returns the state that a CHECK expects of a lease. Without a MAC address in the request, it
// is the lease's: Multus passes the MAC address that a pod asks for to the ADD alone. A request that
// LowersMTU expects no more than the lease has.
func (r Request) expectedOf(rec journal.Record) vf.Spec {
	s, w := r.Spec, rec.Lease.Wanted
	if s.MAC == nil {
		s.MAC = w.MAC
	}
	if r.LowersMTU && s.MTU != nil && w.MTU != nil {
		lower := min(*s.MTU, *w.MTU)
		s.MTU = &lower
	}
	return s
}

// mayHaveChanged reports whether a later plugin of a chain may have made a difference.
func (r Request) mayHaveChanged(d vf.Difference) bool {
	switch d.Attribute {
	case "link mac":
		return true // linkDiff compares it
	case "mtu":
		return r.Spec.MTU == nil
	case "route":
		return strings.HasPrefix(d.Want, "0.0.0.0/0") || strings.HasPrefix(d.Want, "::/0")
	}
	return false
}

// linkDiff compares the MAC address of the interface with the one that the request reports, or
// with the lease's if the request reports none.
func (r Request) linkDiff(rec journal.Record, st vf.State) []vf.Difference {
	want := rec.Lease.LinkMAC
	if r.LinkMAC != nil {
		want = *r.LinkMAC
	}
	if st.Link == nil || st.Link.MAC == want || rec.Lease.Wanted.Driver == vf.DriverVFIO {
		return nil
	}
	return []vf.Difference{{Attribute: "link mac", Want: want.String(), Have: st.Link.MAC.String()}}
}

// Ready says whether an Attach of a request's network can work: vf.ErrNotReady or
// vf.ErrNothingFree with the reason when not.
func (e *Engine) Ready(_ context.Context, req Request) error {
	spec := e.vfs.Spec()
	if len(spec.Pools) == 0 {
		return fmt.Errorf("no pool is declared in /etc/culvert/host.yaml: %w", vf.ErrNotReady)
	}
	records, err := e.vfs.ReadRecords()
	if err != nil {
		return fmt.Errorf("ledger: %w: %w", err, vf.ErrNotReady)
	}
	if len(records) == 0 {
		return fmt.Errorf("no VF has been made yet: %w: see culvert status", vf.ErrNotReady)
	}
	return alloc.CheckFree(alloc.Host{PFs: e.vfs.Hardware.PFs(), Records: records, Spec: spec}, alloc.Want{VF: req.VF, Pool: req.Pool, Network: req.Network, Segment: req.Segment})
}
