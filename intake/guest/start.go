package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/attach"
	"github.com/culvert-net/culvert/guest"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// startBound is how long making VFs ready for a guest may take. What takes longer is
// undone and refused, while the hook still listens.
const startBound = 15 * time.Second

// Start is an rpc.Handler for api.MethodGuestStart. The guest gets the VFs that its
// definition names, as the definition wants them, or none and the reason (P10): a VF
// that somebody else has, or one that could not be made ready. Of PCI devices
// that are not in the ledger Culvert knows nothing, and says nothing.
func (h *Handler) Start(ctx context.Context, params json.RawMessage) (any, error) {
	def, err := definition(params)
	if err != nil {
		return nil, err
	}
	who := vf.Owner{Kind: vf.OwnerGuest, UID: def.UUID, Name: def.Name}
	wants, err := def.Wants()
	if err == nil {
		err = checkMove(def)
	}
	if err != nil {
		return api.GuestAnswer{Refused: err.Error()}, nil //nolint:nilerr // a refusal is an answer
	}
	records, err := h.records()
	if err != nil {
		return nil, err
	}
	var no refusal
	var requests []attach.Request
	for _, w := range wants {
		rec, known := at(records, w.VF)
		switch {
		case known:
			if why := against(rec, who); why != "" {
				no.add(why, h.engine.Room(ctx, rec.PCI))
			}
			requests = append(requests, wanted(rec, who, w))
		case w.Ours:
			no.add(fmt.Sprintf("VF %s, which is none of this host's that Culvert made", w.VF), "")
		}
	}
	if len(no.why) > 0 {
		return no.answer(who, "take it out of the definition, or culvert vm xml another one"), nil
	}
	return h.grantAll(ctx, requests)
}

// checkMove keeps a guest from starting that is on its way to another host or from one:
// that one may have it, too. libvirt's hook does the same without culvertd.
func checkMove(def guest.Definition) error {
	m, err := def.Move()
	if why := m.Refusal(def.Name); why != "" {
		return errors.New(why)
	}
	return err
}

// refusal is why a guest cannot have VFs, and how full their pools are.
type refusal struct{ why, rooms []string }

func (r *refusal) add(why, room string) {
	r.why = append(r.why, why)
	if room != "" && !slices.Contains(r.rooms, room) {
		r.rooms = append(r.rooms, room)
	}
}

func (r *refusal) answer(who vf.Owner, do string) api.GuestAnswer {
	text := fmt.Sprintf("guest %s cannot have %s: %s", who.Name, strings.Join(r.why, "; "), do)
	if len(r.rooms) > 0 {
		text += " (" + strings.Join(r.rooms, "; ") + ")"
	}
	return api.GuestAnswer{Refused: text}
}

// grantAll gives all VFs, or none that the guest had not before.
func (h *Handler) grantAll(ctx context.Context, requests []attach.Request) (api.GuestAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	var given []journal.Record
	for _, req := range requests {
		rec, had, err := h.grant(ctx, req)
		if err != nil {
			return api.GuestAnswer{Refused: fmt.Sprintf("guest %s cannot start: %v", req.Owner.Name, errors.Join(err, h.end(ctx, given)))}, nil
		}
		if !had {
			given = append(given, rec)
		}
	}
	return api.GuestAnswer{}, nil
}

// grant gives a guest that does not run one VF; had says that it had it, as it is
// wanted. Leases of the guest that the definition contradicts end: it is what is
// wanted. So do those of an earlier run whose end was missed.
func (h *Handler) grant(ctx context.Context, req attach.Request) (rec journal.Record, had bool, err error) {
	mine, err := h.held(func(o vf.Owner) bool { return o.UID == req.Owner.UID })
	if err != nil {
		return rec, false, err
	}
	var stale []journal.Record
	for _, r := range mine {
		named := r.Lease.Owner.Interface == req.Owner.Interface
		switch {
		case r.Phase != journal.Attached: // the engine waits for it
		case r.PCI == req.VF && named && same(r, req) && !r.Lease.Opened:
			return r, true, nil
		case r.PCI == req.VF || named:
			stale = append(stale, r)
		}
	}
	if err := h.end(ctx, stale); err != nil {
		return rec, false, err
	}
	rec, err = h.engine.Attach(ctx, req)
	return rec, false, err
}

// Stop is an rpc.Handler for api.MethodGuestStop: libvirt has let go of what the
// guest had. Its leases on VFs that the definition names end (P12). Others are
// reserved for its next start.
func (h *Handler) Stop(ctx context.Context, params json.RawMessage) (any, error) {
	def, err := definition(params)
	if err != nil {
		return nil, err
	}
	return api.GuestAnswer{}, h.endOf(ctx, def.UUID, func(pci vf.PCIAddr) bool {
		return slices.ContainsFunc(def.Uses, func(u guest.Use) bool { return u.VF() == pci })
	})
}

