package guests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/vf"
)

// Migration is a person's request to move a guest to another host.
type Migration struct {
	Guest string // name or UUID
	Pool  string // of the other host; empty: pools of the same names
	// Live migrates a guest that runs; Shutdown shuts it down before.
	Live, Shutdown bool
	// Transport is for Live; SSH if it is empty. TLSName is the other host's name in its
	// certificate, for TLS; if it is empty, the name that the host itself reports.
	Transport Transport
	TLSName   string
}

// Migrate brings a guest of one host to another host, with VFs of that host. At no moment can the
// guest start on both, if both have libvirt's hooks. When Migrate returns an error, the guest is
// where it was, unless the error says otherwise. A repeated call completes an interrupted migration
// or begins it anew (docs/design/0011-migration.md). Migrate calls tell with each step.
func Migrate(ctx context.Context, from localHost, to host, what Migration, tell func(string)) (api.GuestMigrated, error) {
	m := &migration{Migration: what, source: from, target: to, work: &work{tell: tell, chained: true}}
	var (
		unlock func()
		err    error
	)
	if m.s, unlock, err = seeLocked(ctx, from, what.Guest); err != nil {
		return api.GuestMigrated{}, err
	}
	defer unlock()
	if err := m.lookAtTarget(ctx, what.Guest); err != nil {
		return api.GuestMigrated{}, err
	}
	if err := m.runMigration(ctx); err != nil {
		return api.GuestMigrated{}, err
	}
	return api.GuestMigrated{Guest: m.guestName(), Host: m.t.Host, Transport: string(m.sent)}, nil
}

// guestName returns the guest's name, by the host that has it.
func (m *migration) guestName() string {
	if m.s.UUID != "" {
		return m.s.Name
	}
	return m.t.Name
}

// migration is the migration of one guest.
type migration struct {
	Migration
	source, target host
	s, t           Seen // as they were last seen
	definition     guest.Definition
	autostart      bool      // whether the guest starts with its host when it is not on its way
	sent           Transport // by which the guest's memory went; empty when it did not
	// work is chained: its undo removes nothing from the target unless the guest can start here
	// again.
	work *work
}

// lookAtBoth looks at the guest on both hosts.
func (m *migration) lookAtBoth(ctx context.Context, name string) (err error) {
	if m.s, err = m.source.See(ctx, name); err != nil {
		return err
	}
	return m.lookAtTarget(ctx, name)
}

// lookAtTarget looks at the guest on the target. m.s has the guest as it is on this host.
func (m *migration) lookAtTarget(ctx context.Context, name string) (err error) {
	id := name
	if m.s.Defined != "" || m.s.Live != "" {
		id = m.s.UUID
	}
	if m.t, err = m.target.See(ctx, id); err != nil {
		return err
	}
	if m.s.Boot == m.t.Boot {
		return fmt.Errorf("host %s: %w: it is this host, where guest %s is already", m.t.Host, vf.ErrInvalid, name)
	}
	return nil
}

