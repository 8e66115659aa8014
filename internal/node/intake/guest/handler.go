// Package guest is the intake for guests of libvirt. Handler turns a request for a guest
// (api.GuestXMLRequest, which holds the guest's definition) into an attach.Request and answers
// with the XML that passes the VF to the guest; reports of libvirt's hooks (api.GuestReport)
// become leases of a guest that starts, and end them when the guest has ended. Follower compares
// the guests that libvirt lists with the ledger.
//
// A guest is an owner in the ledger like a pod: kind vm, its UUID and its name, and the
// device's name in place of an interface's. Handler never calls libvirt, since libvirt
// waits for its hooks. culvertd registers Handler's methods with package rpc.
package guest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/exactjson"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/suggest"
	"github.com/culvert-net/culvert/internal/vf"
)

// engine is the part of attach.Engine that serves guests.
type engine interface {
	Attach(context.Context, attach.Request) (journal.Record, error)
	Room(context.Context, vf.PCIAddr) string
	PFs() []vf.PF
}

// resets is the part of reset.Resetter that serves guests.
type resets interface {
	End(context.Context, journal.Record) error
}

// vfs is the part of hold.VFs that serves guests.
type vfs interface {
	InUse(context.Context, journal.Record) error
}

// upkeep is the part of upkeep.Keeper that corrects the ledger.
type upkeep interface {
	Adopt(context.Context, attach.Request) error
	Settle(ctx context.Context, seen journal.Record, ended bool) error
}

// Parts are the parts of a node that serve guests.
type Parts struct {
	Engine engine
	Resets resets
	VFs    vfs
	Upkeep upkeep
}

// ledger is journal.Ledger.
type ledger interface {
	View(func(*journal.Tx) error) error
	Update(func(*journal.Tx) error) error
}

// Handler answers requests about guests.
type Handler struct {
	node   Parts
	ledger ledger
}

// New makes a handler over the parts of a node and its ledger.
func New(p Parts, l ledger) *Handler { return &Handler{p, l} }

// XML is an rpc.Handler: an api.GuestXMLRequest in, an api.GuestXML out.
func (h *Handler) XML(ctx context.Context, params json.RawMessage) (any, error) {
	var r api.GuestXMLRequest
	if err := exactjson.Decode(params, &r); err != nil {
		return nil, fmt.Errorf("parameters: %w: %w", vf.ErrInvalid, err)
	}
	t, way, err := checkRequest(r)
	if err != nil {
		return nil, err
	}
	def := t.Definition
	req, err := buildRequest(def, r)
	if err != nil {
		return nil, err
	}
	rec, had, err := h.leaseVF(ctx, req)
	if err != nil {
		return nil, err
	}
	apart := r.Apart
	if has, _, err := def.Of(r.Device); err == nil && apart == "" {
		apart = has.Apart
	}
	out, err := renderXML(def, way, r.Failover, apart, rec)
	if err != nil && !had {
		err = errors.Join(err, h.node.Resets.End(ctx, rec))
	}
	if err == nil && r.OS == windows {
		out.Notes = h.noteWindows(t, rec, r.Failover != "")
	}
	return out, err
}

// windows is the operating system that needs notes; the other one is linux.
const windows = "windows"

// noteWindows returns what a Windows guest needs for its VF.
func (h *Handler) noteWindows(t guest.Tuning, rec journal.Record, failover bool) (out []string) {
	var all []guest.Advice
	for _, pf := range h.node.Engine.PFs() {
		for _, v := range pf.VFs {
			if v.PCI == rec.PCI {
				all = append(all, t.Windows.AdviseVF(pf.Driver, v, failover)...)
			}
		}
	}
	for _, a := range append(all, t.Windows.Advise()...) {
		out = append(out, fmt.Sprintf("%s: %s: %s", a.What, a.Why, strings.Join(a.Mend, "; ")))
	}
	return out
}

// checkRequest parses the request. It refuses a request that can never succeed, before anything
// changes.
func checkRequest(r api.GuestXMLRequest) (guest.Tuning, guest.Way, error) {
	def, err := guest.ParseTuning([]byte(r.Definition))
	if err != nil {
		return def, "", err
	}
	way, err := guest.ParseWay(r.Way)
	if err != nil {
		return def, "", err
	}
	if r.OS != "" && r.OS != windows && r.OS != "linux" {
		return def, "", fmt.Errorf("os %q: %w: want windows or linux%s", r.OS, vf.ErrInvalid, suggest.DidYouMean(r.OS, []string{windows, "linux"}))
	}
	if r.Failover != "" {
		if err := def.TakesFailover(); err != nil {
			return def, "", err
		}
	}
	s := r.Spec
	if s.MTU != nil || s.Driver != "" || s.Interface != "" || len(s.Addresses) > 0 || len(s.Routes) > 0 {
		return def, "", fmt.Errorf("spec: %w: what a guest's VF has besides the PF's settings (MTU, addresses, routes) is set in the guest", vf.ErrInvalid)
	}
	return def, way, errors.Join(guest.CheckName(r.Device), way.Fits(s), def.TakesVF(r.Device))
}

// buildRequest returns the request for the settings in r. If r has none and the definition has
// the device, it takes the definition's settings.
func buildRequest(def guest.Definition, r api.GuestXMLRequest) (attach.Request, error) {
	req := attach.Request{
		Owner: vf.Owner{Kind: vf.OwnerGuest, UID: def.UUID, Name: def.Name, Interface: r.Device},
		Pool:  r.Pool, Spec: r.Spec, Apart: r.Apart,
	}
	has, ok, err := def.Of(r.Device)
	if err != nil || !ok {
		return req, err
	}
	if r.Pool == "" || has.Pool == "" || isPool(has.Pool, r.Pool) {
		req.VF = has.VF // as before a reboot, or a detach
	}
	if asks := r.Spec.MinTxRate != nil || r.Spec.MaxTxRate != nil || len(r.Spec.Abilities()) > 0; r.Pool == "" && !asks {
		req.Pool, req.Spec = has.Pool, has.Spec
	}
	return req, nil
}

