package guests

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/vf"
)

// resumeMove continues a migration after the guest can no longer start here. When it removes the
// mark from the target's definition, the guest is the target's. It may be called again at any time.
func (m *migration) resumeMove(ctx context.Context, there guest.Move) error {
	switch {
	case m.t.Defined == "" && m.t.Live != "": // with the mark off, it could start here, too
		return fmt.Errorf("guest %s: %w: it runs on host %s, which keeps no definition of it: define it there (virsh dumpxml --inactive %s, and virsh define what that prints), and ask again",
			m.s.Name, vf.ErrHeld, m.t.Host, m.s.Name)
	case m.t.Defined == "": // it was undefined there meanwhile
		return m.beginAnew(ctx)
	case there.From != "" && m.t.Live != "": // there is no way back
		err := m.stopAutostart(ctx)
		if err == nil {
			err = m.clearMark(ctx)
		}
		if err != nil {
			return m.explainSlow(err)
		}
	case there.From != "":
		if isHere, err := m.hasTPMHere(ctx); err != nil || isHere {
			return cmp.Or(err, m.beginAnew(ctx))
		}
		if err := m.rearmUndo(); err != nil {
			return err
		}
		if err := m.stopAutostart(ctx); err != nil {
			return m.work.undoAll(ctx, err)
		}
		if err := m.clearMark(ctx); err != nil {
			return m.settleUndecided(ctx, err)
		}
	}
	err := m.plugThere(ctx)
	if failed := m.work.doAction(ctx, m.source, m.s.Host, Undefine{m.s.UUID}, nil); failed != nil {
		err = errors.Join(err, fmt.Errorf("guest %s is on host %s now, and starts there; what is left of it here cannot start: %w: mend that, and ask again", m.s.Name, m.t.Host, failed))
	}
	if err != nil {
		return err
	}
	return m.freeSource(ctx)
}

// hasTPMHere reports whether the state of the guest's emulated TPM has not come to the target: a
// live migration that would have taken it along was cut off before.
func (m *migration) hasTPMHere(ctx context.Context) (bool, error) {
	state := m.definition.TPMState()
	if state == "" {
		return false, nil
	}
	missing, err := m.target.Missing(ctx, []string{state})
	if err != nil {
		return false, fmt.Errorf("look for the state of the guest's TPM on %s: %w", m.t.Host, err)
	}
	return len(missing) > 0, nil
}

// beginAnew removes the mark from the definition here, where the guest is, and runs the migration
// from the beginning. The target's definition, if there is one, must have its mark.
func (m *migration) beginAnew(ctx context.Context) error {
	text, err := m.definition.Marked(guest.Move{})
	if err == nil {
		err = m.unmarkDefinition(ctx, m.source, m.s.Host, text, nil)
	}
	if err == nil {
		err = m.lookAtBoth(ctx, m.s.UUID)
	}
	if err != nil {
		return err
	}
	return m.runMigration(ctx)
}

// rearmUndo records the undo of an earlier attempt's steps, as if this call had made them.
func (m *migration) rearmUndo() error {
	if len(m.work.undo) > 0 {
		return nil
	}
	free, err := m.definition.Marked(guest.Move{})
	if err != nil {
		return err
	}
	for device := range m.t.leasesOf(m.s.UUID) {
		m.work.addUndo(m.target, m.t.Host, Free{m.s.UUID, device})
	}
	m.work.addUndo(m.target, m.t.Host, Undefine{m.s.UUID})
	m.work.addUndo(m.source, m.s.Host, Define{free})
	if m.autostart {
		m.work.addUndo(m.source, m.s.Host, SetAutostart{m.s.UUID, true})
	}
	return nil
}

// stopAutostart keeps libvirt from starting the marked guest when the source boots, which it would
// do where the hooks are missing. The mark says that autostart has to be on again.
func (m *migration) stopAutostart(ctx context.Context) error {
	if !m.s.Autostart {
		return nil
	}
	err := m.work.doAction(ctx, m.source, m.s.Host, SetAutostart{m.s.UUID, false}, SetAutostart{m.s.UUID, true})
	m.s.Autostart = err != nil
	return err
}

// clearMark lets the guest start on the target.
func (m *migration) clearMark(ctx context.Context) error {
	text, err := markDefinition(m.t.Defined, guest.Move{})
	if err != nil {
		return err
	}
	return m.unmarkDefinition(ctx, m.target, m.t.Host, text, SetAutostart{m.guestUUID(), false})
}

// unmarkDefinition lets the guest start on a host: text is its definition without the mark. It sets
// autostart first, since only the mark has the value of autostart. back undoes the setting of
// autostart.
func (m *migration) unmarkDefinition(ctx context.Context, h host, name, text string, back Action) error {
	if m.autostart {
		if err := m.work.doAction(ctx, h, name, SetAutostart{m.guestUUID(), true}, back); err != nil {
			return err
		}
	}
	return m.work.doAction(ctx, h, name, Define{text}, nil)
}

// settleUndecided asks the target once more whether the guest may start there, after the answer was
// lost. Until the target answers, the guest starts on neither host, since it must not start on
// both.
func (m *migration) settleUndecided(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound)
	defer cancel()
	now, err := m.target.See(ctx, m.s.UUID)
	if err != nil {
		return fmt.Errorf("%w; whether host %s has guest %s now is not known (%w), so that it starts neither here nor perhaps there: ask again when it answers", cause, m.t.Host, m.s.Name, err)
	}
	there, err := markOf(now)
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case now.Defined != "" && there == (guest.Move{}):
		m.t = now
		return m.resumeMove(ctx, there)
	case now.Live != "":
		return m.explainSlow(cause)
	}
	return m.work.undoAll(ctx, cause)
}

// finishArrived finishes the move of a guest that is no longer on this host.
func (m *migration) finishArrived(ctx context.Context, there guest.Move) error {
	switch {
	case there.To != "" || there.From != "" && there.From != m.s.Host:
		return fmt.Errorf("guest %s: %w: on host %s it is on its way already, %s: finish that first", m.t.Name, vf.ErrInvalid, m.t.Host, describeWay(there))
	case there.From != "":
		m.s.UUID = m.t.UUID
		if err := m.clearMark(ctx); err != nil {
			return err
		}
	}
	if err := m.plugThere(ctx); err != nil {
		return err
	}
	return m.freeSource(ctx)
}

// freeSource takes back the VFs that the guest had here.
func (m *migration) freeSource(ctx context.Context) error {
	if err := m.freeAll(ctx, m.source, m.s); err != nil {
		return fmt.Errorf("guest %s is on host %s; its VFs here are not free yet: %w", m.Guest, m.t.Host, err)
	}
	return nil
}
