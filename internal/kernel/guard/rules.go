package guard

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// Offsets in an Ethernet frame without a VLAN tag, in bytes. All rules load from the link-layer
// header. nftables' other bases, and its meta keys, follow skb->protocol, which the sender of a
// packet socket chooses (sockaddr_ll.sll_protocol).
const (
	atDestination = 0
	atSource      = 6
	atEtherType   = 12
	atPayload     = 14

	atARPKinds   = atPayload // htype, ptype, hlen, plen
	atARPOp      = atPayload + 6
	atARPMAC     = atPayload + 8
	atARPAddress = atPayload + 14
	atARPTarget  = atPayload + 24

	atIPv4Fragment = atPayload + 6
	atIPv4Protocol = atPayload + 9
	atIPv4Source   = atPayload + 12
	atIPv4Payload  = atPayload + 20 // of a packet without options
	atIPv4Behind   = atPayload + 24 // behind an option of four bytes

	atIPv6Length  = atPayload + 4
	atIPv6Next    = atPayload + 6
	atIPv6Source  = atPayload + 8
	atIPv6Payload = atPayload + 40
	atNDTarget    = atIPv6Payload + 8
	atNDOption    = atIPv6Payload + 24 // of solicitations and advertisements of neighbours
	atRSOption    = atIPv6Payload + 8  // of router solicitations

	atFragmentOffset   = atIPv6Payload + 2
	atAfterExtension   = atIPv6Payload + 8
	fragmentOffsetMask = 0xfff8

	atPort = 2 // the destination port of UDP, from the header on
)

// Next headers of IPv6 (linux/in.h, linux/in6.h, linux/icmpv6.h) and types of ICMPv6 (RFC 4443,
// RFC 4861, RFC 3810).
const (
	nextICMP = unix.IPPROTO_ICMPV6

	icmpEchoRequest, icmpEchoReply      = 128, 129
	icmpMLDReport, icmpMLDDone          = 131, 132
	icmpRouterSolicit                   = 133
	icmpNeighbourSolicit, icmpNeighbour = 135, 136
	icmpMLDReport2                      = 143
)

// Protocols of IPv4 and IPv6 that change how routers and switches send the traffic of others, and
// their messages. vf.GuardKeys allow them.
const (
	protocolVRRP = 112 // RFC 9568; CARP has the same number

	portDHCPClient, portDHCPv6Client = 68, 546 // RFC 2131, RFC 8415: servers send to these

	icmp4Unreachable, icmp4TooBig           = 3, 4     // RFC 1191: type and code
	icmp4Redirect, icmp4RouterAdvertisement = 5, 9     // RFC 792, RFC 1256
	icmpTooBig                              = 2        // RFC 4443
	icmpRouterAdvertisement, icmpRedirect   = 134, 137 // RFC 4861
	icmpMLDQuery                            = 130      // RFC 3810
	igmpQuery                               = 0x11     // RFC 3376
)

// igmpReports are the types of IGMP that hosts send (RFC 3376).
var igmpReports = []byte{0x12, 0x16, 0x17, 0x22}

// routerAlert is the option of IPv4 that messages of IGMP have (RFC 2113).
var routerAlert = []byte{0x94, 4, 0, 0}

// Headers of IPv4: version 4 and the length in words of four bytes.
const headerPlain, headerWithOption = 0x45, 0x46

// etherTypes are the EtherTypes that the keys of vf.GuardKeys allow. Guard arp drops them without the
// key, and guard ip drops all but IP and ARP.
var etherTypes = []struct {
	key   vf.GuardKey
	types []uint16
}{
	{vf.AllowLLDP, []uint16{0x88cc}},
	{vf.AllowLACP, []uint16{0x8809}},
	{vf.AllowEAPOL, []uint16{unix.ETH_P_PAE}},
	{vf.AllowPPPoE, []uint16{unix.ETH_P_PPP_DISC, unix.ETH_P_PPP_SES}},
	{vf.AllowMPLS, []uint16{unix.ETH_P_MPLS_UC, unix.ETH_P_MPLS_MC}},
	{vf.AllowPBB, []uint16{0x88e7}},
}

