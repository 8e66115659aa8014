package vf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// GuardMode says which parts of the frames that a pod sends are pinned by a guard. The empty mode
// is no guard.
type GuardMode string

// Modes of a guard. Both pin the source MAC address, and the sender of ARP and of IPv6 neighbour
// discovery. GuardIP also pins the source of each IP packet and drops all other protocols.
const (
	GuardARP GuardMode = "arp"
	GuardIP  GuardMode = "ip"
)

// ParseGuardMode accepts arp and ip.
func ParseGuardMode(s string) (GuardMode, error) {
	if m := GuardMode(s); m == GuardARP || m == GuardIP {
		return m, nil
	}
	return "", fmt.Errorf("%q: want arp or ip", s)
}

// GuardKey names a kind of frame that a guard drops unless the network allows it (guardAllow).
type GuardKey string

// Keys of guardAllow. Each allows what changes how switches, routers or hosts send the traffic of
// others, and what a pod with that task must send.
const (
	AllowDHCPServer      GuardKey = "dhcp-server"      // DHCP and DHCPv6 to clients
	AllowRouter          GuardKey = "router"           // advertisements of routers, redirects and "packet too big", in ICMP and ICMPv6
	AllowMulticastRouter GuardKey = "multicast-router" // queries of IGMP and MLD
	AllowVRRP            GuardKey = "vrrp"             // VRRP and CARP
	AllowLLDP            GuardKey = "lldp"
	AllowLACP            GuardKey = "lacp" // and other slow protocols (IEEE 802.3, annex 57A)
	AllowEAPOL           GuardKey = "eapol"
	AllowPPPoE           GuardKey = "pppoe"
	AllowMPLS            GuardKey = "mpls"
	AllowPBB             GuardKey = "pbb" // provider backbone bridges (IEEE 802.1ah)
)

// GuardKeys returns all keys of guardAllow.
func GuardKeys() []GuardKey {
	return []GuardKey{AllowDHCPServer, AllowRouter, AllowMulticastRouter, AllowVRRP, AllowLLDP, AllowLACP, AllowEAPOL, AllowPPPoE, AllowMPLS, AllowPBB}
}

func joinKeys(keys []GuardKey) string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = string(k)
	}
	return strings.Join(all, ", ")
}

// ParseGuardKey accepts the keys of guardAllow.
func ParseGuardKey(s string) (GuardKey, error) {
	if k := GuardKey(s); slices.Contains(GuardKeys(), k) {
		return k, nil
	}
	return "", fmt.Errorf("%q: want one of %s", s, joinKeys(GuardKeys()))
}

