// Package apply brings an ESXi host to what its file says, one call after the other. It looks at the
// host after each call, and plans anew. So a run that was cut off at any call is finished by the next
// one, and an action that the host accepts and does not do is found.
//
// The commands apply and remove of culvert-esxi call it with a connection of package vsphere.
package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/made"
	"github.com/culvert-net/culvert/internal/esxi/plan"
	"github.com/culvert-net/culvert/internal/esxi/state"
	"github.com/culvert-net/culvert/internal/esxi/vsphere"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// ErrRefused means that the plan has refusals. The run stopped before the next call.
var ErrRefused = errors.New("the host cannot be as the file says")

// ErrChanged means that the host is not as it was when the person saw the plan.
var ErrChanged = errors.New("the host has changed since the plan was shown")

// ErrReboot means that the person did not allow a reboot.
var ErrReboot = errors.New("the reboot is not allowed")

// host is a connection to the host.
type host interface {
	Observe(context.Context) (state.Host, error)
	Do(ctx context.Context, action any) error
	Reconnect(context.Context) error
}

// Run is one run of apply or remove.
type Run struct {
	Host host
	Path string // of the list of what Culvert has made
	Out  io.Writer
	// AllowReboot asks the person whether the host may be rebooted. It is called at most once.
	AllowReboot func(host string) (bool, error)
	Poll        time.Duration // between two looks at a host that restarts
	Patience    time.Duration // for a host that restarts

	spec    file.Spec
	entries made.Made
	seen    state.Host
	allowed bool
	did     map[string]bool // the steps that were done, but for restarts, which may come again
	last    string          // the step that was done last
}

// Plan looks at the host, and returns the plan. It changes nothing on the host.
func (r *Run) Plan(ctx context.Context, spec file.Spec) (plan.Plan, error) {
	var err error
	r.spec = spec
	if r.entries, err = made.Read(r.Path); err != nil {
		return plan.Plan{}, err
	}
	if !r.entries.IsEmpty() && (r.entries.Server != spec.Server || r.entries.Host != spec.Host) {
		return plan.Plan{}, fmt.Errorf("%s lists what Culvert has made on %s %s, and the file is for %s %s: run culvert esxi remove with the old file first, or use another file name", r.Path, r.entries.Server, r.entries.Host, spec.Server, spec.Host)
	}
	return r.look(ctx)
}

// look reads the host, settles the entries and plans.
func (r *Run) look(ctx context.Context) (plan.Plan, error) {
	h, err := r.Host.Observe(ctx)
	if errors.Is(err, vsphere.ErrLogin) && r.Host.Reconnect(ctx) == nil { // the server has ended the session
		h, err = r.Host.Observe(ctx)
	}
	if err != nil {
		return plan.Plan{}, err
	}
	r.seen = h
	if h.Connected {
		r.entries.Settle(&h)
	}
	return plan.Make(r.spec, r.entries, h), nil
}

// Apply does the steps of a plan that Plan has returned, and verifies each.
func (r *Run) Apply(ctx context.Context, p plan.Plan) error {
	if r.entries.Server == "" {
		r.entries.Server, r.entries.Host = r.spec.Server, r.spec.Host
	}
	r.did = map[string]bool{}
	done := 0
	for {
		if len(p.Refusals) > 0 {
			return r.stop(done, p, fmt.Errorf("%w: %s", ErrRefused, excerpt.Clean(strings.Join(p.Refusals, "; "))))
		}
		if len(p.Steps) == 0 {
			return r.finish()
		}
		if p.Reboots() && !r.allowed {
			if err := r.askReboot(ctx, p); err != nil {
				return r.stop(done, p, err)
			}
		}
		err := r.checkNew(p.Steps[0])
		if err == nil {
			err = r.doStep(ctx, p.Steps[0])
		}
		if err != nil {
			return r.stop(done, p, err)
		}
		done++
		if p, err = r.look(ctx); err != nil {
			return r.stop(done, p, err)
		}
		if err := r.entries.Write(r.Path); err != nil {
			return err
		}
	}
}

// finish writes the entries at the end of a run. After remove, those of virtual machines that have left
// the host are forgotten.
func (r *Run) finish() error {
	if len(r.spec.Ports)+len(r.spec.Switches)+len(r.spec.VMs) == 0 {
		r.entries.ForgetAbsent(&r.seen)
	}
	return r.entries.Write(r.Path)
}

// checkNew returns an error for a step that was done already: the host does not show it, or shows it no
// more. A reboot may come again for another port.
func (r *Run) checkNew(step plan.Step) error {
	text := step.String()
	key := text
	if a, ok := step.Action.(plan.ChangeVM); ok { // another one may have the same name
		key += a.VM.ID
	}
	if key == r.last {
		return fmt.Errorf("the host has accepted %q, and does not show it", text)
	}
	if r.did[key] {
		return fmt.Errorf("the host has accepted %q, and does not show it any more: another program or person changes it back", text)
	}
	r.last = key
	switch step.Action.(type) {
	case plan.EnterMaintenance, plan.Reboot, plan.ExitMaintenance:
	default:
		r.did[key] = true
	}
	return nil
}