// extensions are the extension headers of IPv6. A receiver reads on behind them, so neighbour
// discovery could hide there. rulesOfIPv6 lets some of them pass under conditions.
var extensions = []byte{
	unix.IPPROTO_HOPOPTS, unix.IPPROTO_ROUTING, unix.IPPROTO_FRAGMENT, unix.IPPROTO_AH, unix.IPPROTO_DSTOPTS,
	unix.IPPROTO_MH, 139 /* HIP */, 140, /* Shim6 */
}

// droppedTypes are the EtherTypes that no key allows. A tagged frame may hold anything, and receivers
// take one with VLAN 0 for untagged.
var droppedTypes = []uint16{
	0x8100, 0x88a8, 0x9100, 0x9200, 0x9300, 0x8926, 0x893f, // tags: VLAN, VN-Tag, IEEE 802.1BR
	0x8808,                 // MAC control, which pauses the other end of a link
	0x88f5, 0x88f6, 0x22ea, // MVRP, MMRP, MSRP: bridges send traffic where they are registered
	0x88e3, 0x8902, // MRP and CFM (with ERPS): bridges block ports by them
	0x22f3, 0x22f4, // TRILL
	0x8870, // IEEE 802.2 in a jumbo frame
}

// Names of chains. The base chain is the one at the hook.
const (
	baseChain     = "egress"
	arpChain      = "arp"
	ipv4Chain     = "ipv4"  // the source is allowed
	udp4Chain     = "udp4"  // without options
	icmp4Chain    = "icmp4" // without options
	igmpChain     = "igmp"  // without options
	udp6Chain     = "udp6"  // without extension headers
	ipv6Chain     = "ipv6"
	nextChain     = "ipv6-next"     // the source is allowed
	unsetChain    = "ipv6-unset"    // the source is ::
	icmpChain     = "icmpv6"        // the source is allowed
	ndChain       = "nd"            // of any source
	ndOwnChain    = "nd-own"        // the source is the pod's
	ndTargetChain = "nd-own-target" // of an advertisement
	hopChain      = "hop-by-hop"
	fragmentChain = "fragment"
)

// textChains are the chains whose first rules have the text of the guard as user data: each a part
// of textPart bytes, and the last one the rest. The kernel takes 256 bytes of a rule
// (NFT_USERDATA_MAXLEN), which is enough for five IPv6 addresses.
var textChains = [...]string{
	baseChain, ipv6Chain, arpChain, nextChain, unsetChain, icmpChain, ndChain, ndOwnChain, ndTargetChain, hopChain, fragmentChain,
}

// textPart is in bytes.
const textPart = 255

// chain is a chain with its rules, each a list of expressions.
type chain struct {
	name  string
	rules [][]expr.Any
}

// chainsOf returns the chains of a guard. A frame passes if a rule accepts it; the policy of the
// base chain drops all others. Each chain comes before the chains whose rules jump to it.
func chainsOf(g vf.Guard) []chain {
	own6 := append(addressesOf(g, false), g.MAC.LinkLocal())
	return []chain{
		{arpChain, rulesOfARP(g)},
		{udp4Chain, rulesOfUDP4(g)},
		{icmp4Chain, rulesOfICMP4(g)},
		{igmpChain, rulesOfIGMP(g, atIPv4Payload)},
		{ipv4Chain, rulesOfIPv4(g)},
		{hopChain, rulesOfHopByHop(g)},
		{fragmentChain, rulesOfFragment(g)},
		{udp6Chain, rulesOfUDP6(g)},
		{ndTargetChain, rulesOfOption(g.MAC, 24, atNDOption, 2)},
		{ndOwnChain, rulesOfOwnND(g.MAC, own6)},
		{ndChain, rulesOfND(own6)},
		{unsetChain, rulesOfUnset(own6)},
		{icmpChain, rulesOfICMP(g, own6)},
		{nextChain, rulesOfNext(g)},
		{ipv6Chain, rulesOfIPv6(g, own6)},
		{baseChain, rulesOfBase(g)},
	}
}

