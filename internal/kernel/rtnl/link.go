package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// Link is a netdevice as RTM_NEWLINK describes it.
type Link struct {
	Index    int
	Name     string
	MAC      vf.MAC
	PermMAC  vf.MAC // zero: the driver has none (IFLA_PERM_ADDRESS, Linux 5.6)
	MTU      int
	MaxMTU   int    // 0: unknown
	Parent   string // name of the device it belongs to, e.g. a PCI address (Linux 5.14)
	PortName string // phys_port_name; often empty
	Up       bool
	Carrier  bool
	Downs    uint32 // how often the carrier was lost (IFLA_CARRIER_DOWN_COUNT, Linux 4.16)
	Promisc  bool   // set by hand, or by a listener
	AllMulti bool
	Alias    string // ifalias
	Group    uint32 // 0: the default one
	Master   int    // index of the bond or bridge that it is a member of; 0: none
	Kind     string // of a virtual link: bond, bridge and others; empty for a device's
	// Lower is the index of the link below a VLAN, macvlan, ipvlan and the like; 0: none.
	// LowerNetns is the number that this netns has for the netns of Lower; nil: it is this netns
	// (IFLA_LINK_NETNSID).
	Lower      int
	LowerNetns *int32
	XDP        bool  // a program of XDP is attached
	Bond       *Bond // of a bond
	Traffic    vf.Traffic

	// VFs has the PF's settings for its VFs, by index. It is nil if the PF has no VFs, or if the
	// request did not ask for them.
	VFs map[int]vf.Admin
	// NumVFs is the number of VFs that the kernel reported.
	NumVFs int

	flags  uint32
	others []Attr // that Attributes shows
}

// ErrVFsCut: the answer does not hold all VFs. The attribute that lists them
// (IFLA_VFINFO_LIST) has a 16-bit length, and a PF with very many VFs does not
// fit.
var ErrVFsCut = errors.New("the kernel's list of VFs is cut short (its netlink attribute holds 64 KiB)")

const (
	iflaParentDev   = 56     // IFLA_PARENT_DEV_NAME
	iflaAllMulti    = 61     // IFLA_ALLMULTI
	filterVF        = 1 << 0 // RTEXT_FILTER_VF
	filterSkipStats = 1 << 3 // RTEXT_FILTER_SKIP_STATS; covers VFs since Linux 6.5 (fa0e21fa4443)
)

// linkHeader encodes struct ifinfomsg.
func linkHeader(index int, flags, change uint32) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	binary.NativeEndian.PutUint32(b[8:], flags)
	binary.NativeEndian.PutUint32(b[12:], change)
	return b
}

// Link reads one netdevice by index, with its VFs when withVFs is set (the
// driver is then asked about each of them).
func (c *Conn) Link(index int, withVFs bool) (Link, error) {
	mask := uint32(filterSkipStats)
	if withVFs {
		mask |= filterVF
	}
	answers, err := c.Do(Request{
		Type: unix.RTM_GETLINK,
		Body: AppendUint32(linkHeader(index, 0, 0), unix.IFLA_EXT_MASK, mask),
	})
	if err != nil {
		return Link{}, cutShort(err, withVFs)
	}
	if len(answers) != 1 {
		return Link{}, fmt.Errorf("netlink described link %d %d times", index, len(answers))
	}
	return ParseLink(answers[0])
}

// LinkNamed reads a netdevice by name; unix.ENODEV when there is none.
func (c *Conn) LinkNamed(name string) (Link, error) {
	body := AppendString(linkHeader(0, 0, 0), unix.IFLA_IFNAME, name)
	answers, err := c.Do(Request{Type: unix.RTM_GETLINK, Body: AppendUint32(body, unix.IFLA_EXT_MASK, filterSkipStats)})
	if err != nil {
		return Link{}, err
	}
	if len(answers) != 1 {
		return Link{}, fmt.Errorf("netlink described link %s %d times", name, len(answers))
	}
	return ParseLink(answers[0])
}

