package tuning

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// hashedFlows are the flow types of [FlowHash], by ethtool's names (linux/ethtool.h).
var hashedFlows = []struct {
	name string
	flow uint32
}{{"tcp4", 1}, {"udp4", 2}, {"tcp6", 5}, {"udp6", 6}}

// hashedFields are the fields of a packet that a NIC may hash, by their bits (RXH_L2DA and on).
var hashedFields = []struct {
	name string
	bit  uint
}{{"MAC", 1}, {"VLAN", 2}, {"protocol", 3}, {"source", 4}, {"destination", 5}, {"source port", 6}, {"destination port", 7}}

// FlowHash returns by which fields of a packet a netdevice of the calling thread's network namespace chooses the receive
// queue, for flow types that its driver has an answer for: {"udp4", "source, destination"}. No fields are "none".
func FlowHash(name string) (fields [][2]string, err error) {
	// As in Read, a netlink socket takes ethtool's questions too.
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("open a socket for ethtool: %w", err)
	}
	defer unix.Close(fd)
	d := netdevice{fd: fd}
	if len(name) >= len(d.name) {
		return nil, fmt.Errorf("interface name %q is too long: %w", name, unix.EINVAL)
	}
	copy(d.name[:], name)
	return asker{d.callEthtool}.askFlowHash(), nil
}

// askFlowHash leaves out the flow types that the driver has no answer for.
func (a asker) askFlowHash() (fields [][2]string) {
	for _, h := range hashedFlows {
		b := make([]byte, sizeRules)
		binary.NativeEndian.PutUint32(b, unix.ETHTOOL_GRXFH)
		binary.NativeEndian.PutUint32(b[4:], h.flow)
		if a.ioctl(b) == nil {
			fields = append(fields, [2]string{h.name, nameHashed(binary.NativeEndian.Uint64(b[8:]))})
		}
	}
	return fields
}

// nameHashed names the fields of a mask.
func nameHashed(mask uint64) string {
	var names []string
	for _, f := range hashedFields {
		if mask&(1<<f.bit) != 0 {
			names = append(names, f.name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}