// addressesOf returns the pod's IPv4 or IPv6 addresses.
func addressesOf(g vf.Guard, v4 bool) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(g.Addresses), func(a netip.Addr) bool { return a.Is4() != v4 })
}

// rulesOfBase returns the rules of the base chain, those of IP first. Each load from the link-layer
// header costs time, so these rules compare MAC address and EtherType at once.
func rulesOfBase(g vf.Guard) (rules [][]expr.Any) {
	isIPv4, isIPv6 := isOwnFrame(g.MAC, unix.ETH_P_IP), isOwnFrame(g.MAC, unix.ETH_P_IPV6)
	isTCP := hasBytes(atIPv4Protocol, unix.IPPROTO_TCP) // most traffic; a mask would cost more than this load
	if g.Mode == vf.GuardIP {
		for _, a := range addressesOf(g, true) {
			rules = append(rules, newRule(accept, isIPv4, hasBytes(atIPv4Source, a.AsSlice()...), isTCP), newRule(jumpTo(ipv4Chain), isIPv4, hasBytes(atIPv4Source, a.AsSlice()...)))
		}
	} else {
		rules = append(rules, newRule(accept, isIPv4, isTCP), newRule(jumpTo(ipv4Chain), isIPv4))
	}
	rules = append(rules, newRule(jumpTo(ipv6Chain), isIPv6), newRule(jumpTo(arpChain), isOwnFrame(g.MAC, unix.ETH_P_ARP)))
	for _, t := range etherTypes {
		if g.Allows(t.key) {
			rules = append(rules, eachType(accept, t.types, g.MAC)...)
		}
	}
	if g.Mode == vf.GuardIP {
		return rules
	}
	return append(rules, rulesOfOthers(g.MAC)...)
}

// rulesOfOthers accept the protocols beside IP and ARP that no switch and no host takes for a message
// about the link. The base chain has accepted those of the guard's keys.
func rulesOfOthers(mac vf.MAC) (rules [][]expr.Any) {
	rules = append(rules, newRule(drop, lacksBytes(atSource, mac[:]...)))
	for _, t := range etherTypes {
		rules = append(rules, eachType(drop, t.types, mac)...)
	}
	rules = append(rules, eachType(drop, droppedTypes, mac)...)
	// The addresses that no bridge forwards, and those of the bridges' other protocols (IEEE 802.1Q,
	// tables 8-1, 8-14 and 10-1): a switch itself reads these frames.
	toSwitch := maskedBytes(atDestination, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xc0}, []byte{0x01, 0x80, 0xc2, 0, 0, 0})
	// Below 0x600 is the length of an IEEE 802.2 frame, in which some receivers take ARP, too.
	return append(rules, newRule(drop, toSwitch), newRule(accept, compareBytes(expr.CmpOpGte, atEtherType, 0x06, 0x00)))
}

// eachType has a verdict on the frames of these EtherTypes from the pod's MAC address.
func eachType(v *expr.Verdict, types []uint16, mac vf.MAC) (rules [][]expr.Any) {
	for _, t := range types {
		rules = append(rules, newRule(v, isOwnFrame(mac, t)))
	}
	return rules
}

// rulesOfARP accept the pod's own addresses and MAC address as sender. A request from 0.0.0.0 is
// a probe (RFC 5227), which changes no receiver's table. A host that probes an address gives it up if
// another host probes it too, so the pod probes only its own.
func rulesOfARP(g vf.Guard) (rules [][]expr.Any) {
	rules = append(rules,
		newRule(drop, lacksBytes(atARPKinds, 0, unix.ARPHRD_ETHER, 0x08, 0x00, 6, 4)),
		newRule(drop, lacksBytes(atARPMAC, g.MAC[:]...)))
	for _, a := range addressesOf(g, true) {
		rules = append(rules, newRule(accept, hasBytes(atARPAddress, a.AsSlice()...)),
			newRule(accept, hasBytes(atARPAddress, 0, 0, 0, 0), hasBytes(atARPOp, 0, 1), hasBytes(atARPTarget, a.AsSlice()...)))
	}
	return rules
}