// cutShort says what EMSGSIZE means when VFs were asked for.
func cutShort(err error, withVFs bool) error {
	if withVFs && errors.Is(err, unix.EMSGSIZE) {
		return fmt.Errorf("%w: %w", ErrVFsCut, err)
	}
	return err
}

// Links lists the netdevices of the netns, without VFs. In the netns of a pod, which may make as many
// as it likes, use FindLinks.
func (c *Conn) Links() ([]Link, error) { return c.FindLinks(nil) }

// FindLinks lists the netdevices of the netns that match, without VFs. It keeps one datagram of the
// kernel's at a time. If match is nil, it lists all, and fails if one of them cannot be read.
//
// With match, it passes over a netdevice that cannot be read, and returns that error if none matches. A pod can
// make a macvlan with so many MAC addresses that the length of IFLA_LINKINFO, which has 16 bits,
// overflows (linux/netlink.h).
func (c *Conn) FindLinks(match func(Link) bool) ([]Link, error) {
	if match == nil {
		return c.visitLinks(func(Link) bool { return true }, func(err error) error { return err })
	}
	var unread error
	links, err := c.visitLinks(match, func(err error) error {
		unread = err
		return nil
	})
	if err == nil && len(links) == 0 {
		err = unread
	}
	return links, err
}

