package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The management network of every lab. It exists only in the lab's own
// network namespace, so labs do not collide.
var (
	mgmtPrefix  = netip.MustParsePrefix("192.168.77.0/24")
	mgmtGateway = netip.MustParseAddr("192.168.77.1")
)

// wireMTU is large enough for jumbo frames with VLAN tags.
const wireMTU = 9216

// mgmtBridge joins the nodes' management interfaces with the lab's namespace.
const mgmtBridge = "mgmt"

// MgmtInterface is a node's interface of the management network (boot/node-init names it).
const MgmtInterface = "mgmt0"

// pfCount is the number of PFs of a node, each on a wire of its own.
const pfCount = 2

// pfID returns the name of a node's n-th PF in the lab, counting from 1.
func pfID(n int) string { return fmt.Sprintf("pf%d", n) }

// wireName returns the bridge that the n-th PFs of all nodes are plugged into.
func wireName(n int) string { return fmt.Sprintf("wire%d", n) }

// tapName returns the name of the tap of a node's NIC; NIC 0 is the management interface.
func tapName(node, nic int) string { return fmt.Sprintf("n%dp%d", node, nic) }

// nodeName returns the default name of a node, nodeAddr its
// address. Both count from 1.
func nodeName(n int) string { return fmt.Sprintf("worker%02d", n) }

func nodeAddr(n int) netip.Addr {
	a := mgmtPrefix.Addr().As4()
	a[3] = byte(10 + n)
	return netip.AddrFrom4(a)
}

// layWires makes the bridges and taps of a lab in the calling process's network namespace. They
// end with the namespace.
func layWires(nodes int, joined bool) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	bridges := []string{mgmtBridge}
	for n := range pfCount {
		bridges = append(bridges, wireName(n+1))
	}
	for nic, name := range bridges {
		bridge, err := addBridge(name)
		if err != nil {
			return err
		}
		for n := range nodes {
			if err := addTap(tapName(n+1, nic), bridge); err != nil {
				return err
			}
		}
		if err := errors.Join(netlink.LinkSetMTU(bridge, wireMTU), netlink.LinkSetUp(bridge)); err != nil {
			return fmt.Errorf("set the bridge %s up: %w", name, err)
		}
	}
	if joined {
		if err := joinWires(); err != nil {
			return err
		}
	}
	if err := addressBridge(); err != nil {
		return err
	}
	// A router answers packets that it cannot deliver, so nodes need not wait for a time-out.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return fmt.Errorf("make the lab's namespace a router: %w", err)
	}
	return nil
}

// joinWires links the switches of the first and the second wire.
func joinWires() error {
	const near, far = "link1", "link2"
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: near, MTU: wireMTU}, PeerName: far}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("make the link between the wires: %w", err)
	}
	for n, name := range []string{near, far} {
		end, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		bridge, err := netlink.LinkByName(wireName(n + 1))
		if err != nil {
			return fmt.Errorf("find %s: %w", wireName(n+1), err)
		}
		if err := errors.Join(netlink.LinkSetMTU(end, wireMTU), netlink.LinkSetMaster(end, bridge), netlink.LinkSetUp(end)); err != nil {
			return fmt.Errorf("plug %s into %s: %w", name, wireName(n+1), err)
		}
	}
	return nil
}

// addBridge makes a bridge that floods frames to unknown addresses, also those of every multicast
// group and VLAN, as an unmanaged switch does. The kernel's defaults are no STP, hence no delay,
// and no VLAN filtering.
func addBridge(name string) (netlink.Link, error) {
	snooping := false
	b := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}, MulticastSnooping: &snooping}
	if err := netlink.LinkAdd(b); err != nil {
		return nil, fmt.Errorf("make the bridge %s: %w", name, err)
	}
	return b, nil
}

func addTap(name string, bridge netlink.Link) error {
	tap := &netlink.Tuntap{
		LinkAttrs: netlink.LinkAttrs{Name: name},
		Mode:      netlink.TUNTAP_MODE_TAP,
		Flags:     netlink.TuntapFlag(unix.IFF_NO_PI | unix.IFF_VNET_HDR),
	}
	if err := netlink.LinkAdd(tap); err != nil {
		return fmt.Errorf("make the tap %s (is /dev/net/tun open to this user?): %w", name, err)
	}
	if err := netlink.LinkSetMTU(tap, wireMTU); err != nil {
		return fmt.Errorf("set the MTU of the tap %s: %w", name, err)
	}
	if err := netlink.LinkSetMaster(tap, bridge); err != nil {
		return fmt.Errorf("plug the tap %s into %s: %w", name, bridge.Attrs().Name, err)
	}
	if err := netlink.LinkSetUp(tap); err != nil {
		return fmt.Errorf("set the tap %s up: %w", name, err)
	}
	return nil
}

func addressBridge() error {
	bridge, err := netlink.LinkByName(mgmtBridge)
	if err != nil {
		return fmt.Errorf("find the bridge %s: %w", mgmtBridge, err)
	}
	addr, err := netlink.ParseAddr(netip.PrefixFrom(mgmtGateway, mgmtPrefix.Bits()).String())
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(bridge, addr); err != nil {
		return fmt.Errorf("give the bridge %s its address: %w", mgmtBridge, err)
	}
	return nil
}