func (m *migration) runMigration(ctx context.Context) error {
	there, err := markOf(m.t)
	if err != nil {
		return err
	}
	switch {
	case m.s.Defined == "" && m.s.Live != "":
		return fmt.Errorf("guest %s: %w: it has no definition that is kept, and is gone when it stops: virsh define it first", m.s.Name, vf.ErrInvalid)
	case m.s.Defined == "" && m.t.Defined == "":
		return fmt.Errorf("guest %q: %w on %s, and on %s: virsh list --all shows which there are", m.Guest, vf.ErrNotFound, m.s.Host, m.t.Host)
	case m.s.Defined == "":
		m.autostart = there.Autostart
		return m.finishArrived(ctx, there)
	}
	if m.definition, err = guest.Parse([]byte(m.s.Defined)); err != nil {
		return err
	}
	here, err := m.definition.Move()
	m.autostart = m.s.Autostart || here.Autostart
	switch {
	case err != nil:
		return err
	case here.To == m.t.Host && m.s.Live != "" && m.t.Live != "":
		return m.explainBoth()
	case here.To == m.t.Host && m.s.Live != "" && m.Live && (m.t.Defined == "" || there.From == m.s.Host):
		return m.beginAnew(ctx)
	case here.To == m.t.Host && m.s.Live != "":
		return fmt.Errorf("guest %s: %w: it runs, though it is on its way to host %s, where it must not start then: shut it down, and ask again (culvert doctor reports missing hooks, which let it start)", m.s.Name, vf.ErrHeld, m.t.Host)
	case here.To == m.t.Host:
		return m.resumeMove(ctx, there)
	case here != (guest.Move{}):
		return fmt.Errorf("guest %s: %w: it is on its way already, %s: finish that first", m.s.Name, vf.ErrInvalid, describeWay(here))
	case m.t.Defined != "" && there.From != m.s.Host, m.t.Live != "":
		return fmt.Errorf("guest %s: %w: host %s has a guest with that UUID, too: see which of them is the right one, and undefine the other", m.s.Name, vf.ErrHeld, m.t.Host)
	}
	if m.Live {
		m.work.undo = append(m.work.undo, undoStep{undo: m.plugHere})
	}
	if err := m.checkFits(ctx); err != nil {
		return m.work.undoAll(ctx, err)
	}
	if err := m.removeLeftovers(ctx); err != nil {
		return m.work.undoAll(ctx, err)
	}
	if m.Live {
		return m.moveLive(ctx)
	}
	return m.moveCold(ctx)
}

func describeWay(m guest.Move) string {
	if m.To != "" {
		return "to host " + m.To
	}
	return "from host " + m.From
}

func markOf(s Seen) (guest.Move, error) {
	d, err := parseDevices(s.Defined)
	if err != nil || s.Defined == "" {
		return guest.Move{}, err
	}
	m, err := d.Move()
	return m, err
}