// isPool reports whether a request for a pool, by its whole name or the short one, means the pool of
// that full name.
func isPool(full, asked string) bool { return full == asked || strings.HasSuffix(full, "/"+asked) }

// isSameLease reports whether a lease has the pool and the settings of a request.
func isSameLease(r journal.Record, req attach.Request) bool {
	pool := req.Pool == "" || isPool(r.Lease.Pool, req.Pool)
	asked, has := req.Spec.Over(r.Baseline.Admin), r.Lease.Wanted.Over(r.Baseline.Admin)
	return pool && len(vf.Baseline{Admin: asked}.Diff(vf.State{Admin: has})) == 0
}

// leaseVF leases the guest's VF; had says that the guest had that device before.
func (h *Handler) leaseVF(ctx context.Context, req attach.Request) (rec journal.Record, had bool, err error) {
	mine, err := h.listHeld(func(o vf.Owner) bool { return o.UID == req.Owner.UID && o.Interface == req.Owner.Interface })
	if err != nil {
		return rec, false, err
	}
	for _, r := range mine {
		if r.Phase != vf.PhaseAttached {
			continue
		}
		if !isSameLease(r, req) {
			return r, true, fmt.Errorf("%s has VF %s as %s already, with another pool or other settings: %w: culvert vm detach %s %s first, or choose another name",
				req.Owner, r.PCI, req.Owner.Interface, vf.ErrHeld, req.Owner.Name, req.Owner.Interface)
		}
		return r, true, nil
	}
	rec, err = h.node.Engine.Attach(ctx, req)
	return rec, false, err
}

// listHeld returns the leases of guests whose owner matches.
func (h *Handler) listHeld(match func(vf.Owner) bool) (out []journal.Record, err error) {
	records, err := h.readRecords()
	for _, r := range records {
		if o := r.Lease.Owner; r.Held() && o.Kind == vf.OwnerGuest && match(o) {
			out = append(out, r)
		}
	}
	return out, err
}

func renderXML(def guest.Definition, way guest.Way, failover, apart string, rec journal.Record) (out api.GuestXML, err error) {
	owner, admin := rec.Lease.Owner, rec.Lease.Effective
	dev := guest.Device{Name: owner.Interface, Way: way, PCI: rec.PCI, MAC: admin.MAC, VLAN: admin.VLAN, Failover: failover, Apart: apart, Pool: rec.Lease.Pool, Spec: rec.Lease.Wanted}
	out = api.GuestXML{Guest: owner, VF: rec.PCI}
	if out.Definition, err = def.With(dev); err != nil {
		return out, err
	}
	if out.Device, err = dev.XML(); err != nil {
		return out, err
	}
	if way == guest.Network {
		out.Network, err = dev.NetworkXML()
	}
	return out, err
}

// Detach is an rpc.Handler: an api.GuestDetachRequest in, an api.GuestDetached
// out.
func (h *Handler) Detach(ctx context.Context, params json.RawMessage) (any, error) {
	var r api.GuestDetachRequest
	if err := exactjson.Decode(params, &r); err != nil {
		return nil, fmt.Errorf("parameters: %w: %w", vf.ErrInvalid, err)
	}
	mine, err := h.listHeld(func(o vf.Owner) bool {
		return (o.Name == r.Guest || o.UID == r.Guest) && (r.Device == "" || o.Interface == r.Device)
	})
	if err != nil {
		return nil, err
	}
	if len(mine) == 0 {
		return nil, fmt.Errorf("VF of guest %q as %s: %w: culvert vm list shows who has which", r.Guest, cmp.Or(r.Device, "any device"), vf.ErrNotFound)
	}
	for _, rec := range mine {
		if rec.Lease.Owner.UID != mine[0].Lease.Owner.UID {
			return nil, fmt.Errorf("guest %q: %w: there is more than one of that name, with UUID %s and %s: say which by its UUID",
				r.Guest, vf.ErrInvalid, mine[0].Lease.Owner.UID, rec.Lease.Owner.UID)
		}
	}
	var errs []error
	for _, rec := range mine {
		if rec.Phase == vf.PhaseAttached {
			errs = append(errs, h.node.VFs.InUse(ctx, rec))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%w: shut guest %s down, which gives its VFs back, or virsh detach-device first", err, mine[0].Lease.Owner.Name)
	}
	out := api.GuestDetached{VFs: []api.GuestVF{}}
	for _, rec := range mine {
		errs = append(errs, h.node.Resets.End(ctx, rec))
		now, err := h.stateAfter(rec)
		errs = append(errs, err)
		out.VFs = append(out.VFs, now)
	}
	return out, errors.Join(errs...)
}

// stateAfter returns the state of a VF that was taken back.
func (h *Handler) stateAfter(had journal.Record) (api.GuestVF, error) {
	out := api.GuestVF{VF: had.PCI, Guest: had.Lease.Owner}
	err := h.ledger.View(func(tx *journal.Tx) error {
		now, err := tx.Record(had.ID)
		out.Phase, out.Reason = string(now.Phase), now.Reason
		if errors.Is(err, vf.ErrNotFound) { // it is gone from the bus
			out.Phase, err = api.PhaseMissing, nil
		}
		return err
	})
	return out, err
}
