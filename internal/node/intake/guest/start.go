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

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/exactjson"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// startBound is how long making VFs ready for a guest may take. A start that takes longer is
// undone and refused, while the hook still listens.
const startBound = 15 * time.Second

// Start is an rpc.Handler for api.MethodGuestStart. The guest gets the VFs that its definition
// names, as the definition wants them, or none and the reason (P10): a VF has another owner, could
// not be made ready, or cannot be read from the definition. A guest with a PF of which Culvert made
// VFs does not start: they would be gone, whoever has them. A guest with another PF becomes its owner
// (leasePFs). Start says nothing about other PCI devices that are not in the ledger.
func (h *Handler) Start(ctx context.Context, params json.RawMessage) (any, error) {
	text, err := readReport(params)
	if err != nil {
		return nil, err
	}
	def, err := guest.Parse(text)
	if err != nil {
		return h.refuseUnread(text, err)
	}
	who := vf.Owner{Kind: vf.OwnerGuest, UID: def.UUID, Name: def.Name}
	wants, err := def.Wants()
	if err == nil {
		err = checkMove(def)
	}
	if err != nil {
		return refuse(err.Error()), nil
	}
	records, err := h.readRecords()
	if err != nil {
		return nil, err
	}
	var no refusal
	if twins := findTwins(records, wants); twins != "" {
		no.addReason(twins, "")
	}
	passed := h.findPFs(def.Uses)
	why, err := h.refusePFs(passed, who)
	if err != nil {
		return nil, err
	}
	if why != "" {
		no.addReason(why, "")
	}
	var requests []attach.Request
	looked := map[vf.PCIAddr]bool{} // a definition may have thousands of devices
	for _, w := range wants {
		rec, known := recordAt(records, w.VF)
		if known && looked[w.VF] {
			continue
		}
		looked[w.VF] = true
		if why := findObstacle(rec, who); known && why != "" {
			no.addReason(why, h.node.Engine.Room(ctx, rec.PCI))
		}
		switch {
		case w.Err != nil && mayBeVF(records, w):
			no.addReason(describeUnread(w), "")
		case w.Err != nil: // a device of the host that Culvert does not have
		case known:
			requests = append(requests, requestFor(rec, who, w))
		case w.Ours:
			no.addReason(fmt.Sprintf("VF %s, which is none of this host's that Culvert made", w.VF), "")
		}
	}
	if len(no.why) > 0 {
		return no.formatAnswer(who, "take it out of the definition, or culvert vm xml another one"), nil
	}
	return h.grantWithPFs(ctx, who, passed, orderPairs(requests))
}

// findTwins returns two devices that have one VF of the ledger, or one name: the lease of one of them
// would end that of the other. It returns "" if there are none.
func findTwins(records []journal.Record, wants []guest.Want) string {
	nameOf, named := map[vf.PCIAddr]string{}, map[string]vf.PCIAddr{}
	for _, w := range wants {
		if _, known := recordAt(records, w.VF); !known {
			continue
		}
		if other, twice := nameOf[w.VF]; twice {
			return fmt.Sprintf("VF %s as two devices, %s and %s", w.VF, other, w.Device)
		}
		if other, twice := named[w.Device]; twice {
			return fmt.Sprintf("VF %s and VF %s as one device, %s", other, w.VF, w.Device)
		}
		nameOf[w.VF], named[w.Device] = w.Device, w.VF
	}
	return ""
}

// checkMove keeps a guest from starting that is on its way to or from another host, where it may
// run, too. libvirt's hook does the same without culvertd.
func checkMove(def guest.Definition) error {
	m, err := def.Move()
	if why := m.Refusal(def.Name); why != "" {
		return errors.New(why)
	}
	return err
}

// refusal has the reasons why a guest cannot have VFs, and how full their pools are.
type refusal struct{ why, rooms []string }

func (r *refusal) addReason(why, room string) {
	r.why = append(r.why, why)
	if room != "" && !slices.Contains(r.rooms, room) {
		r.rooms = append(r.rooms, room)
	}
}

func (r *refusal) formatAnswer(who vf.Owner, do string) api.GuestAnswer {
	text := fmt.Sprintf("guest %s cannot have %s: %s", who.Name, strings.Join(r.why, "; "), do)
	if len(r.rooms) > 0 {
		text += " (" + strings.Join(r.rooms, "; ") + ")"
	}
	return refuse(text)
}

// longestRefusal bounds a refusal, in bytes. A definition may have thousands of mistakes, and
// libvirt's hook would let the guest start if the answer were too long for the socket.
const longestRefusal = 8 << 10

func refuse(why string) api.GuestAnswer {
	return api.GuestAnswer{Refused: excerpt.Fit(why, longestRefusal)}
}

