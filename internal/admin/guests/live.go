package guests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/vf"
)

// moveLive moves a guest that runs. Without its VFs, whose state is in the NIC, it goes on by its
// virtio interfaces. During the move both definitions are marked, as those of a guest that is off.
// So the guest starts on neither host, and the marks say what an interrupted command has left to
// do.
func (m *migration) moveLive(ctx context.Context) error {
	runs, err := m.checkLive()
	if err != nil {
		return m.work.undoAll(ctx, err)
	}
	begin := time.Now()
	err = m.prepareTarget(ctx)
	unplugged := time.Now()
	for _, step := range []func() error{
		func() error { return m.unplugAll(ctx, runs) },
		func() error { return m.markSource(ctx) },
		func() error { return m.stopAutostart(ctx) },
	} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		return m.work.undoAll(ctx, err)
	}
	sending := time.Now()
	send := Send{m.s.UUID, m.t.Defined, m.t.Route, cmp.Or(m.Transport, SSH), cmp.Or(m.TLSName, m.t.Host)}
	cause := m.work.doAction(ctx, m.source, m.s.Host, send, nil)
	stays, err := m.findSent(ctx, cause)
	switch {
	case stays:
		return m.work.undoAll(ctx, err)
	case err != nil:
		return err
	}
	m.sent, m.work.undo = send.Transport, nil
	m.work.tell(fmt.Sprintf("the migration itself took %.1f s", time.Since(sending).Seconds()))
	if err := m.resumeMove(ctx, guest.Move{From: m.s.Host}); err != nil {
		return err
	}
	m.work.tell(fmt.Sprintf("on %s after %.1f s; without its VFs for %.1f s", m.t.Host, time.Since(begin).Seconds(), time.Since(unplugged).Seconds()))
	return nil
}

// checkLive returns the definition that the guest runs with, if each of its VFs can be unplugged
// and plugged in again as it is.
func (m *migration) checkLive() (guest.Definition, error) {
	runs, err := parseDevices(m.s.Live)
	if err == nil {
		err = runs.CanMove()
	}
	if err != nil {
		return runs, err
	}
	for _, d := range []guest.Definition{m.definition, runs} {
		for _, u := range d.Uses {
			if u.Named() && u.Failover == "" {
				return runs, fmt.Errorf("device %s of guest %s: %w for --live: it is the fast path of no virtio interface, and without it the guest would have no network: attach it with --failover, or migrate the guest when it is off (--shutdown)",
					u.Name(), d.Name, vf.ErrInvalid)
			}
		}
	}
	for _, u := range runs.Uses {
		if !u.Named() {
			continue
		}
		kept, has := m.definition.Has(u.Name())
		var what string
		switch {
		case !has:
			what = "runs with it, and its definition does not have it"
		case u.VLAN != nil && kept.VLAN != nil && u.VLAN.ID != kept.VLAN.ID:
			what = fmt.Sprintf("runs with VLAN %s, and its definition says %s", u.VLAN, kept.VLAN)
		case u.MAC != nil && kept.MAC != nil && *u.MAC != *kept.MAC:
			what = fmt.Sprintf("runs with MAC address %s, and its definition says %s", u.MAC, kept.MAC)
		default:
			continue
		}
		return runs, fmt.Errorf("device %s of guest %s: %w for --live: the guest %s: culvert vm detach %s %s, and attach it anew without --live or --config",
			u.Name(), runs.Name, vf.ErrInvalid, what, runs.Name, u.Name())
	}
	return runs, nil
}

// explainSlow returns the error of a guest that is on the target, and has no VF there yet.
func (m *migration) explainSlow(err error) error {
	return fmt.Errorf("guest %s runs on host %s, by its virtio interfaces: %w: mend that, and ask again", m.Guest, m.t.Host, err)
}