// rulesOfIPv4 drop packets with options, behind which the header of UDP or ICMP would be elsewhere.
// They accept the option of IGMP. The base chain has accepted TCP.
func rulesOfIPv4(g vf.Guard) (rules [][]expr.Any) {
	rules = append(rules,
		newRule(jumpTo(udp4Chain), isIPv4Header(headerPlain, unix.IPPROTO_UDP)),
		newRule(jumpTo(icmp4Chain), isIPv4Header(headerPlain, unix.IPPROTO_ICMP)),
		newRule(jumpTo(igmpChain), isIPv4Header(headerPlain, unix.IPPROTO_IGMP)))
	for _, r := range rulesOfIGMP(g, atIPv4Behind) {
		rules = append(rules, slices.Concat(isIPv4Header(headerWithOption, unix.IPPROTO_IGMP), hasBytes(atIPv4Payload, routerAlert...), r))
	}
	rules = append(rules, newRule(drop, lacksBytes(atPayload, headerPlain)))
	if !g.Allows(vf.AllowVRRP) {
		rules = append(rules, newRule(drop, hasBytes(atIPv4Protocol, protocolVRRP)))
	}
	return append(rules, newRule(accept))
}

// isIPv4Header matches the first byte of the header and the protocol.
func isIPv4Header(first, protocol byte) []expr.Any {
	const length = atIPv4Protocol - atPayload + 1
	mask, want := make([]byte, length), make([]byte, length)
	mask[0], mask[length-1], want[0], want[length-1] = 0xff, 0xff, first, protocol
	return maskedBytes(atPayload, mask, want)
}

// isFirstFragment matches packets that are no fragment, and first fragments. The later ones have no
// header of UDP or ICMP.
func isFirstFragment() []expr.Any {
	return maskedBytes(atIPv4Fragment, []byte{0x1f, 0xff}, []byte{0, 0})
}

// rulesOfUDP4 drop what a DHCP server sends. A client reads a server's port from no packet, so the
// source port does not matter.
func rulesOfUDP4(g vf.Guard) (rules [][]expr.Any) {
	if !g.Allows(vf.AllowDHCPServer) {
		rules = append(rules, newRule(drop, hasBytes(atIPv4Payload+atPort, 0, portDHCPClient), isFirstFragment()))
	}
	return append(rules, newRule(accept))
}

// rulesOfICMP4 drop what a router sends. A host believes the message that a packet is too big from
// anyone, and then cuts up or shrinks all it sends to the host that the message names.
func rulesOfICMP4(g vf.Guard) (rules [][]expr.Any) {
	if !g.Allows(vf.AllowRouter) {
		for _, kind := range [][]byte{{icmp4Redirect}, {icmp4RouterAdvertisement}, {icmp4Unreachable, icmp4TooBig}} {
			rules = append(rules, newRule(drop, hasBytes(atIPv4Payload, kind...), isFirstFragment()))
		}
	}
	return append(rules, newRule(accept))
}

// rulesOfIGMP accept reports, and no queries: the querier with the lowest address wins, and switches
// send multicast where it is.
func rulesOfIGMP(g vf.Guard, at uint32) (rules [][]expr.Any) {
	for _, kind := range igmpReports {
		rules = append(rules, newRule(accept, hasBytes(at, kind)))
	}
	if g.Allows(vf.AllowMulticastRouter) {
		rules = append(rules, newRule(accept, hasBytes(at, igmpQuery)))
	}
	return rules
}

func rulesOfIPv6(g vf.Guard, own []netip.Addr) (rules [][]expr.Any) {
	if g.Mode == vf.GuardARP {
		return [][]expr.Any{newRule(jumpTo(nextChain))}
	}
	for _, a := range own {
		rules = append(rules, newRule(jumpTo(nextChain), hasBytes(atIPv6Source, a.AsSlice()...)))
	}
	return append(rules, newRule(jumpTo(unsetChain), hasBytes(atIPv6Source, netip.IPv6Unspecified().AsSlice()...)))
}