// grantAll gives the guest all VFs. If that fails, the guest keeps only the VFs that it had before.
func (h *Handler) grantAll(ctx context.Context, requests []attach.Request) (api.GuestAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	var given []journal.Record
	for _, req := range requests {
		rec, had, err := h.grantVF(ctx, req)
		if err != nil {
			return refuse(fmt.Sprintf("guest %s cannot start: %v", req.Owner.Name, errors.Join(err, h.endLeases(ctx, given)))), nil
		}
		if !had {
			given = append(given, rec)
		}
	}
	return api.GuestAnswer{}, nil
}

// grantVF gives one VF to a guest that does not run; had says that the guest already had it with
// the wanted settings. It ends leases of the guest that contradict the definition, and those of
// an earlier run whose end was missed.
func (h *Handler) grantVF(ctx context.Context, req attach.Request) (rec journal.Record, had bool, err error) {
	mine, err := h.listHeld(func(o vf.Owner) bool { return o.UID == req.Owner.UID })
	if err != nil {
		return rec, false, err
	}
	var stale []journal.Record
	for _, r := range mine {
		named := r.Lease.Owner.Interface == req.Owner.Interface
		switch {
		case r.Phase != vf.PhaseAttached: // the engine waits for it
		case r.PCI == req.VF && named && isSameLease(r, req) && !r.Lease.Opened:
			return r, true, nil
		case r.PCI == req.VF || named:
			stale = append(stale, r)
		}
	}
	if err := h.endLeases(ctx, stale); err != nil {
		return rec, false, err
	}
	rec, err = h.node.Engine.Attach(ctx, req)
	return rec, false, err
}

// Stop is an rpc.Handler for api.MethodGuestStop: libvirt has released the devices of the guest.
// Its leases on VFs that the definition names end (P12). Others are reserved for its next start.
func (h *Handler) Stop(ctx context.Context, params json.RawMessage) (any, error) {
	text, err := readReport(params)
	if err != nil {
		return nil, err
	}
	def, err := guest.Parse(text)
	if err != nil {
		return nil, err
	}
	named := func(pci vf.PCIAddr) bool { return namesVF(def, pci) }
	return api.GuestAnswer{}, errors.Join(h.endOf(ctx, def.UUID, named), h.endPFLeases(def.UUID, named))
}

// PortCreated is an rpc.Handler for api.MethodPortCreated: it leases the VF that libvirt chose
// from a network to the guest, or refuses it. A VF that the guest has already stays as it is: its
// definition, which Start has read, has more settings than the port. If those of the port are
// others, PortCreated refuses them, unless the guest runs: libvirt reports its ports again when it
// starts anew.
func (h *Handler) PortCreated(ctx context.Context, params json.RawMessage) (any, error) {
	text, err := readReport(params)
	if err != nil {
		return nil, err
	}
	records, err := h.readRecords()
	if err != nil {
		return nil, err
	}
	port, err := guest.ParsePort(text)
	rec, known := recordAt(records, port.Want.VF)
	switch {
	case err != nil && (known || port.Want.VF.IsZero() && len(records) > 0):
		return refuse(fmt.Sprintf("a guest cannot have a device that may be a VF: %v", err)), nil
	case !known && err == nil && !port.Want.VF.IsZero():
		return h.grantPortPF(port)
	case !known:
		return api.GuestAnswer{}, nil
	}
	who := vf.Owner{Kind: vf.OwnerGuest, UID: port.UUID, Name: port.Name}
	if why := findObstacle(rec, who); why != "" {
		var no refusal
		no.addReason(why, h.node.Engine.Room(ctx, rec.PCI))
		return no.formatAnswer(who, "take it out of the network, too"), nil
	}
	if rec.Phase == vf.PhaseAttached {
		if what := describeOther(rec, port.Want.Spec); what != "" && h.node.VFs.InUse(ctx, rec) == nil {
			return refuse(fmt.Sprintf("guest %s cannot have VF %s: the network gives it %s: give both the same in the definition and in the network", who.Name, rec.PCI, what)), nil
		}
		return api.GuestAnswer{}, nil
	}
	return h.grantAll(ctx, []attach.Request{requestFor(rec, who, port.Want)})
}

// describeOther returns the setting of a port that is not that of the guest's lease, "" if there is
// none. libvirt sets it on the VF without asking.
func describeOther(rec journal.Record, s vf.Spec) string {
	has := rec.Lease.Effective
	vlan := uint16(0)
	if s.VLAN != nil {
		vlan = s.VLAN.ID
	}
	switch {
	case s.MAC != nil && *s.MAC != has.MAC:
		return fmt.Sprintf("MAC address %s, and the guest got it with %s", s.MAC, has.MAC)
	case vlan != has.VLAN.ID:
		return fmt.Sprintf("VLAN %d, and the guest got it with VLAN %d", vlan, has.VLAN.ID)
	}
	return ""
}