// checkFits refuses a migration that cannot work, before it changes anything.
func (m *migration) checkFits(ctx context.Context) error {
	if err := m.definition.CanMove(); err != nil {
		return err
	}
	switch {
	case m.definition.TPMState() != "" && (m.s.Live == "" || !m.Live):
		return fmt.Errorf("guest %s: %w: the state of its emulated TPM (%s) stays on this host: start the guest, and migrate it as it runs (--live), which takes the state along", m.s.Name, vf.ErrInvalid, m.definition.TPMState())
	case m.s.Live != "" && !m.Live && !m.Shutdown:
		return fmt.Errorf("guest %s: %w: it runs: shut it down, or let --shutdown do that; --live migrates it as it runs, if each of its VFs is the fast path of a virtio interface", m.s.Name, vf.ErrHeld)
	case m.s.Live == "" && m.Live:
		return fmt.Errorf("--live: %w: guest %s is off: leave it out", vf.ErrInvalid, m.s.Name)
	}
	files, err := m.definition.Files()
	if err != nil {
		return err
	}
	missing, err := m.target.Missing(ctx, files)
	if err != nil {
		return fmt.Errorf("look for the guest's files on %s: %w", m.t.Host, err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("guest %s: %w on host %s: %s: its storage has to be there, under the same paths (NFS, a SAN): culvert vm migrate copies none",
			m.s.Name, vf.ErrNotFound, m.t.Host, strings.Join(missing, ", "))
	}
	return nil
}

// removeLeftovers removes the definition and the VFs that an earlier attempt left on the target.
// The guest was never allowed to start there.
func (m *migration) removeLeftovers(ctx context.Context) error {
	if m.t.Defined != "" {
		if err := m.work.doAction(ctx, m.target, m.t.Host, Undefine{m.s.UUID}, nil); err != nil {
			return err
		}
	}
	return m.freeAll(ctx, m.target, m.t)
}

// freeAll takes back the VFs that the guest has on a host.
func (m *migration) freeAll(ctx context.Context, h host, seen Seen) error {
	var errs []error
	for _, device := range slices.Sorted(maps.Keys(seen.leasesOf(m.guestUUID()))) {
		errs = append(errs, m.work.doAction(ctx, h, seen.Host, Free{m.guestUUID(), device}, nil))
	}
	return errors.Join(errs...)
}

func (m *migration) guestUUID() string {
	if m.s.UUID != "" {
		return m.s.UUID
	}
	return m.t.UUID
}

// moveCold moves a guest that is off.
func (m *migration) moveCold(ctx context.Context) error {
	if m.s.Live != "" {
		if err := m.work.doAction(ctx, m.source, m.s.Host, Shutdown{m.s.UUID}, nil); err != nil {
			return err
		}
	}
	err := m.prepareTarget(ctx)
	if err == nil {
		err = m.markSource(ctx)
	}
	if err == nil {
		err = m.checkOff(ctx)
	}
	if err != nil {
		return m.work.undoAll(ctx, err)
	}
	return m.resumeMove(ctx, guest.Move{From: m.s.Host})
}

// prepareTarget makes all ready on the target, where the guest cannot start yet.
func (m *migration) prepareTarget(ctx context.Context) error {
	text, err := m.leaseVFs(ctx)
	if err != nil {
		return err
	}
	arriving, err := markDefinition(text, guest.Move{From: m.s.Host, Autostart: m.autostart})
	if err != nil {
		return err
	}
	if err := m.work.doAction(ctx, m.target, m.t.Host, Define{arriving}, Undefine{m.s.UUID}); err != nil {
		return err
	}
	m.t.Defined = arriving
	return nil
}

// markSource keeps the guest from starting here.
func (m *migration) markSource(ctx context.Context) error {
	leaving, err := m.definition.Marked(guest.Move{To: m.t.Host, Autostart: m.autostart})
	if err != nil {
		return err
	}
	return m.work.doAction(ctx, m.source, m.s.Host, Define{leaving}, Define{m.s.Defined})
}

// checkOff returns an error if the guest was started before it was marked.
func (m *migration) checkOff(ctx context.Context) error {
	now, err := m.source.See(ctx, m.s.UUID)
	if err == nil && now.Live != "" {
		err = fmt.Errorf("guest %s: %w: it was started meanwhile", m.s.Name, vf.ErrHeld)
	}
	return err
}

func markDefinition(text string, move guest.Move) (string, error) {
	d, err := guest.Parse([]byte(text))
	if err != nil {
		return "", err
	}
	return d.Marked(move)
}

// leaseVFs leases VFs of the target, and makes the definition with them. All settings of the guest
// stay, also a MAC address that it had from its VF.
func (m *migration) leaseVFs(ctx context.Context) (text string, err error) {
	text = m.s.Defined
	wants, err := m.definition.Wants()
	if err != nil {
		return "", err
	}
	m.markPairs(wants)
	for i, w := range wants {
		use, named := m.definition.Has(w.Device)
		if !named { // of a libvirt network
			continue
		}
		req, err := m.requestFor(use, w)
		req.Apart = findApart(wants[:i], w)
		if err == nil {
			req.Definition, err = stripDevices(text, wants[i:])
		}
		if err != nil {
			return "", err
		}
		m.work.addUndo(m.target, m.t.Host, Free{m.s.UUID, w.Device})
		m.work.tell(fmt.Sprintf("%s: a VF for %s", m.t.Host, w.Device))
		got, err := m.target.Lease(ctx, req)
		if err != nil {
			return "", fmt.Errorf("host %s: %w", m.t.Host, err)
		}
		dev := guest.Device{Name: w.Device, PCI: got.VF, MAC: *req.Spec.MAC, Pool: req.Pool, Spec: req.Spec, Apart: w.Apart}
		if req.Spec.VLAN != nil {
			dev.VLAN = *req.Spec.VLAN
		}
		d, err := guest.Parse([]byte(text))
		if err != nil {
			return "", err
		}
		if text, err = d.Replaced(dev); err != nil {
			return "", err
		}
	}
	return text, nil
}

// markPairs marks pairs of devices that an earlier version of culvert vm attach --bond made, which
// did not store in the definition that their VFs are apart. Their names end in a and b, and their
// VFs here are of one pool and two PFs.
func (m *migration) markPairs(wants []guest.Want) {
	for i, w := range wants {
		stem, isSecond := strings.CutSuffix(w.Device, "b")
		first := slices.IndexFunc(wants, func(o guest.Want) bool { return o.Device == stem+"a" })
		if !isSecond || first < 0 || w.Apart != "" || wants[first].Apart != "" || wants[first].Pool != w.Pool {
			continue
		}
		v, has := m.s.vfAt(w.VF)
		o, had := m.s.vfAt(wants[first].VF)
		if has && had && v.PF != o.PF {
			wants[i].Apart = wants[first].Device
		}
	}
}

// findApart returns the device in before on whose PF the VF of the next device must not be, "" if
// there is none. Either of the two may name the other one.
func findApart(before []guest.Want, next guest.Want) string {
	for _, w := range before {
		if next.Apart == w.Device || w.Apart == next.Device && w.Apart != "" {
			return w.Device
		}
	}
	return ""
}

// stripDevices returns a definition's text without the devices that have no VF of the target yet.
// Their VFs of the source could have the PCI address of the VF that the target gives next. The
// other devices stay, so that culvertd counts them (TestP16SameAddresses).
func stripDevices(text string, wants []guest.Want) (string, error) {
	for _, w := range wants {
		d, err := guest.Parse([]byte(text))
		if err != nil {
			return "", err
		}
		if text, err = d.Without(w.Device); err != nil {
			return "", err
		}
	}
	return text, nil
}

// requestFor returns the request for a VF of the target with the settings of the VF here. The
// request has no definition yet.
func (m *migration) requestFor(use guest.Use, w guest.Want) (api.GuestXMLRequest, error) {
	req := api.GuestXMLRequest{Device: w.Device, Pool: w.Pool, Way: string(use.Way), Failover: use.Failover, Spec: w.Spec}
	if m.Pool != "" {
		req.Pool = m.Pool
	}
	if req.Spec.MAC == nil { // the VF's own
		mac, err := m.findMAC(w)
		if err != nil {
			return req, err
		}
		req.Spec.MAC = &mac
	}
	m.warnOfMAC(w.Device, *req.Spec.MAC)
	return req, nil
}

// findMAC returns the MAC address that the guest has from a VF here. If the guest has no lease of
// the VF, it is the address of the VF's baseline, since another owner may have set another address.
// The error wraps vf.ErrHeld if that owner has the baseline's address, and vf.ErrNotFound if no
// address is known.
func (m *migration) findMAC(w guest.Want) (vf.MAC, error) {
	v, there := m.s.vfAt(w.VF)
	var unknown string
	switch o := v.Owner; {
	case !there:
		unknown = "is none of this host's"
	case v.Missing:
		unknown = "is missing from the PCI bus"
	case v.Unread:
		unknown = "cannot be read: culvert status says why"
	case o != nil && o.Kind == vf.OwnerGuest && o.UID == m.s.UUID:
		return v.Settings.MAC, nil
	case v.Baseline == nil:
		unknown = "has no baseline"
	case o != nil && v.Settings.MAC == v.Baseline.Admin.MAC:
		return vf.MAC{}, fmt.Errorf("device %s of guest %s: its MAC address is %w: %s has VF %s with MAC address %s, the own one of the VF: give the guest another one in the definition's <metadata> (virsh edit %s, mac=)",
			w.Device, m.s.Name, vf.ErrHeld, o, w.VF, v.Settings.MAC, m.s.Name)
	default:
		return v.Baseline.Admin.MAC, nil
	}
	return vf.MAC{}, fmt.Errorf("device %s of guest %s: %w: VF %s %s, so the guest's MAC address is not known: give it in the definition's <metadata> (virsh edit %s, mac=)",
		w.Device, m.s.Name, vf.ErrNotFound, w.VF, unknown, m.s.Name)
}

// warnOfMAC warns of a MAC address that two owners will have once the VF here gets another owner.
func (m *migration) warnOfMAC(device string, mac vf.MAC) {
	for _, v := range m.s.VFs {
		if v.Baseline != nil && v.Baseline.Admin.MAC == mac {
			m.work.tell(fmt.Sprintf("%s keeps MAC address %s, which is VF %s's own on %s: the next owner of that VF has it as well, unless it requests another; a guest that moves is better given one of its own (--mac)",
				device, mac, v.PCI, m.s.Host))
		}
	}
}
