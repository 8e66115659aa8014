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
	atSource    = 6
	atEtherType = 12
	atPayload   = 14

	atARPKinds   = atPayload // htype, ptype, hlen, plen
	atARPOp      = atPayload + 6
	atARPMAC     = atPayload + 8
	atARPAddress = atPayload + 14

	atIPv4Source = atPayload + 12

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

// extensions are the extension headers of IPv6. A receiver reads on behind them, so neighbour
// discovery could hide there. rulesOfIPv6 lets some of them pass under conditions.
var extensions = []byte{
	unix.IPPROTO_HOPOPTS, unix.IPPROTO_ROUTING, unix.IPPROTO_FRAGMENT, unix.IPPROTO_AH, unix.IPPROTO_DSTOPTS,
	unix.IPPROTO_MH, 139 /* HIP */, 140, /* Shim6 */
}

// tagTypes are the EtherTypes of VLAN tags. A tagged frame may hold anything, and receivers take
// one with VLAN 0 for untagged.
var tagTypes = [][]byte{{0x81, 0x00}, {0x88, 0xa8}, {0x91, 0x00}, {0x92, 0x00}, {0x93, 0x00}}

// Names of chains. The base chain is the one at the hook.
const (
	baseChain     = "egress"
	arpChain      = "arp"
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
		{hopChain, rulesOfHopByHop()},
		{fragmentChain, rulesOfFragment()},
		{ndTargetChain, rulesOfOption(g.MAC, 24, atNDOption, 2)},
		{ndOwnChain, rulesOfOwnND(g.MAC, own6)},
		{ndChain, rulesOfND(own6)},
		{unsetChain, rulesOfUnset(own6)},
		{icmpChain, rulesOfICMP()},
		{nextChain, rulesOfNext()},
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
	if g.Mode == vf.GuardIP {
		for _, a := range addressesOf(g, true) {
			rules = append(rules, newRule(accept, isIPv4, hasBytes(atIPv4Source, a.AsSlice()...)))
		}
	} else {
		rules = append(rules, newRule(accept, isIPv4))
	}
	rules = append(rules, newRule(jumpTo(ipv6Chain), isIPv6), newRule(jumpTo(arpChain), isOwnFrame(g.MAC, unix.ETH_P_ARP)))
	if g.Mode == vf.GuardIP {
		return rules
	}
	rules = append(rules, newRule(drop, lacksBytes(atSource, g.MAC[:]...)))
	for _, tag := range tagTypes {
		rules = append(rules, newRule(drop, hasBytes(atEtherType, tag...)))
	}
	// Below 0x600 is the length of an IEEE 802.2 frame, in which some receivers take ARP, too.
	return append(rules, newRule(accept, compareBytes(expr.CmpOpGte, atEtherType, 0x06, 0x00)))
}

