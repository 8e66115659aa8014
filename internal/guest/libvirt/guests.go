package libvirt

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	protocol "github.com/digitalocean/go-libvirt"
)

// State is the state of a guest.
type State string

// The states. A guest that is shutting down is Running. A guest that crashed and is kept for
// inspection is Paused. Both have their devices.
const (
	Running State = "running"
	Paused  State = "paused"
	Off     State = "off"
)

// Guest is one guest as libvirt lists it.
type Guest struct {
	UUID, Name string
	State      State
	Autostart  bool
	// Persistent is false for a guest that is gone when it stops.
	Persistent bool
}

// Guests lists all guests, also those that are off.
func (c *Client) Guests(ctx context.Context) (out []Guest, err error) {
	var domains []protocol.Domain
	err = c.callNamed(ctx, "list the guests", func() (err error) {
		domains, _, err = c.rpc.ConnectListAllDomains(1, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, d := range domains {
		g, err := c.readGuest(ctx, d)
		if protocol.IsNotFound(err) {
			continue // the guest disappeared meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

// Find returns one guest, by its name or UUID. Errors: vf.ErrNotFound.
func (c *Client) Find(ctx context.Context, guest string) (Guest, error) {
	d, err := c.findGuest(ctx, guest)
	if err != nil {
		return Guest{}, err
	}
	return c.readGuest(ctx, d)
}

func (c *Client) readGuest(ctx context.Context, d protocol.Domain) (Guest, error) {
	g := Guest{UUID: formatUUID(d.UUID), Name: d.Name}
	err := c.callNamed(ctx, "state of guest "+d.Name, func() error {
		state, _, err := c.rpc.DomainGetState(d, 0)
		if err != nil {
			return err
		}
		g.State = stateOf(protocol.DomainState(state))
		starts, err := c.rpc.DomainGetAutostart(d)
		if err != nil {
			return err
		}
		persistent, err := c.rpc.DomainIsPersistent(d)
		g.Autostart, g.Persistent = starts != 0, persistent != 0
		return err
	})
	return g, err
}

func stateOf(s protocol.DomainState) State {
	switch s {
	case protocol.DomainShutoff, protocol.DomainNostate:
		return Off
	case protocol.DomainPaused, protocol.DomainPmsuspended, protocol.DomainCrashed:
		return Paused
	}
	return Running
}

// findGuest finds a guest by its UUID, or its name.
func (c *Client) findGuest(ctx context.Context, guest string) (d protocol.Domain, err error) {
	err = c.callNamed(ctx, "guest "+guest, func() (err error) {
		if id, ok := parseUUID(guest); ok {
			d, err = c.rpc.DomainLookupByUUID(id)
			return err
		}
		d, err = c.rpc.DomainLookupByName(guest)
		return err
	})
	return d, err
}

// onGuest does something to one guest.
func (c *Client) onGuest(ctx context.Context, what, guest string, f func(protocol.Domain) error) error {
	d, err := c.findGuest(ctx, guest)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return c.callNamed(ctx, what+" guest "+guest, func() error { return f(d) })
}

// Which is one of a guest's two definitions.
type Which protocol.DomainXMLFlags

const (
	// Live is the definition that the guest runs with. For a guest that is off, it is the same as
	// Inactive.
	Live Which = 0
	// Inactive is the complete definition of its next start. It includes the passwords that
	// libvirt leaves out elsewhere, so that Define does not lose them.
	Inactive = Which(protocol.DomainXMLInactive | protocol.DomainXMLSecure)
)

// XML returns a guest's definition. Errors: vf.ErrNotFound.
func (c *Client) XML(ctx context.Context, guest string, which Which) (xml string, err error) {
	err = c.onGuest(ctx, "definition of", guest, func(d protocol.Domain) (err error) {
		xml, err = c.rpc.DomainGetXMLDesc(d, protocol.DomainXMLFlags(which))
		return err
	})
	return xml, err
}

// Define stores a definition for the next start of the guest that it names, which may be new. A
// guest that runs goes on as it is.
func (c *Client) Define(ctx context.Context, xml string) (Guest, error) {
	var d protocol.Domain
	err := c.callNamed(ctx, "define a guest", func() (err error) {
		d, err = c.rpc.DomainDefineXMLFlags(xml, 0)
		return err
	})
	if err != nil {
		return Guest{}, err
	}
	return c.readGuest(ctx, d)
}

// keepTPM is VIR_DOMAIN_UNDEFINE_KEEP_TPM of libvirt-domain.h, since libvirt 8.9. Without it
// libvirt deletes the state of an emulated TPM.
const keepTPM protocol.DomainUndefineFlagsValues = 64

// Undefine deletes a guest's definition; a guest that runs goes on until it stops. The file of its
// firmware's variables stays, and the state of its TPM if libvirt is 8.9 or newer. libvirt refuses
// it for a guest with snapshots or a saved state, which would be lost.
func (c *Client) Undefine(ctx context.Context, guest string) error {
	return c.onGuest(ctx, "undefine", guest, func(d protocol.Domain) error {
		err := c.rpc.DomainUndefineFlags(d, protocol.DomainUndefineKeepNvram|keepTPM)
		var refused protocol.Error
		if errors.As(err, &refused) && refused.Code == uint32(protocol.ErrInvalidArg) {
			return c.rpc.DomainUndefineFlags(d, protocol.DomainUndefineKeepNvram) // this libvirt does not know the flag keepTPM
		}
		return err
	})
}

// SetAutostart sets whether the guest starts with the host.
func (c *Client) SetAutostart(ctx context.Context, guest string, on bool) error {
	return c.onGuest(ctx, "autostart of", guest, func(d protocol.Domain) error {
		var value int32
		if on {
			value = 1
		}
		return c.rpc.DomainSetAutostart(d, value)
	})
}

// Attach plugs the device of an XML element into the running guest (live), into the definition of
// its next start (config), or both at once.
func (c *Client) Attach(ctx context.Context, guest, deviceXML string, live, config bool) error {
	return c.onGuest(ctx, "attach a device to", guest, func(d protocol.Domain) error {
		return c.rpc.DomainAttachDeviceFlags(d, deviceXML, affectFlags(live, config))
	})
}

// Detach takes a device out as Attach puts it in. A running guest has lost it only when Events
// has reported DeviceRemoved, since the guest must release it.
func (c *Client) Detach(ctx context.Context, guest, deviceXML string, live, config bool) error {
	return c.onGuest(ctx, "detach a device from", guest, func(d protocol.Domain) error {
		return c.rpc.DomainDetachDeviceFlags(d, deviceXML, affectFlags(live, config))
	})
}

func affectFlags(live, config bool) (flags uint32) {
	if live {
		flags |= uint32(protocol.DomainAffectLive)
	}
	if config {
		flags |= uint32(protocol.DomainAffectConfig)
	}
	return flags
}

// Start starts a guest that is defined, and returns when it runs.
func (c *Client) Start(ctx context.Context, guest string) error {
	return c.onGuest(ctx, "start", guest, func(d protocol.Domain) error {
		_, err := c.rpc.DomainCreateWithFlags(d, 0)
		return err
	})
}

// Shutdown asks a guest to shut itself down, and does not wait: Events reports when the guest has
// Stopped.
func (c *Client) Shutdown(ctx context.Context, guest string) error {
	return c.onGuest(ctx, "shut down", guest, func(d protocol.Domain) error {
		return c.rpc.DomainShutdownFlags(d, 0)
	})
}

// Destroy stops a guest without asking it, and returns when it has stopped.
func (c *Client) Destroy(ctx context.Context, guest string) error {
	return c.onGuest(ctx, "destroy", guest, func(d protocol.Domain) error {
		return c.rpc.DomainDestroyFlags(d, 0)
	})
}

func formatUUID(u protocol.UUID) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// parseUUID reads a UUID as libvirt prints it. A guest whose name looks like the UUID of another
// guest cannot be found by its name; libvirt's own tools have the same trap.
func parseUUID(s string) (u protocol.UUID, ok bool) {
	if len(s) != len("12345678-1234-1234-1234-123456789abc") {
		return u, false
	}
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	return u, err == nil && copy(u[:], b) == len(u) && len(b) == len(u)
}