// askReboot asks the person, who may take a while. So it looks at the host again.
func (r *Run) askReboot(ctx context.Context, p plan.Plan) error {
	ok, err := r.AllowReboot(p.Host)
	if err != nil {
		return err
	}
	if !ok {
		return ErrReboot
	}
	r.allowed = true
	now, err := r.look(ctx)
	if err != nil {
		return err
	}
	if plan.Draw(now, screen.Look{}) != plan.Draw(p, screen.Look{}) {
		return fmt.Errorf("%w: run the command again, and look at its plan", ErrChanged)
	}
	return nil
}

// stop adds to an error which steps are left, when others were done.
func (r *Run) stop(done int, p plan.Plan, err error) error {
	if done == 0 {
		return err
	}
	left := make([]string, 0, len(p.Steps))
	for _, s := range p.Steps {
		left = append(left, excerpt.Clean(s.String()))
	}
	if len(left) == 0 {
		return fmt.Errorf("%w: run the command again to go on", err)
	}
	return fmt.Errorf("%w: run the command again to go on; left: %s", err, strings.Join(left, "; "))
}

// doStep writes the entries of a step, and does it.
func (r *Run) doStep(ctx context.Context, step plan.Step) error {
	before := r.entries.Clone()
	r.announce(step.Action)
	if err := r.entries.Write(r.Path); err != nil {
		return err
	}
	for _, l := range step.Lines {
		fmt.Fprintf(r.Out, "%s %s\n", l.Op, excerpt.Clean(l.Text))
	}
	err := r.Host.Do(ctx, step.Action)
	if errors.Is(err, vsphere.ErrLogin) && r.Host.Reconnect(ctx) == nil { // the server has ended the session
		err = r.Host.Do(ctx, step.Action)
	}
	if errors.Is(err, vsphere.ErrUndone) { // a part of that name is another's
		r.entries = before
		return errors.Join(err, r.entries.Write(r.Path))
	}
	if err != nil {
		return err
	}
	if _, ok := step.Action.(plan.Reboot); ok {
		return r.waitForBoot(ctx)
	}
	return nil
}

// announce adds the entries of what an action will make or change.
func (r *Run) announce(action any) {
	m := &r.entries
	switch a := action.(type) {
	case plan.SetPorts:
		for _, p := range a.Ports {
			entry, isMade := m.Ports[p.NIC]
			if port := r.seen.FindPort(p.NIC); port != nil {
				entry.Was = made.SettingOf(*port)
			}
			if !isMade {
				entry.Before = entry.Was
			}
			entry.Set = made.Setting{VFs: p.VFs, Passthrough: p.Passthrough}
			m.Ports = put(m.Ports, p.NIC, entry)
		}
	case plan.AddSwitch:
		m.Switches = put(m.Switches, a.Switch.Name, true)
	case plan.AddGroup:
		m.Groups = put(m.Groups, a.Group.Name, a.Switch)
	case plan.EnterMaintenance:
		m.Maintenance = true
	case plan.ChangeVM:
		m.VMs = put(m.VMs, a.VM.ID, announceVM(m.VMs[a.VM.ID], a))
	}
}

func announceVM(entry made.VM, a plan.ChangeVM) made.VM {
	entry.Name = a.VM.Name
	if a.Memory != nil && entry.Before == nil {
		before := a.VM.Memory()
		entry.Before = &before
	}
	var others []int32
	for _, u := range a.VM.Uses() {
		others = append(others, u.Key)
	}
	for _, n := range a.Add {
		use := state.Use{As: n.As, Port: n.Port, PortGroup: n.PortGroup, MAC: n.MAC, Address: n.Chosen.PCI}
		entry.Uses = append(entry.Uses, made.Use{Use: use, Others: others})
	}
	return entry
}

// put sets a key of a map, which it makes where there is none.
func put[V any](m map[string]V, key string, v V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = v
	return m
}

// waitForBoot returns when the host is back after a reboot: it answers, is connected, and has a later
// time of its boot. After it was away, any other time will do, since its clock may have been set back.
func (r *Run) waitForBoot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	before, away := r.seen.Boot, false
	var last error
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("host %s has not come back after its reboot within %s: %w", r.seen.Name, r.Patience, errors.Join(ctx.Err(), last))
		case <-time.After(r.Poll):
		}
		h, err := r.Host.Observe(ctx)
		if err != nil {
			last, away = err, true
			err := r.Host.Reconnect(ctx)
			switch {
			case errors.Is(err, vsphere.ErrLogin):
				return fmt.Errorf("host %s restarts, and the saved login ends with that: %w", r.seen.Name, err)
			case errors.Is(err, vsphere.ErrCertificate):
				return fmt.Errorf("host %s is back after its reboot: %w", r.seen.Name, err)
			}
			continue
		}
		away = away || !h.Connected
		if h.Connected && (h.Boot.After(before) || away && (h.Boot.IsZero() || !h.Boot.Equal(before))) {
			return nil
		}
	}
}
