// Package guests does to guests what needs both libvirt and culvertd: it attaches VFs to
// a guest, detaches them, and moves a guest to another host with VFs of that host. The
// program culvert calls it with the rights of the person who runs it: culvertd itself
// changes no guest.
//
// An operation is a list of actions on hosts. Each action has an undo and can be repeated,
// so a failure undoes the operation, and repeating an interrupted one completes it. Host
// performs the actions through a socket of libvirt and one of culvertd; ssh carries the
// sockets of another host.
package guests

import (
	"cmp"
	"context"
	"fmt"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/vf"
)

// host is a host with guests.
type host interface {
	// See looks at a guest, by its name or UUID. A guest that libvirt does not know has neither
	// definition.
	See(ctx context.Context, guest string) (Seen, error)
	// Lease gives a guest a VF, as culvert vm xml does.
	Lease(ctx context.Context, req api.GuestXMLRequest) (api.GuestXML, error)
	// Do carries out one action. An action that was done before changes nothing.
	Do(ctx context.Context, a Action) error
	// Missing returns the paths that do not exist on the host.
	Missing(ctx context.Context, paths []string) ([]string, error)
}

// localHost is the host on which culvert runs: no two of its commands change a guest at once.
type localHost interface {
	host
	// Lock locks a guest, named by its UUID, until unlock is called. The error wraps vf.ErrHeld
	// if another command has the lock.
	Lock(guest string) (unlock func(), err error)
}

// seeLocked locks a guest, named by its name or UUID, and looks at it. The result stays valid until
// unlock is called, except for changes outside Culvert.
func seeLocked(ctx context.Context, h localHost, name string) (s Seen, unlock func(), err error) {
	if s, err = h.See(ctx, name); err != nil {
		return s, nil, err
	}
	if unlock, err = h.Lock(cmp.Or(s.UUID, name)); err != nil {
		return s, nil, err
	}
	if s, err = h.See(ctx, cmp.Or(s.UUID, name)); err != nil {
		unlock()
		return s, nil, err
	}
	return s, unlock, nil
}

// Seen is a guest as a host has it.
type Seen struct {
	Host string // its name
	Boot string // two hosts of one Boot are one host
	Name string
	UUID string
	// Defined is the definition of the guest's next start, and Live the one that it runs with.
	// Defined is empty if the guest has no definition, Live if it is off.
	Defined, Live string
	Autostart     bool
	Paused        bool     // it has a Live definition, and its processors do not run
	VFs           []api.VF // all of the host
	Route         Route
}

// Route is the way to another host's libvirt, for a guest that migrates there while it runs.
type Route struct {
	Libvirt string // its URI, for virsh here
	Data    string // the URI at which it takes the guest's memory
}

// leasesOf returns the VFs that a guest has by the ledger, by the names of the devices.
func (s Seen) leasesOf(uuid string) map[string]api.VF {
	out := map[string]api.VF{}
	for _, v := range s.VFs {
		if o := v.Owner; o != nil && o.Kind == vf.OwnerGuest && o.UID == uuid {
			out[o.Interface] = v
		}
	}
	return out
}

// vfAt returns the VF of an address.
func (s Seen) vfAt(pci vf.PCIAddr) (api.VF, bool) {
	for _, v := range s.VFs {
		if v.PCI == pci {
			return v, true
		}
	}
	return api.VF{}, false
}

// parseDevices reads one of the two definitions; an empty text has no devices.
func parseDevices(text string) (guest.Definition, error) {
	if text == "" {
		return guest.Definition{}, nil
	}
	return guest.Parse([]byte(text))
}

// Action is a change of a host: one of the types below. Guests are named by their UUIDs,
// devices by their names.
type Action interface{ fmt.Stringer }

// The actions.
type (
	// Define stores a definition, also of a guest that runs. It does not change whether the guest
	// starts with the host; a new guest does not.
	Define struct{ XML string }
	// SetAutostart sets whether a guest starts with the host. A guest without a definition does
	// not.
	SetAutostart struct {
		Guest string
		On    bool
	}
	// Undefine deletes the definition.
	Undefine struct{ Guest string }
	// Free takes a VF back that no process has open any more.
	Free struct{ Guest, Device string }
	// Plug puts a device into a guest that runs.
	Plug struct{ Guest, Device, XML string }
	// Unplug takes a device out, and waits until the guest has released it.
	Unplug struct{ Guest, Device, XML string }
	// Shutdown waits until the guest is off.
	Shutdown struct{ Guest string }
	// Send migrates a guest that runs. Its definition here stays. XML is the definition that the
	// other host keeps, and TLSName the name of that host in its certificate.
	Send struct {
		Guest, XML string
		To         Route
		Transport  Transport
		TLSName    string
	}
)

func (a Define) String() string   { return "define the guest" }
func (a Undefine) String() string { return "undefine the guest" }
func (a SetAutostart) String() string {
	if a.On {
		return "let the guest start with the host"
	}
	return "keep the guest from starting with the host"
}
func (a Free) String() string     { return "take back the VF of " + a.Device }
func (a Plug) String() string     { return "plug " + a.Device + " in" }
func (a Unplug) String() string   { return "unplug " + a.Device }
func (a Shutdown) String() string { return "shut the guest down" }
func (a Send) String() string     { return "migrate the running guest over " + string(a.Transport) }