// PortDeleted is an rpc.Handler for api.MethodPortDeleted.
func (h *Handler) PortDeleted(ctx context.Context, params json.RawMessage) (any, error) {
	text, err := readReport(params)
	if err != nil {
		return nil, err
	}
	port, err := guest.ParsePort(text)
	if port.UUID == "" || port.Want.VF.IsZero() {
		return api.GuestAnswer{}, err
	}
	named := func(pci vf.PCIAddr) bool { return pci == port.Want.VF }
	return api.GuestAnswer{}, errors.Join(h.endOf(ctx, port.UUID, named), h.endPFLeases(port.UUID, named))
}

// readReport returns the XML of a report.
func readReport(params json.RawMessage) ([]byte, error) {
	var r api.GuestReport
	if err := exactjson.Decode(params, &r); err != nil {
		return nil, fmt.Errorf("parameters: %w: %w", vf.ErrInvalid, err)
	}
	return r.XML, nil
}

// endOf ends the guest's leases on VFs that match, as they are now: a report that
// comes late ends no later ones (I8).
func (h *Handler) endOf(ctx context.Context, uuid string, match func(vf.PCIAddr) bool) error {
	mine, err := h.listHeld(func(o vf.Owner) bool { return o.UID == uuid })
	if err != nil {
		return err
	}
	return h.endLeases(ctx, slices.DeleteFunc(mine, func(r journal.Record) bool { return !match(r.PCI) }))
}

// endLeases takes leases back, all at once. A failure does not stop the others (I7).
func (h *Handler) endLeases(ctx context.Context, leases []journal.Record) error {
	errs := make([]error, len(leases))
	var g errgroup.Group
	for i, rec := range leases {
		g.Go(func() error {
			errs[i] = h.node.Resets.End(ctx, rec)
			return nil
		})
	}
	return errors.Join(append(errs, g.Wait())...)
}

func (h *Handler) readRecords() ([]journal.Record, error) { return journal.ReadRecords(h.ledger) }

// recordAt returns the record of the VF at an address.
func recordAt(records []journal.Record, pci vf.PCIAddr) (journal.Record, bool) {
	for _, r := range records {
		if r.PCI == pci && !pci.IsZero() {
			return r, true
		}
	}
	return journal.Record{}, false
}

// requestFor returns the request for the VF that a definition wants. It does not ask for a MAC
// address that the VF has anyway: some drivers refuse to set any address.
func requestFor(rec journal.Record, who vf.Owner, w guest.Want) attach.Request {
	who.Interface = w.Device
	if w.Spec.MAC != nil && *w.Spec.MAC == rec.Baseline.Admin.MAC {
		w.Spec.MAC = nil
	}
	return attach.Request{Owner: who, VF: w.VF, Pool: w.Pool, Apart: w.Apart, Spec: w.Spec}
}

// orderPairs returns the requests with each device after the one that it must be apart from, as the
// engine wants it: it finds the PF of a device that has a VF. A device whose other one is not among
// the requests has no such wish. Of two that name each other, the later one keeps it.
func orderPairs(requests []attach.Request) (out []attach.Request) {
	has := func(all []attach.Request, name string) bool {
		return slices.ContainsFunc(all, func(r attach.Request) bool { return r.Owner.Interface == name })
	}
	rest := slices.Clone(requests)
	for i := range rest {
		if !has(rest, rest[i].Apart) {
			rest[i].Apart = ""
		}
	}
	for len(rest) > 0 {
		i := slices.IndexFunc(rest, func(r attach.Request) bool { return r.Apart == "" || has(out, r.Apart) })
		if i < 0 { // they name each other
			i, rest[0].Apart = 0, ""
		}
		out = append(out, rest[i])
		rest = slices.Delete(rest, i, i+1)
	}
	return out
}

// findObstacle returns the reason why a guest cannot have a VF, or "".
func findObstacle(rec journal.Record, who vf.Owner) string {
	mine := rec.Lease.Owner.Kind == who.Kind && rec.Lease.Owner.UID == who.UID
	switch {
	case rec.Phase == vf.PhaseQuarantined:
		return fmt.Sprintf("VF %s, which is quarantined (%s)", rec.PCI, rec.Reason)
	case rec.Held() && !mine:
		return fmt.Sprintf("VF %s, which is %s: %s by %s", rec.PCI, rec.Phase, vf.ErrHeld, rec.Holder())
	}
	return ""
}
