// Package guest is libvirt's XML as far as Culvert needs it: a guest's definition comes in, and
// out come its name, its UUID and the VFs that it uses; a VF comes in, and out comes the device
// that passes it to the guest, in any of the three ways that libvirt has.
//
// intake/guest calls it. People write the input, so its size is bounded. Each device is read by
// itself: elements without a VF are passed over unread, and an element that cannot be read keeps no
// other one from being read. Errors name the line and the element. An addition to a definition
// is put into its text, so that nothing else of it changes.
//
// The formats are those of https://libvirt.org/formatdomain.html and formatnetwork.html. The tests
// check what is written by libvirt's own schemas.
package guest

import (
	"fmt"

	"github.com/culvert-net/culvert/internal/suggest"
	"github.com/culvert-net/culvert/internal/vf"
)

// Way is the way in which a definition passes a VF to its guest.
type Way string

// The ways.
const (
	// Interface is <interface type='hostdev'>. libvirt sets the MAC address and the VLAN of the
	// device's element through the PF when the guest starts.
	Interface Way = "interface"
	// Hostdev is <hostdev>: a PCI device like any other. libvirt sets nothing.
	Hostdev Way = "hostdev"
	// Network is <interface type='network'> over a network with <forward mode='hostdev'>.
	// libvirt sets the same attributes as for Interface.
	Network Way = "network"
)

// Ways returns all ways.
func Ways() []string { return []string{string(Interface), string(Hostdev), string(Network)} }

// ParseWay reads a way.
func ParseWay(s string) (Way, error) {
	switch w := Way(s); w {
	case Interface, Hostdev, Network:
		return w, nil
	}
	return "", fmt.Errorf("way %q: %w: want interface, hostdev or network%s", s, vf.ErrInvalid, suggest.DidYouMean(s, Ways()))
}

// Fits refuses settings that libvirt would undo: in two of the ways libvirt sets the VLAN itself,
// as an 802.1q tag without priority.
func (w Way) Fits(s vf.Spec) error {
	if w == Hostdev || s.VLAN == nil {
		return nil
	}
	if s.VLAN.QoS != 0 {
		return fmt.Errorf("vlanQoS %d: %w as %s: libvirt sets the VLAN when the guest starts, and clears its priority: use %s", s.VLAN.QoS, vf.ErrInvalid, w, Hostdev)
	}
	if s.VLAN.Proto == vf.Dot1AD {
		return fmt.Errorf("vlanProto %s: %w as %s: libvirt sets the VLAN when the guest starts, and knows 802.1q only: use %s", s.VLAN.Proto, vf.ErrInvalid, w, Hostdev)
	}
	return nil
}

// longestName bounds the name of a device; libvirt has no bound.
const longestName = 32

// CheckName returns an error if a device cannot have a name. The name becomes a part of the
// device's alias, for which libvirt takes letters, digits, _ and - only.
func CheckName(s string) error {
	ok := s != "" && len(s) <= longestName
	for _, r := range s {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}
	if !ok {
		return fmt.Errorf("device name %q: %w: want letters, digits, _ and -, at most %d", s, vf.ErrInvalid, longestName)
	}
	return nil
}

// aliasOf returns the alias of the device of that name. libvirt keeps aliases that begin with ua-,
// which users may choose.
func aliasOf(name string) string { return "ua-culvert-" + name }