func rulesOfNext(g vf.Guard) (rules [][]expr.Any) {
	rules = append(rules,
		newRule(accept, hasBytes(atIPv6Next, unix.IPPROTO_TCP)),
		newRule(jumpTo(udp6Chain), hasBytes(atIPv6Next, unix.IPPROTO_UDP)),
		newRule(jumpTo(icmpChain), hasBytes(atIPv6Next, nextICMP)),
		newRule(accept, isBigTCP()),
		newRule(jumpTo(hopChain), hasBytes(atIPv6Next, unix.IPPROTO_HOPOPTS)),
		newRule(jumpTo(fragmentChain), hasBytes(atIPv6Next, unix.IPPROTO_FRAGMENT)))
	return append(rules, acceptOthers(g, atIPv6Next)...)
}

// isBigTCP matches TCP that the kernel hands to the NIC in packets of more than 64 KiB, where the
// interface's gso_max_size allows them (BIG TCP). Their length is in a hop-by-hop option (RFC 2675),
// which the driver takes out.
func isBigTCP() []expr.Any {
	return slices.Concat(hasLength(0), hasBytes(atIPv6Next, unix.IPPROTO_HOPOPTS), hasBytes(atIPv6Payload, unix.IPPROTO_TCP, 0, 0xc2, 4))
}

// rulesOfUDP6 drop what a DHCPv6 server sends.
func rulesOfUDP6(g vf.Guard) (rules [][]expr.Any) {
	if !g.Allows(vf.AllowDHCPServer) {
		rules = append(rules, newRule(drop, isToDHCPv6Client(atIPv6Payload)))
	}
	return append(rules, newRule(accept))
}

func isToDHCPv6Client(at uint32) []expr.Any {
	return hasBytes(at+atPort, binary.BigEndian.AppendUint16(nil, portDHCPv6Client)...)
}

// acceptOthers accepts all headers but the extension headers, and that of VRRP without its key.
func acceptOthers(g vf.Guard, at uint32) (rules [][]expr.Any) {
	for _, next := range extensions {
		rules = append(rules, newRule(drop, hasBytes(at, next)))
	}
	if !g.Allows(vf.AllowVRRP) {
		rules = append(rules, newRule(drop, hasBytes(at, protocolVRRP)))
	}
	return append(rules, newRule(accept, compareBytes(expr.CmpOpGte, at, 0)))
}

// rulesOfUnset returns the rules for packets of an interface that has no address yet.
func rulesOfUnset(own []netip.Addr) (rules [][]expr.Any) {
	rules = append(rules, newRule(jumpTo(hopChain), hasBytes(atIPv6Next, unix.IPPROTO_HOPOPTS)), newRule(drop, lacksBytes(atIPv6Next, nextICMP)),
		newRule(accept, hasBytes(atIPv6Payload, icmpRouterSolicit), hasLength(8)))
	for _, a := range own { // duplicate address detection, without or with a nonce (RFC 7527)
		target := slices.Concat(hasBytes(atIPv6Payload, icmpNeighbourSolicit), hasBytes(atNDTarget, a.AsSlice()...))
		rules = append(rules, newRule(accept, target, hasLength(24)), newRule(accept, target, hasLength(32), hasBytes(atNDOption, 14, 1)))
	}
	return rules
}

// rulesOfHopByHop accept reports of multicast listeners (RFC 3810), with its key queries, and no other
// packet with hop-by-hop options.
func rulesOfHopByHop(g vf.Guard) (rules [][]expr.Any) {
	kinds := []byte{icmpMLDReport, icmpMLDDone, icmpMLDReport2}
	if g.Allows(vf.AllowMulticastRouter) {
		kinds = append(kinds, icmpMLDQuery)
	}
	for _, kind := range kinds {
		rules = append(rules, newRule(accept, hasBytes(atIPv6Payload, nextICMP, 0), hasBytes(atAfterExtension, kind)))
	}
	return rules
}

