package guests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/guest/libvirt"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

// These constants bound the waits for others, and say how often the program looks.
const (
	callBound     = time.Minute     // one call of libvirt or culvertd
	unplugBound   = 3 * time.Minute // for a guest to release a device; a busy guest takes long
	shutdownBound = 3 * time.Minute
	freeBound     = 30 * time.Second // QEMU closes a VF that was unplugged
	lookEvery     = 500 * time.Millisecond
)

// Host is a host that is reached through its sockets. Its methods may be called concurrently.
type Host struct {
	name     string
	boot     string
	libvirt  string // as libvirt.Dial takes it
	culvertd string // the path of a socket
	locks    string // the directory of lockName
	locked   atomic.Pointer[os.File]
	route    Route
	missing  func(context.Context, []string) ([]string, error)
}

// Here returns this host.
func Here(culvertd string) (*Host, error) {
	name, err1 := os.Hostname()
	boot, err2 := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return &Host{name: name, boot: strings.TrimSpace(string(boot)), libvirt: libvirt.System, culvertd: culvertd, locks: "/run", missing: missingHere}, errors.Join(err1, err2)
}

func missingHere(_ context.Context, paths []string) (out []string, err error) {
	for _, p := range paths {
		if _, err := os.Stat(p); err != nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// Missing returns the paths that do not exist.
func (h *Host) Missing(ctx context.Context, paths []string) ([]string, error) {
	return h.missing(ctx, paths)
}

// withLibvirt runs a function with a connection to libvirt.
func (h *Host) withLibvirt(ctx context.Context, f func(context.Context, *libvirt.Client) error) error {
	c, err := libvirt.Dial(ctx, h.libvirt)
	if err != nil {
		return fmt.Errorf("host %s: %w", h.name, err)
	}
	return errors.Join(f(ctx, c), c.Close())
}

// See looks at a guest. Errors: libvirt.ErrNone, and those of libvirt and culvertd
// that do not answer.
func (h *Host) See(ctx context.Context, name string) (Seen, error) {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	s := Seen{Host: h.name, Boot: h.boot, Name: name, Route: h.route}
	err := h.withLibvirt(ctx, func(ctx context.Context, c *libvirt.Client) error { return s.askLibvirt(ctx, c, name) })
	if err != nil {
		return s, err
	}
	var st api.NodeStatus
	if err := rpc.Call(ctx, h.culvertd, api.MethodStatus, nil, &st); err != nil {
		return s, fmt.Errorf("host %s: %w", h.name, err)
	}
	s.VFs = st.VFs
	for _, v := range st.VFs {
		if o := v.Owner; s.UUID == "" && o != nil && o.Kind == vf.OwnerGuest && (o.Name == name || o.UID == name) {
			s.UUID, s.Name = o.UID, o.Name
		}
	}
	return s, nil
}

// askLibvirt fills in the fields of a guest that libvirt reports.
func (s *Seen) askLibvirt(ctx context.Context, c *libvirt.Client, name string) error {
	g, err := c.Find(ctx, name)
	if errors.Is(err, vf.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	s.Name, s.UUID, s.Autostart, s.Paused = g.Name, g.UUID, g.Autostart, g.State == libvirt.Paused
	if g.State != libvirt.Off {
		if s.Live, err = c.XML(ctx, g.UUID, libvirt.Live); err != nil {
			return err
		}
	}
	if g.Persistent {
		s.Defined, err = c.XML(ctx, g.UUID, libvirt.Inactive)
	}
	return err
}

// Lease gives a guest a VF.
func (h *Host) Lease(ctx context.Context, req api.GuestXMLRequest) (out api.GuestXML, err error) {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	err = rpc.Call(ctx, h.culvertd, api.MethodGuestXML, req, &out)
	return out, err
}

// Do carries out one action.
func (h *Host) Do(ctx context.Context, a Action) error {
	switch a := a.(type) {
	case Free:
		return h.freeVF(ctx, a)
	case Send:
		return h.migrateGuest(ctx, a)
	}
	return h.withLibvirt(ctx, func(ctx context.Context, c *libvirt.Client) error { return doInLibvirt(ctx, c, a) })
}

// doInLibvirt carries out the actions that libvirt alone performs.
func doInLibvirt(ctx context.Context, c *libvirt.Client, a Action) error {
	bounded, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	switch a := a.(type) {
	case Define:
		_, err := c.Define(bounded, a.XML)
		return err
	case SetAutostart:
		return setAutostart(bounded, c, a)
	case Undefine:
		if err := c.Undefine(bounded, a.Guest); !errors.Is(err, vf.ErrNotFound) {
			return err
		}
		return nil
	case Plug:
		if _, has, err := runsWith(bounded, c, a.Guest, a.Device); err != nil || has {
			return err
		}
		return c.Attach(bounded, a.Guest, a.XML, true, false)
	case Unplug:
		return unplugAndWait(ctx, c, a)
	case Shutdown:
		return shutDownGuest(ctx, c, a.Guest)
	}
	return fmt.Errorf("%s: %w: not an action", a, vf.ErrInvalid)
}

// setAutostart reads back what it set: libvirt 11.3 answers yes also when it could not make
// the link in /etc/libvirt/qemu/autostart.
func setAutostart(ctx context.Context, c *libvirt.Client, a SetAutostart) error {
	err := c.SetAutostart(ctx, a.Guest, a.On)
	if errors.Is(err, vf.ErrNotFound) && !a.On {
		return nil
	}
	if err != nil {
		return err
	}
	g, err := c.Find(ctx, a.Guest)
	if err == nil && g.Autostart != a.On {
		err = errors.New("libvirt said yes, and its autostart is as it was: ls -l /etc/libvirt/qemu/autostart may show why")
	}
	return err
}

// runsWith returns the element of a device of a guest that runs, if it runs and has it.
func runsWith(ctx context.Context, c *libvirt.Client, uuid, device string) (string, bool, error) {
	if g, err := c.Find(ctx, uuid); err != nil || g.State == libvirt.Off {
		return "", false, err
	}
	text, err := c.XML(ctx, uuid, libvirt.Live)
	if err != nil {
		return "", false, err
	}
	d, err := guest.Parse([]byte(text))
	if err != nil {
		return "", false, err
	}
	element, has := d.Device(device)
	return element, has, nil
}

// unplugAndWait asks the guest to release a device, and waits for the definition without it. It
// asks once: a guest that boots receives the request when it has booted, or never.
func unplugAndWait(ctx context.Context, c *libvirt.Client, a Unplug) error {
	element, has, err := runsWith(ctx, c, a.Guest, a.Device)
	if err != nil || !has {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, unplugBound)
	defer cancel()
	if err := c.Detach(ctx, a.Guest, element, true, false); err != nil {
		return err
	}
	return waitUntil(ctx, fmt.Sprintf("the guest has not let go of it within %s", unplugBound), func() (bool, error) {
		_, has, err := runsWith(ctx, c, a.Guest, a.Device)
		return !has, err
	})
}

// shutDownGuest asks the guest to shut itself down, and waits.
func shutDownGuest(ctx context.Context, c *libvirt.Client, uuid string) error {
	off := func() (bool, error) {
		g, err := c.Find(ctx, uuid)
		return g.State == libvirt.Off, err
	}
	if is, err := off(); err != nil || is {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownBound)
	defer cancel()
	if err := c.Shutdown(ctx, uuid); err != nil {
		return err
	}
	return waitUntil(ctx, fmt.Sprintf("the guest runs still after %s: virsh destroy stops it as if its power were cut", shutdownBound), off)
}

// waitUntil polls until done reports true, since no event reports that change. late is the error's
// text when ctx ends before.
func waitUntil(ctx context.Context, late string, done func() (bool, error)) error {
	for {
		is, err := done()
		if ctx.Err() != nil && !is {
			return fmt.Errorf("%w: %s", vf.ErrTimeout, late)
		}
		if err != nil || is {
			return err
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
		}
	}
}

// freeVF takes a VF back. QEMU closes an unplugged VF a little later than libvirt reports the
// unplugging, so freeVF repeats the request. culvertd may also have taken the VF back by itself.
func (h *Host) freeVF(ctx context.Context, a Free) error {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	closing, stop := context.WithTimeout(ctx, freeBound)
	defer stop()
	var last error
	err := waitUntil(closing, "", func() (bool, error) {
		last = rpc.Call(ctx, h.culvertd, api.MethodGuestDetach, api.GuestDetachRequest{Guest: a.Guest, Device: a.Device}, nil)
		switch {
		case errors.Is(last, vf.ErrNotFound):
			last = nil
			return true, nil
		case errors.Is(last, vf.ErrHeld):
			return false, nil
		}
		return true, last
	})
	if last != nil {
		return last
	}
	return err
}
