package rtnl

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// settable names the attributes by which the owner of a link changes it (do_setlink in
// net/core/rtnetlink.c), except those that Link has fields for. All but the queueing disciplines
// stay as they are when the link moves to another netns. IFLA_MAP is not among them: it contains
// interrupts that the kernel chooses, and no driver of a VF implements setting it. IFLA_AF_SPEC has
// the sysctls of an interface, which end when it leaves the netns.
var settable = map[uint16]string{
	unix.IFLA_BROADCAST: "broadcast", unix.IFLA_MASTER: "master", unix.IFLA_TXQLEN: "txqlen", unix.IFLA_LINKMODE: "linkmode",
	unix.IFLA_IFALIAS: "ifalias", unix.IFLA_GROUP: "group", unix.IFLA_PROTO_DOWN: "proto_down", unix.IFLA_PROTO_DOWN_REASON: "proto_down_reason",
	unix.IFLA_GSO_MAX_SEGS: "gso_max_segs", unix.IFLA_GSO_MAX_SIZE: "gso_max_size", unix.IFLA_GRO_MAX_SIZE: "gro_max_size",
	unix.IFLA_GSO_IPV4_MAX_SIZE: "gso_ipv4_max_size", unix.IFLA_GRO_IPV4_MAX_SIZE: "gro_ipv4_max_size",
	unix.IFLA_XDP: "xdp", unix.IFLA_PROP_LIST: "altnames", unix.IFLA_QDISC: "qdisc",
}

// movingFlags are flags that the kernel changes by itself, or that are fields of Link.
const movingFlags = unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOWER_UP | unix.IFF_DORMANT | unix.IFF_PROMISC | unix.IFF_ALLMULTI

// ordinaryQdiscs are the queueing disciplines that the kernel gives a netdevice by itself (noop
// until it is up for the first time) or by net.core.default_qdisc.
var ordinaryQdiscs = []string{"noop", "noqueue", "mq", "pfifo_fast", "fq_codel", "fq", "sfq", "cake"}

// Attributes returns the settings of the link that Link has no fields for, by name; a setting that
// is not set has an empty value.
func (l Link) Attributes() map[string]string {
	out := map[string]string{"flags": fmt.Sprintf("%#x", l.flags&^uint32(movingFlags))}
	for _, name := range settable {
		out[name] = ""
	}
	for _, a := range l.others {
		out[settable[a.Type]] = a.describeValue()
	}
	return out
}

// describeValue returns the value of an attribute on one line.
func (a Attr) describeValue() string {
	switch a.Type {
	case unix.IFLA_PROP_LIST:
		return Digest([]byte(strings.Join(a.listAltnames(), " ")))
	case unix.IFLA_IFALIAS:
		return Digest([]byte(a.Text()))
	case unix.IFLA_QDISC:
		if slices.Contains(ordinaryQdiscs, a.Text()) {
			return ""
		}
		return Digest([]byte(a.Text()))
	case unix.IFLA_BROADCAST, unix.IFLA_XDP:
		return Digest(a.Value)
	}
	if len(a.Value) == 4 {
		return strconv.FormatUint(uint64(a.Uint32()), 10)
	}
	return Digest(a.Value)
}

// AltNames returns the alternative names of the link, sorted.
func (l Link) AltNames() (out []string) {
	for _, a := range l.others {
		if a.Type == unix.IFLA_PROP_LIST {
			out = append(out, a.listAltnames()...)
		}
	}
	return out
}

func (a Attr) listAltnames() []string {
	var out []string
	names, _ := Attrs(a.Value) // if the value is cut short, only the names before the cut
	for _, n := range names {
		if n.Type == unix.IFLA_ALT_IFNAME {
			out = append(out, n.Text())
		}
	}
	slices.Sort(out)
	return out
}

// longest is how many bytes Digest shows as they are.
const longest = 40

// Digest returns a value on one line: printable text that is short in quotes, other short
// values in hexadecimal, and a hash of a long one.
func Digest(b []byte) string {
	switch text := string(b); {
	case len(b) == 0:
		return ""
	case len(b) <= longest && strconv.CanBackquote(text):
		return strconv.Quote(text)
	case len(b) <= 8:
		return fmt.Sprintf("%#x", b)
	default:
		sum := sha256.Sum256(b)
		return fmt.Sprintf("sha256:%x", sum[:8])
	}
}