// rulesOfFragment accept fragments, but of ICMPv6 only those of echo messages. Receivers must
// ignore neighbour discovery in fragments (RFC 6980), and not all do. A receiver drops fragments
// that overlap (RFC 5722), so a later fragment cannot change the type.
func rulesOfFragment(g vf.Guard) (rules [][]expr.Any) {
	mask := binary.BigEndian.AppendUint16(nil, fragmentOffsetMask)
	offset := compareMasked(expr.CmpOpNeq, atFragmentOffset, mask, []byte{0, 0})
	if !g.Allows(vf.AllowDHCPServer) {
		rules = append(rules, newRule(drop, hasBytes(atIPv6Payload, unix.IPPROTO_UDP), isToDHCPv6Client(atAfterExtension), maskedBytes(atFragmentOffset, mask, []byte{0, 0})))
	}
	rules = append(rules,
		newRule(accept, hasBytes(atIPv6Payload, nextICMP), offset),
		newRule(accept, hasBytes(atIPv6Payload, nextICMP), hasBytes(atAfterExtension, icmpEchoRequest)),
		newRule(accept, hasBytes(atIPv6Payload, nextICMP), hasBytes(atAfterExtension, icmpEchoReply)),
		newRule(drop, hasBytes(atIPv6Payload, nextICMP)))
	return append(rules, acceptOthers(g, atIPv6Payload)...)
}

// rulesOfICMP accept all types below those of multicast listeners and of neighbour discovery, which have
// rules of their own. They drop router advertisements, redirects and the message that a packet is too
// big, unless the guard has their key, and the later types.
func rulesOfICMP(g vf.Guard, own []netip.Addr) (rules [][]expr.Any) {
	for _, kind := range []byte{icmpRouterSolicit, icmpNeighbourSolicit, icmpNeighbour} {
		rules = append(rules, newRule(jumpTo(ndChain), hasBytes(atIPv6Payload, kind)))
	}
	if g.Allows(vf.AllowRouter) {
		for _, a := range own {
			for _, kind := range []byte{icmpRouterAdvertisement, icmpRedirect} {
				rules = append(rules, newRule(accept, hasBytes(atIPv6Payload, kind), hasBytes(atIPv6Source, a.AsSlice()...)))
			}
		}
	} else {
		rules = append(rules, newRule(drop, hasBytes(atIPv6Payload, icmpTooBig)))
	}
	if !g.Allows(vf.AllowMulticastRouter) {
		rules = append(rules, newRule(drop, hasBytes(atIPv6Payload, icmpMLDQuery)))
	}
	return append(rules, newRule(accept, compareBytes(expr.CmpOpLt, atIPv6Payload, icmpRouterSolicit)))
}

func rulesOfND(own []netip.Addr) (rules [][]expr.Any) {
	for _, a := range own {
		rules = append(rules, newRule(jumpTo(ndOwnChain), hasBytes(atIPv6Source, a.AsSlice()...)))
	}
	return append(rules, newRule(jumpTo(unsetChain), hasBytes(atIPv6Source, netip.IPv6Unspecified().AsSlice()...)))
}

// rulesOfOwnND accept messages of neighbour discovery that claim nothing about other addresses or
// other MAC addresses. They drop packets with further options.
func rulesOfOwnND(mac vf.MAC, own []netip.Addr) (rules [][]expr.Any) {
	for _, a := range own {
		rules = append(rules, newRule(jumpTo(ndTargetChain), hasBytes(atIPv6Payload, icmpNeighbour), hasBytes(atNDTarget, a.AsSlice()...)))
	}
	for _, r := range rulesOfOption(mac, 24, atNDOption, 1) {
		rules = append(rules, slices.Concat(hasBytes(atIPv6Payload, icmpNeighbourSolicit), r))
	}
	for _, r := range rulesOfOption(mac, 8, atRSOption, 1) {
		rules = append(rules, slices.Concat(hasBytes(atIPv6Payload, icmpRouterSolicit), r))
	}
	return rules
}

// rulesOfOption accept a message of that length without options, and one with the pod's own MAC
// address as its only option: of kind 1, source, or 2, target (RFC 4861, section 4.6.1).
func rulesOfOption(mac vf.MAC, bare uint16, at uint32, kind byte) [][]expr.Any {
	return [][]expr.Any{
		newRule(accept, hasLength(bare)),
		newRule(accept, hasLength(bare+8), hasBytes(at, append([]byte{kind, 1}, mac[:]...)...)),
	}
}
