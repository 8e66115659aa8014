package evidence

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
)

// TestShapes: the kernel's own list shows a limit of the interface, and one of each flow. Without a
// queueing discipline there is none.
func TestShapes(t *testing.T) {
	got := map[string]shape{}
	want := map[string]shape{
		"v0": {"tbf rate 100 Mb/s, limit 100000 bytes", 100, 0}, "v1": {},
		"v2": {"fq maxrate 50 Mb/s of each flow", 0, 50}, "v3": {},
	}
	newNetns(t)(func() error {
		if err := runIP("link add v0 type veth peer name v1", "link add v2 type veth peer name v3", "link set v0 up", "link set v2 up"); err != nil {
			return err
		}
		for name, q := range map[string]func(netlink.QdiscAttrs) netlink.Qdisc{
			"v0": func(a netlink.QdiscAttrs) netlink.Qdisc {
				return &netlink.Tbf{QdiscAttrs: a, Rate: 12500000, Limit: 100000, Buffer: 100000}
			},
			"v2": func(a netlink.QdiscAttrs) netlink.Qdisc {
				return &netlink.Fq{QdiscAttrs: a, Pacing: 1, FlowMaxRate: 6250000}
			},
		} {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			if err := netlink.QdiscReplace(q(netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT})); err != nil {
				t.Logf("this kernel has no queueing discipline for %s: %v", name, err)
				want[name] = shape{text: "noqueue"}
			}
		}
		links, err := Reader{}.netLinks()
		for _, l := range links {
			got[l.Name] = shape{l.Qdisc, l.QdiscMbps, l.FlowMbps}
		}
		return err
	})
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(shape{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDescribeShape(t *testing.T) {
	at := func(handle, parent uint32) netlink.QdiscAttrs {
		return netlink.QdiscAttrs{Handle: handle << 16, Parent: parent}
	}
	root, micro := uint32(netlink.HANDLE_ROOT), netlink.TickInUsec()
	generic := func(kind string, a netlink.QdiscAttrs) netlink.Qdisc {
		return &netlink.GenericQdisc{QdiscAttrs: a, QdiscType: kind}
	}
	ceil := &netlink.HtbClass{ClassAttrs: netlink.ClassAttrs{Parent: root}, Ceil: 2.5e6}
	for name, c := range map[string]struct {
		list    []netlink.Qdisc
		classes []netlink.Class
		want    shape
	}{
		"none":   {nil, nil, shape{}},
		"queues": {[]netlink.Qdisc{generic("fq_codel", at(0, 0x8001_0001)), generic("mq", at(0x8001, root)), generic("fq_codel", at(0, 0x8001_0002))}, nil, shape{"mq; fq_codel", 0, 0}},
		"a rate of each of many queues": {[]netlink.Qdisc{generic("mq", at(1, root)), &netlink.Tbf{QdiscAttrs: at(2, 1<<16|1), Rate: 125e6, Limit: 1}}, nil,
			shape{"mq; tbf rate 1000 Mb/s, limit 1 bytes", 0, 0}},
		"a long way": {[]netlink.Qdisc{&netlink.Netem{QdiscAttrs: at(1, root), Latency: uint32(10000 * micro), Limit: 100, Loss: 42949673}}, nil,
			shape{"netem delay 10000 us, limit 100 packets loss 1.00 %", 121.12, 0}},
		"a way with a rate": {[]netlink.Qdisc{&netlink.Netem{QdiscAttrs: at(1, root), Rate64: 1e6}}, nil, shape{"netem rate 8 Mb/s", 8, 0}},
		"below a rate": {[]netlink.Qdisc{&netlink.Tbf{QdiscAttrs: at(1, root), Rate: 125e6, Limit: 1}, &netlink.Netem{QdiscAttrs: at(2, 1<<16|1), Rate64: 1e6}}, nil,
			shape{"tbf rate 1000 Mb/s, limit 1 bytes; netem rate 8 Mb/s", 8, 0}},
		"classes":            {[]netlink.Qdisc{&netlink.Htb{QdiscAttrs: at(1, root), Defcls: 16}}, []netlink.Class{ceil, ceil}, shape{"htb ceil 40 Mb/s", 40, 0}},
		"classes for others": {[]netlink.Qdisc{&netlink.Htb{QdiscAttrs: at(1, root)}}, []netlink.Class{ceil}, shape{"htb ceil 20 Mb/s", 0, 0}},
		"fq of no rate":      {[]netlink.Qdisc{&netlink.Fq{QdiscAttrs: at(1, root), FlowMaxRate: 1<<32 - 1}}, nil, shape{"fq", 0, 0}},
	} {
		if diff := cmp.Diff(c.want, describeShape(c.list, c.classes), cmp.AllowUnexported(shape{})); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