// rulesOfARP accept the pod's own addresses and MAC address as sender. A request from 0.0.0.0 is
// a probe (RFC 5227), which changes no receiver's table.
func rulesOfARP(g vf.Guard) (rules [][]expr.Any) {
	rules = append(rules,
		newRule(drop, lacksBytes(atARPKinds, 0, unix.ARPHRD_ETHER, 0x08, 0x00, 6, 4)),
		newRule(drop, lacksBytes(atARPMAC, g.MAC[:]...)))
	for _, a := range addressesOf(g, true) {
		rules = append(rules, newRule(accept, hasBytes(atARPAddress, a.AsSlice()...)))
	}
	return append(rules, newRule(accept, hasBytes(atARPAddress, 0, 0, 0, 0), hasBytes(atARPOp, 0, 1)))
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

func rulesOfNext() (rules [][]expr.Any) {
	rules = append(rules,
		newRule(jumpTo(icmpChain), hasBytes(atIPv6Next, nextICMP)),
		newRule(jumpTo(hopChain), hasBytes(atIPv6Next, unix.IPPROTO_HOPOPTS)),
		newRule(jumpTo(fragmentChain), hasBytes(atIPv6Next, unix.IPPROTO_FRAGMENT)))
	return append(rules, acceptOthers(atIPv6Next)...)
}

// acceptOthers accepts all headers but the extension headers.
func acceptOthers(at uint32) (rules [][]expr.Any) {
	for _, next := range extensions {
		rules = append(rules, newRule(drop, hasBytes(at, next)))
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

// rulesOfHopByHop accept reports of multicast listeners (RFC 3810), and no other packet with
// hop-by-hop options.
func rulesOfHopByHop() (rules [][]expr.Any) {
	for _, kind := range []byte{icmpMLDReport, icmpMLDDone, icmpMLDReport2} {
		rules = append(rules, newRule(accept, hasBytes(atIPv6Payload, nextICMP, 0), hasBytes(atAfterExtension, kind)))
	}
	return rules
}

// rulesOfFragment accept fragments, but of ICMPv6 only those of echo messages. Receivers must
// ignore neighbour discovery in fragments (RFC 6980), and not all do. A receiver drops fragments
// that overlap (RFC 5722), so a later fragment cannot change the type.
func rulesOfFragment() (rules [][]expr.Any) {
	offset := slices.Concat(loadBytes(atFragmentOffset, 2), []expr.Any{
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 2, Mask: binary.BigEndian.AppendUint16(nil, fragmentOffsetMask), Xor: []byte{0, 0}},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: []byte{0, 0}},
	})
	rules = append(rules,
		newRule(accept, hasBytes(atIPv6Payload, nextICMP), offset),
		newRule(accept, hasBytes(atIPv6Payload, nextICMP), hasBytes(atAfterExtension, icmpEchoRequest)),
		newRule(accept, hasBytes(atIPv6Payload, nextICMP), hasBytes(atAfterExtension, icmpEchoReply)),
		newRule(drop, hasBytes(atIPv6Payload, nextICMP)))
	return append(rules, acceptOthers(atIPv6Payload)...)
}

// rulesOfICMP accept all types below those of neighbour discovery, which have rules of their own.
// They drop router advertisements, redirects and the later types.
func rulesOfICMP() (rules [][]expr.Any) {
	for _, kind := range []byte{icmpRouterSolicit, icmpNeighbourSolicit, icmpNeighbour} {
		rules = append(rules, newRule(jumpTo(ndChain), hasBytes(atIPv6Payload, kind)))
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

// register is the register with the bytes that a rule compares. It has 16 bytes.
const register = unix.NFT_REG_1

var accept, drop = &expr.Verdict{Kind: expr.VerdictAccept}, &expr.Verdict{Kind: expr.VerdictDrop}

func jumpTo(chain string) *expr.Verdict { return &expr.Verdict{Kind: expr.VerdictGoto, Chain: chain} }

// newRule returns a rule that has a verdict on frames that match all of the conditions. A frame that
// is too short for a condition does not match it.
func newRule(v *expr.Verdict, conditions ...[]expr.Any) []expr.Any {
	return append(slices.Concat(conditions...), v)
}

func loadBytes(at, length uint32) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: register, Base: expr.PayloadBaseLLHeader, Offset: at, Len: length}}
}

func compareBytes(op expr.CmpOp, at uint32, with ...byte) []expr.Any {
	return append(loadBytes(at, uint32(len(with))), &expr.Cmp{Op: op, Register: register, Data: with})
}

func hasBytes(at uint32, want ...byte) []expr.Any { return compareBytes(expr.CmpOpEq, at, want...) }

func lacksBytes(at uint32, want ...byte) []expr.Any { return compareBytes(expr.CmpOpNeq, at, want...) }

// isOwnFrame matches an EtherType in a frame from that MAC address.
func isOwnFrame(mac vf.MAC, kind uint16) []expr.Any {
	return hasBytes(atSource, binary.BigEndian.AppendUint16(mac[:], kind)...)
}

// hasLength matches the length of an IPv6 packet's payload. A receiver ignores bytes beyond it.
func hasLength(n uint16) []expr.Any {
	return hasBytes(atIPv6Length, binary.BigEndian.AppendUint16(nil, n)...)
}