// Guard is a guard at a VF's netdevice, as it is wanted or as the kernel has it. The zero value is
// no guard.
type Guard struct {
	Mode GuardMode `json:"mode,omitempty"`
	// Allow has the keys of the network, each once and in order.
	Allow     []GuardKey   `json:"allow,omitempty"`
	MAC       MAC          `json:"mac,omitzero"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Altered reports that rules of the guard were changed or removed outside Culvert. The other
	// fields are unknown then.
	Altered bool `json:"altered,omitempty"`
}

// Allows reports whether the guard lets frames of that kind pass.
func (g Guard) Allows(k GuardKey) bool { return slices.Contains(g.Allow, k) }

// GuardName names a guard by its mode and keys: "ip", or "ip+dhcp-server".
func GuardName(m GuardMode, allow []GuardKey) string {
	name := string(m)
	for _, k := range allow {
		name += "+" + string(k)
	}
	return name
}

// String describes a guard: "ip+vrrp of 52:54:00:00:00:01, 172.16.91.5". The text of two guards is the
// same if the guards are, and ParseGuard reads it.
func (g Guard) String() string {
	switch {
	case g.Altered:
		return "altered"
	case g.Mode == "":
		return "none"
	}
	parts := []string{fmt.Sprintf("%s of %s", GuardName(g.Mode, g.Allow), g.MAC)}
	for _, a := range g.Addresses {
		parts = append(parts, a.String())
	}
	return strings.Join(parts, ", ")
}

// ParseGuard reads the text of a guard that is neither altered nor the zero value.
func ParseGuard(s string) (Guard, error) {
	head, rest, more := strings.Cut(s, ", ")
	name, mac, _ := strings.Cut(head, " of ")
	names := strings.Split(name, "+")
	var g Guard
	var err error
	if g.Mode, err = ParseGuardMode(names[0]); err != nil {
		return Guard{}, err
	}
	for _, name := range names[1:] {
		k, err := ParseGuardKey(name)
		if err != nil {
			return Guard{}, err
		}
		g.Allow = append(g.Allow, k)
	}
	if g.MAC, err = ParseMAC(mac); err != nil {
		return Guard{}, err
	}
	for more {
		head, rest, more = strings.Cut(rest, ", ")
		a, err := netip.ParseAddr(head)
		if err != nil {
			return Guard{}, err
		}
		g.Addresses = append(g.Addresses, a)
	}
	return g, nil
}

// GuardOver returns the guard that s wants at a VF with baseline b. It pins the wanted MAC address
// or else that of the baseline, and the addresses of s in order. It leaves out the link-local address
// of the MAC address, which a guard lets pass anyway.
func (s Spec) GuardOver(b Baseline) Guard {
	if s.Guard == "" {
		return Guard{}
	}
	g := Guard{Mode: s.Guard, Allow: s.GuardAllow, MAC: s.MACOver(b)}
	for _, a := range s.Addresses {
		g.Addresses = append(g.Addresses, a.Prefix.Addr())
	}
	own := g.MAC.LinkLocal()
	for _, a := range s.GuardAddresses {
		if a != own {
			g.Addresses = append(g.Addresses, a)
		}
	}
	slices.SortFunc(g.Addresses, netip.Addr.Compare)
	g.Addresses = slices.Compact(g.Addresses)
	return g
}

// MACOver returns the MAC address that s wants of the netdevice of a VF with baseline b.
func (s Spec) MACOver(b Baseline) MAC {
	mac := b.LinkMAC
	setIfGiven(&mac, s.MAC)
	return mac
}

// GuardDiff returns the difference between the wanted guard and that of a netdevice, if it was
// read.
func (s Spec) GuardDiff(b Baseline, l Link) []Difference {
	var c comparison
	if l.Guard != nil {
		c.compareValue("guard", s.GuardOver(b).String(), l.Guard.String())
	}
	return c.out
}

// Power is the power that the most powerful container of a pod has in the pod's netns.
type Power string

// Powers of containers. The empty power is unknown.
const (
	PowerNone  Power = "none"  // nothing of the following
	PowerRaw   Power = "raw"   // raw sockets (NET_RAW)
	PowerAdmin Power = "admin" // changes of the netns (NET_ADMIN, SYS_ADMIN, privileged)
)

// Degree says how far a guard holds.
type Degree string

// Degrees of a guard.
const (
	GuardEnforced Degree = "enforced"
	GuardPartly   Degree = "partly"
	GuardNot      Degree = "not"
)

// GuardDegree returns how far a guard holds against a pod with a power, and the reason if it does
// not hold fully. rdma reports whether the VF has an RDMA device. TestHooks and TestChecksumPasses
// of kernel/guard show the two ways past it.
func GuardDegree(p Power, rdma bool) (Degree, string) {
	switch {
	case p == PowerAdmin:
		return GuardNot, "a container of the pod is privileged or has NET_ADMIN or SYS_ADMIN, and can remove the guard"
	case p == PowerRaw:
		return GuardPartly, "a container of the pod has NET_RAW, which runtimes grant by default: AF_XDP and late checksums pass by the guard; drop NET_RAW in all containers"
	case rdma:
		return GuardPartly, "the VF has an RDMA device, which sends past the kernel"
	case p != PowerNone:
		return GuardPartly, "culvertd does not know the capabilities of the containers: without NET_RAW and NET_ADMIN it is enforced"
	}
	return GuardEnforced, ""
}

// DescribeGuard says how far the guard of that name holds: "guard ip is partly enforced: ...".
func DescribeGuard(name string, degree Degree, reason string) string {
	text := fmt.Sprintf("guard %s is ", name)
	if degree != GuardEnforced {
		text += string(degree) + " "
	}
	text += string(GuardEnforced)
	if reason != "" {
		text += ": " + reason
	}
	return text
}