// unplugAll takes the VFs out of the guest that runs, and frees them. Otherwise the PF would give
// frames for their MAC addresses to VFs without an owner, and not to the virtio interfaces with the
// same addresses. The undo leases VFs for all devices of the guest's definition anew, since an
// earlier command may have been cut off after it unplugged them.
func (m *migration) unplugAll(ctx context.Context, runs guest.Definition) error {
	for _, u := range m.definition.Uses {
		if !u.Named() {
			continue
		}
		name := u.Name()
		back := func(ctx context.Context) error { return m.plugDevice(ctx, m.source, m.s, u) }
		m.work.undo = append(m.work.undo, undoStep{undo: back})
		actions := []Action{Free{m.s.UUID, name}}
		if element, has := runs.Device(name); has {
			actions = []Action{Unplug{m.s.UUID, name, element}, actions[0]}
		}
		for _, a := range actions {
			if err := m.work.doAction(ctx, m.source, m.s.Host, a, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// plugDevice leases a VF for a device of the definition that a host has of a running guest, and
// plugs it in.
func (m *migration) plugDevice(ctx context.Context, h host, s Seen, u guest.Use) error {
	got, err := h.Lease(ctx, api.GuestXMLRequest{Definition: s.Defined, Device: u.Name(), Way: string(u.Way), Failover: u.Failover})
	if err != nil {
		return fmt.Errorf("%s: a VF for %s: %w", s.Host, u.Name(), err)
	}
	return m.work.doAction(ctx, h, s.Host, Plug{m.guestUUID(), u.Name(), got.Device}, nil)
}

// findSent reports the outcome of a migration that ended with cause, nil if it succeeded. Either
// the guest stays, and the caller undoes everything; or the guest has gone, and m.t shows the
// target. If neither is certain, the marks keep the guest from a second start, and the error says
// what to do.
func (m *migration) findSent(ctx context.Context, cause error) (stays bool, _ error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound)
	defer cancel()
	s := Seen{}
	if cause != nil {
		var err error
		if s, err = m.source.See(ctx, m.s.UUID); err != nil {
			return false, fmt.Errorf("%w; whether guest %s runs here is not known: %w: ask again when libvirt answers", cause, m.s.Name, err)
		}
		if s.Live != "" && !s.Paused {
			return true, cause
		}
	}
	t, err := m.target.See(ctx, m.s.UUID)
	switch {
	case err != nil:
		return false, fmt.Errorf("%w: whether guest %s runs on host %s is not known, so that it starts neither here nor there: ask again when that host answers",
			errors.Join(cause, err), m.s.Name, m.t.Host)
	case cause != nil && t.Live == "":
		return true, cause
	case s.Live != "":
		return false, errors.Join(cause, m.explainBoth())
	}
	m.t = t
	return false, nil
}

// explainBoth returns the error of a guest that both libvirts show as running.
func (m *migration) explainBoth() error {
	return fmt.Errorf("guest %s: %w: both hosts have it running, and at least one of them keeps it paused, as a migration that was cut off leaves it: see virsh domstate %s on this host and on %s, virsh destroy the one that is paused, and ask again",
		m.s.Name, vf.ErrHeld, m.s.Name, m.t.Host)
}

// plugHere gives a guest that stays here the VFs that an earlier command unplugged before it was
// cut off.
func (m *migration) plugHere(ctx context.Context) error {
	s, err := m.source.See(ctx, m.s.UUID)
	if err != nil {
		return err
	}
	return m.plugMissing(ctx, m.source, s)
}

// plugThere gives a guest that has come to the target the VFs that it has to have there.
func (m *migration) plugThere(ctx context.Context) error {
	if err := m.plugMissing(ctx, m.target, m.t); err != nil {
		return m.explainSlow(err)
	}
	return nil
}

// plugMissing gives a guest that runs on a host the VFs that its definition there has and it does
// not run with.
func (m *migration) plugMissing(ctx context.Context, h host, s Seen) error {
	if s.Live == "" {
		return nil
	}
	defined, err := parseDevices(s.Defined)
	if err != nil {
		return err
	}
	runs, err := parseDevices(s.Live)
	if err != nil {
		return err
	}
	for _, u := range defined.Uses {
		if _, has := runs.Has(u.Name()); has || !u.Named() || u.Failover == "" {
			continue
		}
		if err := m.plugDevice(ctx, h, s, u); err != nil {
			return err
		}
	}
	return nil
}
