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

	"github.com/culvert-net/culvert/internal/vf"
)

// Step is one change. The set is closed: these types and no others.
type Step interface {
	fmt.Stringer
	changedVF() Target
}

type (
	// SetAutoprobe says whether the kernel binds drivers to new VFs of a PF
	// (sysfs sriov_drivers_autoprobe, Linux 4.12).
	SetAutoprobe struct {
		PF vf.PCIAddr
		On bool
	}
	// SetNumVFs writes sriov_numvfs and reads the count back. The kernel demands a 0 between two
	// different counts; this step writes only N. The VFs' admin settings are the driver's own
	// afterwards, their drivers unbound unless autoprobe is on.
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

// Changes to the PF's settings for one VF (IFLA_VF_*). Each is read back; the error is vf.ErrUnable
// if the driver lacks the setting.
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
	// SetVFLinkState sets whether the VF's carrier follows the PF's, or is always on or off.
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
	// Unbind unbinds the driver. That removes the netdevice, even if it is in the netns of a pod.
	// It succeeds when no driver is bound.
	Unbind struct{ VF vf.PCIAddr }
	// Reset resets the function by itself (FLR). The function ends its accesses to memory and
	// forgets the settings that its user programmed. The PF keeps its settings for the VF.
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
		Bond  string // of which the VF is a member: the step is about its interface
		Up    bool
	}
	// ClearPromisc clears the flags for promiscuous mode and for all multicast.
	ClearPromisc struct {
		VF    vf.PCIAddr
		Netns string
	}
	// AddAddress adds an address with its prefix. With Detect the kernel begins duplicate
	// address detection of an IPv6 address (RFC 4862, section 5.4), and the address cannot be used
	// before the result. Without it the address can be used at once (IFA_F_NODAD).
	AddAddress struct {
		VF      vf.PCIAddr
		Netns   string
		Bond    string // as in SetUp
		Address netip.Prefix
		Detect  bool
	}
	// DetectDuplicates waits for the results of the detection that AddAddress began, for all of
	// the addresses at once. The error is a vf.DuplicateError with the addresses that another
	// machine has. It is vf.ErrTimeout when the context ends first, as without carrier: then the
	// kernel begins detection when the netdevice gets carrier.
	DetectDuplicates struct {
		VF        vf.PCIAddr
		Netns     string
		Bond      string // as in SetUp
		Addresses []netip.Prefix
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
		Bond  string // as in SetUp
		Route vf.Route
	}
	// SetGuard pins the source of the frames that a pod sends through the netdevice, in place of
	// an earlier guard. vf.ErrUnable where the kernel has no hook for it.
	SetGuard struct {
		VF    vf.PCIAddr
		Netns string
		Guard vf.Guard
	}
	// DelGuard removes what SetGuard left in a netns, wherever the netdevice is now. It succeeds
	// if there is none, and if the netns is gone.
	DelGuard struct {
		VF    vf.PCIAddr
		Netns string
	}
	// SetDefaultRoute makes an interface of a netns the only one with a default route, for the
	// families of the gateways. It removes other default routes, but not automatic ones. The
	// interface need not be Culvert's, and must be up.
	SetDefaultRoute struct {
		Netns     string
		Interface string
		Gateways  []netip.Addr
	}
	// Announce announces to the neighbours that the addresses are at the netdevice: gratuitous ARP
	// for IPv4, unsolicited neighbour advertisements for IPv6, once the netdevice has carrier and
	// at most as long as the context allows.
	Announce struct {
		VF        vf.PCIAddr
		Netns     string
		Bond      string // as in SetUp
		Addresses []netip.Prefix
		// AtOnce announces without a pause for an attach that answers its caller first.
		AtOnce bool
	}
)

// Changes to a bond in a pod's netns.
type (
	// AddBond makes a bond without members. It is down, and has the MTU that its members will have.
	// No other bond has its Mark. AddBond replaces a bond of the same name that Culvert made and
	// that has no members. The new bond has its mark from the start: DelBond removes it even if
	// culvertd is killed within AddBond.
	AddBond struct {
		Netns, Name, Mark string
		Bond              vf.Bond
		MTU               int // in bytes; 0 leaves it to the kernel
	}
	// DelBond removes the bond with a mark, or the bond of which the VF is a member, since the pod
	// may have changed the bond's name and mark. DelBond leaves a bond with the mark of another
	// lease. The members stay, down, with their own MTU. DelBond succeeds if there is no such bond,
	// or no such netns. VF may be zero.
	DelBond struct {
		VF                vf.PCIAddr
		Netns, Name, Mark string
	}
	// Enslave makes a netdevice that is down a member of a bond, which brings it up.
	Enslave struct {
		VF          vf.PCIAddr
		Netns, Bond string
	}
	// SetBondPrimary makes a member the primary one, which sends whenever it works.
	SetBondPrimary struct {
		VF          vf.PCIAddr
		Netns, Bond string
	}
	// SetBondActive lets a member send if one of From sends now. If one of From is the primary member,
	// the member becomes the primary one. The error is vf.ErrUnchanged if none of From sends now,
	// vf.ErrNotFound if the VF is no member of the bond, and vf.ErrUnable if the kernel counts the
	// member as down.
	SetBondActive struct {
		VF          vf.PCIAddr
		Netns, Bond string
		From        []vf.PCIAddr
	}
)