// visitLinks lists the netdevices that match. It calls onError for a netdevice that cannot be read,
// and ends with the error that onError returns.
func (c *Conn) visitLinks(match func(Link) bool, onError func(error) error) (links []Link, err error) {
	r := Request{
		Type: unix.RTM_GETLINK, Flags: unix.NLM_F_DUMP,
		Body: AppendUint32(linkHeader(0, 0, 0), unix.IFLA_EXT_MASK, filterSkipStats),
	}
	for range attempts {
		links = nil
		err = c.Visit(r, func(body []byte) error {
			l, err := ParseLink(body)
			if err != nil {
				return onError(err)
			}
			if match(l) {
				links = append(links, l)
			}
			return nil
		})
		if !errors.Is(err, ErrInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return links, nil
}

// SetLink changes a netdevice: the flags in change to those in flags, and
// what attrs say.
func (c *Conn) SetLink(index int, flags, change uint32, attrs []byte) error {
	_, err := c.Do(Request{
		Type: unix.RTM_SETLINK, Flags: unix.NLM_F_ACK,
		Body: append(linkHeader(index, flags, change), attrs...),
	})
	return err
}

// Numbers of if_link.h and ip.h that golang.org/x/sys lacks.
const (
	iflaInetConf          = 1 // IFLA_INET_CONF
	ipv4DevconfForwarding = 1 // IPV4_DEVCONF_FORWARDING
)

// SetForwarding sets net.ipv4.conf.LINK.forwarding of the link with the given index. Unlike a write to
// /proc/sys it works in a pod, where that is read-only (inet_set_link_af, net/ipv4/devinet.c).
func (c *Conn) SetForwarding(index int, on bool) error {
	var value uint32
	if on {
		value = 1
	}
	conf := AppendNested(nil, iflaInetConf, AppendUint32(nil, ipv4DevconfForwarding, value))
	return c.SetLink(index, 0, 0, AppendNested(nil, unix.IFLA_AF_SPEC, AppendNested(nil, unix.AF_INET, conf)))
}

// ParseLink reads the body of RTM_NEWLINK.
func ParseLink(b []byte) (Link, error) {
	if len(b) < unix.SizeofIfInfomsg {
		return Link{}, fmt.Errorf("link message of %d bytes", len(b))
	}
	flags := wordAt(b, 2)
	l := Link{
		Index:    int(int32(wordAt(b, 1))),
		Up:       flags&unix.IFF_UP != 0,
		Promisc:  flags&unix.IFF_PROMISC != 0,
		AllMulti: flags&unix.IFF_ALLMULTI != 0,
		flags:    flags,
	}
	attrs, err := Attrs(b[unix.SizeofIfInfomsg:])
	if err != nil {
		return l, fmt.Errorf("link %d: %w", l.Index, err)
	}
	for _, a := range attrs {
		if err := l.takeAttr(a); err != nil {
			return l, fmt.Errorf("link %d: %w", l.Index, err)
		}
	}
	if l.VFs != nil && len(l.VFs) < l.NumVFs {
		return l, fmt.Errorf("link %d (%s): %w: %d of %d", l.Index, l.Name, ErrVFsCut, len(l.VFs), l.NumVFs)
	}
	return l, nil
}

func (l *Link) takeAttr(a Attr) (err error) {
	switch a.Type {
	case unix.IFLA_IFNAME:
		l.Name = a.Text()
	case unix.IFLA_ADDRESS:
		l.MAC = macOf(a.Value)
	case unix.IFLA_PERM_ADDRESS:
		l.PermMAC = macOf(a.Value)
	case unix.IFLA_MTU:
		l.MTU = int(a.Uint32())
	case unix.IFLA_MAX_MTU:
		l.MaxMTU = int(a.Uint32())
	case unix.IFLA_CARRIER:
		// Only while up: a netdevice that is down keeps the last state.
		l.Carrier = l.Up && len(a.Value) > 0 && a.Value[0] == 1
	case unix.IFLA_CARRIER_DOWN_COUNT:
		l.Downs = a.Uint32()
	case unix.IFLA_PROMISCUITY:
		// The count includes listeners, which the flag leaves out (dev_get_flags).
		l.Promisc = l.Promisc || a.Uint32() > 0
	case iflaAllMulti:
		l.AllMulti = l.AllMulti || a.Uint32() > 0
	case iflaParentDev:
		l.Parent = a.Text()
	case unix.IFLA_PHYS_PORT_NAME:
		l.PortName = a.Text()
	case unix.IFLA_MASTER:
		l.Master = int(a.Uint32())
		l.others = append(l.others, a)
	case unix.IFLA_IFALIAS:
		l.Alias = a.Text()
		l.others = append(l.others, a)
	case unix.IFLA_GROUP:
		l.Group = a.Uint32()
		l.others = append(l.others, a)
	case unix.IFLA_LINKINFO:
		l.Kind, l.Bond, err = parseLinkInfo(a.Value)
	case unix.IFLA_LINK:
		l.Lower = int(a.Uint32())
	case unix.IFLA_LINK_NETNSID:
		id := int32(a.Uint32())
		l.LowerNetns = &id
	case unix.IFLA_XDP:
		l.XDP = isXDPAttached(a.Value)
		l.others = append(l.others, a)
	case unix.IFLA_STATS64: // RTEXT_FILTER_SKIP_STATS does not leave it out
		l.Traffic = parseStats64(a.Value)
	case unix.IFLA_NUM_VF:
		l.NumVFs = int(a.Uint32())
	case unix.IFLA_VFINFO_LIST:
		l.VFs, err = ParseVFInfoList(a.Value)
	default:
		if settable[a.Type] != "" {
			l.others = append(l.others, a)
		}
	}
	return err
}

// macOf returns an Ethernet address, or zero for another kind of link.
func macOf(b []byte) vf.MAC {
	if len(b) != len(vf.MAC{}) {
		return vf.MAC{}
	}
	return vf.MAC(b)
}

// isXDPAttached reads IFLA_XDP. A value that is cut short counts as attached.
func isXDPAttached(value []byte) bool {
	attrs, err := Attrs(value)
	for _, a := range attrs {
		if a.Type == unix.IFLA_XDP_ATTACHED {
			return len(a.Value) == 0 || a.Value[0] != 0 // XDP_ATTACHED_NONE
		}
	}
	return err != nil
}
