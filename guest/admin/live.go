package admin

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/guest"
	"github.com/culvert-net/culvert/vf"
)

// moveLive moves a guest that runs. Without its VFs, whose state is in the NIC, it goes on by its
// virtio interfaces; libvirt sees to it that it runs on one of the hosts and is
// defined there.
func (m *migration) moveLive(ctx context.Context) error {
	runs, err := parseDevices(m.s.Live)
	if err != nil {
		return err
	}
	for _, d := range []guest.Definition{m.definition, runs} {
		for _, u := range d.Uses {
			if u.Named() && u.Failover == "" {
				return fmt.Errorf("device %s of guest %s: %w for --live: it is the fast path of no virtio interface, and without it the guest would have no network: attach it with --failover, or migrate the guest when it is off (--shutdown)",
					u.Name(), d.Name, vf.ErrInvalid)
			}
		}
	}
	begin := time.Now()
	text, all, err := m.leaseVFs(ctx)
	if err == nil {
		err = m.unplugAll(ctx, runs)
	}
	unplugged := time.Now()
	if err != nil {
		return m.work.undoAll(ctx, err)
	}
	send := Send{m.s.UUID, text, m.t.Route, cmp.Or(m.Transport, SSH), cmp.Or(m.TLSName, m.t.Host)}
	if err := m.work.doAction(ctx, m.source, m.s.Host, send, nil); err != nil {
		if err := m.undoIfStayed(ctx, err); err != nil {
			return err
		}
	}
	m.sent = send.Transport
	sent := time.Now()
	if m.s.Autostart { // libvirt leaves that behind
		if err := m.work.doAction(ctx, m.target, m.t.Host, SetAutostart{m.s.UUID, true}, nil); err != nil {
			return m.explainSlow(err)
		}
	}
	for _, g := range all {
		if err := m.work.doAction(ctx, m.target, m.t.Host, Plug{m.s.UUID, g.device, g.xml}, nil); err != nil {
			return m.explainSlow(err)
		}
	}
	m.work.tell(fmt.Sprintf("on %s after %.1f s; without its VFs for %.1f s", m.t.Host, time.Since(begin).Seconds(), time.Since(unplugged).Seconds()))
	m.work.tell(fmt.Sprintf("the migration itself took %.1f s", sent.Sub(unplugged).Seconds()))
	return m.freeSource(ctx)
}

// explainSlow returns the error of a guest that is on the target, and has no VF there yet.
func (m *migration) explainSlow(err error) error {
	return fmt.Errorf("guest %s runs on host %s, by its virtio interfaces: %w: mend that, and ask again", m.Guest, m.t.Host, err)
}

// unplugAll takes the VFs out of the guest that runs, and back. Left there, the PF would give
// frames for their MAC addresses to VFs without an owner, and not to the virtio interfaces with
// the same addresses. When the guest has to have them back, they are leased anew.
func (m *migration) unplugAll(ctx context.Context, runs guest.Definition) error {
	for _, u := range runs.Uses {
		if !u.Named() {
			continue
		}
		name := u.Name()
		element, _ := runs.Device(name)
		m.work.undo = append(m.work.undo, func(ctx context.Context) error {
			again := api.GuestXMLRequest{Definition: m.s.Defined, Device: name, Way: string(u.Way), Failover: u.Failover}
			got, err := m.source.Lease(ctx, again)
			plug := Plug{m.s.UUID, name, got.Device}
			if err == nil {
				err = m.source.Do(ctx, plug)
			}
			return explainAction(m.s.Host, plug, err)
		})
		for _, a := range []Action{Unplug{m.s.UUID, name, element}, Free{m.s.UUID, name}} {
			if err := m.work.doAction(ctx, m.source, m.s.Host, a, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// undoIfStayed takes everything back after a migration that failed, if the guest has stayed; it
// returns nil if the guest runs on the target nevertheless.
func (m *migration) undoIfStayed(ctx context.Context, cause error) error {
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound)
	defer cancel()
	s, err := m.source.See(look, m.s.UUID)
	if err != nil {
		return fmt.Errorf("%w; whether guest %s runs here is not known: %w", cause, m.s.Name, err)
	}
	if s.Live == "" {
		t, err := m.target.See(look, m.s.UUID)
		if err == nil && t.Live != "" {
			return nil
		}
	}
	return m.work.undoAll(ctx, cause)
}

// plugThere gives a guest that has come to the target what its definition there has
// and it does not run with.
func (m *migration) plugThere(ctx context.Context) error {
	defined, err := parseDevices(m.t.Defined)
	if err != nil {
		return err
	}
	runs, err := parseDevices(m.t.Live)
	if err != nil {
		return err
	}
	for _, u := range defined.Uses {
		if _, has := runs.Has(u.Name()); has || !u.Named() || u.Failover == "" {
			continue
		}
		got, err := m.target.Lease(ctx, api.GuestXMLRequest{Definition: m.t.Defined, Device: u.Name(), Way: string(u.Way), Failover: u.Failover})
		if err == nil {
			err = m.work.doAction(ctx, m.target, m.t.Host, Plug{m.t.UUID, u.Name(), got.Device}, nil)
		}
		if err != nil {
			return m.explainSlow(err)
		}
	}
	return nil
}
