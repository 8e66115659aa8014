package evidence

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
)

// TestReach: the interfaces below an interface carry its frames, and are no other way for them.
func TestReach(t *testing.T) {
	link := func(index int, name string, change func(*netlink.LinkAttrs)) netlink.LinkAttrs {
		a := netlink.LinkAttrs{Index: index, Name: name}
		if change != nil {
			change(&a)
		}
		return a
	}
	port := func(master int) func(*netlink.LinkAttrs) {
		return func(a *netlink.LinkAttrs) { a.MasterIndex = master }
	}
	on := func(parent int) func(*netlink.LinkAttrs) {
		return func(a *netlink.LinkAttrs) { a.ParentIndex = parent }
	}
	below := directlyBelow([]netlink.Link{
		&netlink.Device{LinkAttrs: link(2, "eth0", port(5))}, &netlink.Veth{LinkAttrs: link(3, "veth1", func(a *netlink.LinkAttrs) { a.MasterIndex, a.ParentIndex = 5, 2 })},
		&netlink.Bridge{LinkAttrs: link(5, "br0", nil)}, &netlink.Vlan{LinkAttrs: link(6, "br0.7", on(5))},
		&netlink.Vxlan{LinkAttrs: link(7, "flannel.1", nil), VtepDevIndex: 6}, &netlink.Veth{LinkAttrs: link(8, "veth2", on(2))},
		&netlink.GenericLink{LinkAttrs: link(9, "ovs-system", nil), LinkType: "openvswitch"}, &netlink.GenericLink{LinkAttrs: link(10, "br-ex", nil), LinkType: "openvswitch"},
		&netlink.Device{LinkAttrs: link(11, "eth1", port(9))},
	})
	for name, want := range map[string][]string{
		"eth0": nil, "veth2": nil, "br0": {"eth0", "veth1"}, "br0.7": {"br0", "eth0", "veth1"}, "flannel.1": {"br0", "br0.7", "eth0", "veth1"}, "br-ex": {"eth1", "ovs-system"},
	} {
		got := reachAll(below, name)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
