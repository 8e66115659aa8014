package rtnl

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Addr is an address of a link.
type Addr struct {
	Index  int // of the link
	Prefix netip.Prefix
	Proto  byte // who added it (IFA_PROTO, since Linux 5.18); 0: not known
	// Flags are IFA_F_* (linux/if_addr.h). AddAddr sends those of an IPv6 address.
	Flags uint32
}

// IsTentative reports whether duplicate address detection of the address has no result yet. The
// kernel keeps a duplicate tentative too, so that it is never used.
func (a Addr) IsTentative() bool {
	return a.Flags&unix.IFA_F_TENTATIVE != 0 && !a.IsDuplicate()
}

// IsDuplicate reports whether duplicate address detection found another holder of the address.
func (a Addr) IsDuplicate() bool { return a.Flags&unix.IFA_F_DADFAILED != 0 }

// ifaProto is IFA_PROTO (linux/if_addr.h).
const ifaProto = 11

// ProtoCulvert marks the addresses that Culvert adds to interfaces of the host. The kernel's
// own marks are 1 to 3 (IFAPROT_*).
const ProtoCulvert = 0xc5

func addressFamily(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// addrHeader encodes struct ifaddrmsg.
func addrHeader(family, bits byte, index int) []byte {
	b := make([]byte, unix.SizeofIfAddrmsg)
	b[0], b[1] = family, bits
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	return b
}

// Addrs lists the addresses of the link with the given index, or of all links
// for 0, without IPv6's link-local ones, which the kernel makes by itself.
func (c *Conn) Addrs(index int) (List[Addr], error) {
	r := Request{Type: unix.RTM_GETADDR, Flags: unix.NLM_F_DUMP, Body: addrHeader(unix.AF_UNSPEC, 0, index)}
	return dumpList(c, r, func(b []byte) (Addr, int, bool, error) {
		a, err := ParseAddr(b)
		ip := a.Prefix.Addr()
		return a, a.Index, a.Prefix.IsValid() && (index == 0 || a.Index == index) && !(ip.Is6() && ip.IsLinkLocalUnicast()), err
	})
}

// AddAddr adds an address. The kernel begins duplicate address detection of an IPv6 address
// unless its flags have IFA_F_NODAD.
func (c *Conn) AddAddr(a Addr) error {
	_, err := c.Do(Request{
		Type: unix.RTM_NEWADDR, Flags: unix.NLM_F_CREATE | unix.NLM_F_EXCL | unix.NLM_F_ACK,
		Body: a.encodeAddr(),
	})
	return err
}

// DelAddr removes an address.
func (c *Conn) DelAddr(a Addr) error {
	_, err := c.Do(Request{Type: unix.RTM_DELADDR, Flags: unix.NLM_F_ACK, Body: a.encodeAddr()})
	return err
}

func (a Addr) encodeAddr() []byte {
	ip := a.Prefix.Addr()
	b := addrHeader(addressFamily(ip), byte(a.Prefix.Bits()), a.Index)
	b = AppendAttr(b, unix.IFA_LOCAL, ip.AsSlice())
	b = AppendAttr(b, unix.IFA_ADDRESS, ip.AsSlice())
	if a.Proto != 0 {
		b = AppendAttr(b, ifaProto, []byte{a.Proto})
	}
	if ip.Is4() {
		if a.Prefix.Bits() < 31 {
			b = AppendAttr(b, unix.IFA_BROADCAST, broadcastOf(a.Prefix))
		}
		return b
	}
	return AppendUint32(b, unix.IFA_FLAGS, a.Flags)
}

// broadcastOf returns the last address of an IPv4 prefix.
func broadcastOf(p netip.Prefix) []byte {
	b := p.Addr().As4()
	n := binary.BigEndian.Uint32(b[:]) | (1<<(32-p.Bits()) - 1)
	return binary.BigEndian.AppendUint32(nil, n)
}

// ParseAddr reads the body of RTM_NEWADDR. The prefix is not valid for a
// family other than IPv4 and IPv6.
func ParseAddr(b []byte) (Addr, error) {
	if len(b) < unix.SizeofIfAddrmsg {
		return Addr{}, fmt.Errorf("address message of %d bytes", len(b))
	}
	a := Addr{Index: int(wordAt(b, 1)), Flags: uint32(b[2])}
	attrs, err := Attrs(b[unix.SizeofIfAddrmsg:])
	if err != nil {
		return a, fmt.Errorf("address of link %d: %w", a.Index, err)
	}
	// IFA_LOCAL is the interface's own address, IFA_ADDRESS the peer's on a
	// point-to-point link; IPv6 has the latter alone (linux/if_addr.h).
	var local, address netip.Addr
	for _, at := range attrs {
		switch at.Type {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(at.Value)
		case unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(at.Value)
		case unix.IFA_FLAGS: // more of them than the header has room for (Linux 3.14)
			if len(at.Value) == 4 {
				a.Flags = wordAt(at.Value, 0)
			}
		case ifaProto:
			if len(at.Value) == 1 {
				a.Proto = at.Value[0]
			}
		}
	}
	if !local.IsValid() {
		local = address
	}
	a.Prefix = netip.PrefixFrom(local, int(b[1]))
	return a, nil
}