// PortCreated is an rpc.Handler for api.MethodPortCreated: the VF that libvirt chose
// from a network is the guest's, or refused. One that the guest has already stays as
// it is: its definition, which Start read, says more than the port.
func (h *Handler) PortCreated(ctx context.Context, params json.RawMessage) (any, error) {
	port, err := portOf(params)
	if err != nil {
		return nil, err
	}
	records, err := h.records()
	rec, known := at(records, port.Want.VF)
	if err != nil || !known {
		return api.GuestAnswer{}, err
	}
	who := vf.Owner{Kind: vf.OwnerGuest, UID: port.UUID, Name: port.Name}
	if why := against(rec, who); why != "" {
		var no refusal
		no.add(why, h.engine.Room(ctx, rec.PCI))
		return no.answer(who, "take it out of the network, too"), nil
	}
	if rec.Phase == journal.Attached {
		return api.GuestAnswer{}, nil
	}
	return h.grantAll(ctx, []attach.Request{wanted(rec, who, port.Want)})
}

// PortDeleted is an rpc.Handler for api.MethodPortDeleted.
func (h *Handler) PortDeleted(ctx context.Context, params json.RawMessage) (any, error) {
	port, err := portOf(params)
	if err != nil || port.Want.VF.IsZero() {
		return api.GuestAnswer{}, err
	}
	return api.GuestAnswer{}, h.endOf(ctx, port.UUID, func(pci vf.PCIAddr) bool { return pci == port.Want.VF })
}

func definition(params json.RawMessage) (guest.Definition, error) {
	var r api.GuestReport
	if err := json.Unmarshal(params, &r); err != nil {
		return guest.Definition{}, fmt.Errorf("parameters: %w: %w", vf.ErrInvalid, err)
	}
	return guest.Parse(r.XML)
}

func portOf(params json.RawMessage) (guest.Port, error) {
	var r api.GuestReport
	if err := json.Unmarshal(params, &r); err != nil {
		return guest.Port{}, fmt.Errorf("parameters: %w: %w", vf.ErrInvalid, err)
	}
	return guest.ParsePort(r.XML)
}

// endOf ends the guest's leases on VFs that match, as they are now: a report that
// comes late ends no later ones (I8).
func (h *Handler) endOf(ctx context.Context, uuid string, match func(vf.PCIAddr) bool) error {
	mine, err := h.held(func(o vf.Owner) bool { return o.UID == uuid })
	if err != nil {
		return err
	}
	return h.end(ctx, slices.DeleteFunc(mine, func(r journal.Record) bool { return !match(r.PCI) }))
}

// end takes leases back, at once; what fails does not keep the others (I7).
func (h *Handler) end(ctx context.Context, leases []journal.Record) error {
	errs := make([]error, len(leases))
	var g errgroup.Group
	for i, rec := range leases {
		g.Go(func() error {
			errs[i] = h.engine.End(ctx, rec)
			return nil
		})
	}
	return errors.Join(append(errs, g.Wait())...)
}

func (h *Handler) records() ([]journal.Record, error) { return journal.ReadRecords(h.ledger) }

// at is the record of the VF at an address.
func at(records []journal.Record, pci vf.PCIAddr) (journal.Record, bool) {
	for _, r := range records {
		if r.PCI == pci && !pci.IsZero() {
			return r, true
		}
	}
	return journal.Record{}, false
}

// wanted is the request for what a definition wants of a VF. An address that the VF
// has anyway is not asked for: some drivers let nobody set it.
func wanted(rec journal.Record, who vf.Owner, w guest.Want) attach.Request {
	who.Interface = w.Device
	if w.Spec.MAC != nil && *w.Spec.MAC == rec.Baseline.Admin.MAC {
		w.Spec.MAC = nil
	}
	return attach.Request{Owner: who, VF: w.VF, Spec: w.Spec}
}

// against says why a guest cannot have a VF; empty when it can.
func against(rec journal.Record, who vf.Owner) string {
	mine := rec.Lease.Owner.Kind == who.Kind && rec.Lease.Owner.UID == who.UID
	switch {
	case rec.Phase == journal.Quarantined:
		return fmt.Sprintf("VF %s, which is quarantined (%s)", rec.PCI, rec.Reason)
	case rec.Held() && !mine:
		return fmt.Sprintf("VF %s, which is %s: %s by %s", rec.PCI, rec.Phase, vf.ErrHeld, rec.Holder())
	}
	return ""
}
