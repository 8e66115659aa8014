// Package step is the vocabulary of changes: each Step is a value that says
// one thing to do to the kernel and prints itself as a person would say it.
//
// attach and reconcile make steps out of differences; kernel carries them out
// on Linux and kernel/fake in memory. Because a change is a value, it can be
// planned, shown, logged and made to fail at any point, and a new kind of step
// is covered by every test that fails "at step k".
//
// VFs and PFs are named by PCI address, since interface names change while a
// driver binds (udev renames). A netns is named by path; the empty path is the
// host's.
package step

import (
	"fmt"
	"net/netip"

	"github.com/culvert-net/culvert/vf"
)

// Step is one change. The set is closed: these types and no others.
type Step interface {
	fmt.Stringer
	step()
}

type (
	// SetAutoprobe says whether the kernel binds drivers to new VFs of a PF
	// (sysfs sriov_drivers_autoprobe, Linux 4.12).
	SetAutoprobe struct {
		PF vf.PCIAddr
		On bool
	}
	// SetNumVFs writes sriov_numvfs and reads the count back. The kernel wants
	// 0 between two different counts; this step writes just N. The VFs' admin
	// settings are the driver's own afterwards, their drivers unbound unless
	// autoprobe is on.
	SetNumVFs struct {
		PF vf.PCIAddr
		N  int
	}
	// SetPFUp brings the PF's netdevice up. It does not wait for carrier.
	SetPFUp struct{ PF vf.PCIAddr }
	// WaitCarrier waits until the PF has carrier, by events, at most as long
	// as the context allows; vf.ErrTimeout after that.
	WaitCarrier struct{ PF vf.PCIAddr }
	// SetPFMTU sets the MTU of the PF's netdevice, in bytes.
	SetPFMTU struct {
		PF  vf.PCIAddr
		MTU int
	}
	// AddPFAddress adds an address to the PF's netdevice and marks it as Culvert's, where
	// the kernel keeps the mark (Linux 5.18). IPv6 addresses skip duplicate detection.
	AddPFAddress struct {
		PF      vf.PCIAddr
		Address netip.Prefix
	}
	// DelPFAddress removes an address of the PF's netdevice.
	DelPFAddress struct {
		PF      vf.PCIAddr
		Address netip.Prefix
	}
)

// Changes the PF makes to what it holds for one VF (IFLA_VF_*). Each is read
// back; a driver that lacks one gives vf.ErrUnable.
type (
	// SetVFMAC sets the admin MAC. The kernel's VF driver takes it over when it
	// binds next; until then the netdevice keeps its old address.
	SetVFMAC struct {
		PF    vf.PCIAddr
		Index int
		MAC   vf.MAC
	}
	// SetVFVLAN sets or (ID 0) removes the transparent VLAN.
	SetVFVLAN struct {
		PF    vf.PCIAddr
		Index int
		VLAN  vf.VLAN
	}
	// SetVFSwitch switches a setting of vf.Switches.
	SetVFSwitch struct {
		PF      vf.PCIAddr
		Index   int
		Setting vf.Setting
		On      bool
	}
	// SetVFLinkState sets what the PF makes of the VF's carrier.
	SetVFLinkState struct {
		PF    vf.PCIAddr
		Index int
		State vf.LinkState
	}
	// SetVFRate sets both send rates in Mb/s, 0 for unlimited.
	SetVFRate struct {
		PF       vf.PCIAddr
		Index    int
		Min, Max uint32
	}
)

// Changes to the VF as a device of its own.
type (
	// Bind binds a driver to an unbound VF: the one named, or the kernel's
	// choice for vf.DriverDefault. It returns when the driver is bound and,
	// for a netdevice driver, the netdevice is there and udev has named it.
	Bind struct {
		VF     vf.PCIAddr
		Driver string
	}
	// Unbind takes the driver away, and with it the netdevice, in whatever
	// netns that is. It succeeds when none is bound.
	Unbind struct{ VF vf.PCIAddr }
	// Reset resets the function by itself (FLR), and so ends what it does to memory
	// and forgets what its user programmed. What the PF holds for it stays.
	// vf.ErrUnable where the function has no reset. It may hang.
	Reset struct{ VF vf.PCIAddr }
	// Move takes the VF's netdevice from one netns to another and names it
	// there, in one message. The device arrives down, without addresses.
	Move struct {
		VF       vf.PCIAddr
		From, To string // netns paths
		Name     string
	}
	// Rename names a netdevice that is down.
	Rename struct {
		VF    vf.PCIAddr
		Netns string
		Name  string
	}
	// SetMTU sets the netdevice's MTU in bytes.
	SetMTU struct {
		VF    vf.PCIAddr
		Netns string
		MTU   int
	}
	// SetLinkMAC sets the netdevice's own address (not the admin MAC).
	SetLinkMAC struct {
		VF    vf.PCIAddr
		Netns string
		MAC   vf.MAC
	}
	// SetUp sets the admin state.
	SetUp struct {
		VF    vf.PCIAddr
		Netns string
		Up    bool
	}
	// ClearPromisc takes promiscuity and allmulti away.
	ClearPromisc struct {
		VF    vf.PCIAddr
		Netns string
	}
	// AddAddress adds an address with its prefix. IPv6 addresses skip duplicate
	// address detection (IFA_F_NODAD), since the ledger already excludes them.
	AddAddress struct {
		VF      vf.PCIAddr
		Netns   string
		Address netip.Prefix
	}
	// DelAddress removes an address.
	DelAddress struct {
		VF      vf.PCIAddr
		Netns   string
		Address netip.Prefix
	}
	// AddRoute adds a route through the netdevice, which must be up.
	AddRoute struct {
		VF    vf.PCIAddr
		Netns string
		Route vf.Route
	}
	// SetDefaultRoute makes an interface of a netns the only way out of it, for the
	// families of the gateways: other default routes go, automatic ones stay. The
	// interface may be anybody's and must be up.
	SetDefaultRoute struct {
		Netns     string
		Interface string
		Gateways  []netip.Addr
	}
	// Announce tells the neighbours where the addresses are now: gratuitous
	// ARP for IPv4, unsolicited neighbour advertisements for IPv6, once the
	// netdevice has carrier and at most as long as the context allows.
	Announce struct {
		VF        vf.PCIAddr
		Netns     string
		Addresses []netip.Prefix
	}
)
