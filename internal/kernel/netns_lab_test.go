package kernel_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

func TestLabAttachAndDetach(t *testing.T) {
	n := labNode(t)
	before := n.bound(0, 0)
	pod := n.netns("pod")
	if err := netns.Run(pod, func() error { // as runtimes make sandboxes
		return os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	}); err != nil {
		t.Fatal(err)
	}
	v, name := before.PCI, before.Link.Name
	routes := []vf.Route{
		{Dst: prefix("10.20.0.0/16"), Gateway: netip.MustParseAddr("10.56.0.1"), MTU: 1400},
		{Dst: prefix("10.30.0.0/16")},
		{Dst: prefix("fd01::/64"), Gateway: netip.MustParseAddr("fd00::1"), Priority: 50},
		{Dst: prefix("fd02::/64")},
		{Dst: prefix("10.40.0.0/16"), Gateway: netip.MustParseAddr("192.0.2.1"), OnLink: true, AdvMSS: 1300, Table: 100},
	}
	start := time.Now()
	n.timed(step.Move{VF: v, To: pod, Name: "net1"})
	n.timed(step.SetMTU{VF: v, Netns: pod, MTU: 1450})
	n.timed(step.SetUp{VF: v, Netns: pod, Up: true})
	n.timed(step.AddAddress{VF: v, Netns: pod, Address: prefix("10.56.0.10/24")})
	n.timed(step.AddAddress{VF: v, Netns: pod, Address: prefix("fd00::10/64")})
	for _, r := range routes {
		n.timed(step.AddRoute{VF: v, Netns: pod, Route: r})
	}
	t.Logf("%7.1f ms  all", float64(time.Since(start).Microseconds())/1000)
	n.do(
		step.AddAddress{VF: v, Netns: pod, Address: prefix("10.56.0.10/24")}, // again
		step.AddRoute{VF: v, Netns: pod, Route: routes[0]},
	)
	if err := n.Do(n.context(), step.AddRoute{VF: v, Netns: pod, Route: vf.Route{
		Dst: prefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("192.0.2.1"),
	}}); !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("a gateway elsewhere: %v", err)
	}

	start = time.Now()
	s := n.vf(0, 0, pod)
	t.Logf("%7.1f ms  VF in a netns", float64(time.Since(start).Microseconds())/1000)
	want := &vf.Link{
		Netns: pod, Name: "net1", MAC: before.Link.MAC, MTU: 1450, Up: true,
		Addrs: []netip.Prefix{prefix("10.56.0.10/24"), prefix("fd00::10/64")}, Routes: routes,
	}
	byText := func(a, b vf.Route) bool { return a.String() < b.String() } // the kernel lists tables by their numbers
	if diff := cmp.Diff(want, s.Link, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.SortSlices(byText),
		cmpopts.IgnoreFields(vf.Link{}, "Index", "Carrier", "Attributes", "Traffic")); diff != "" {
		t.Errorf("in the netns (-want +got):\n%s", diff)
	}
	for _, path := range []string{"", "/run/netns/none", "/proc/uptime"} {
		if s := n.vf(0, 0, path); s.Link != nil {
			t.Errorf("looked for in %q: %+v", path, s.Link)
		}
	}
	n.do(step.DelAddress{VF: v, Netns: pod, Address: prefix("10.56.0.10/24")})
	n.do(step.DelAddress{VF: v, Netns: pod, Address: prefix("10.56.0.10/24")})
	n.timed(step.SetUp{VF: v, Netns: pod, Up: false})
	n.timed(step.SetMTU{VF: v, Netns: pod, MTU: before.Link.MTU})
	n.timed(step.Move{VF: v, From: pod, Name: name})
	n.do(step.Move{VF: v, From: pod, Name: name}) // it is there
	start = time.Now()
	s = n.vf(0, 0, "")
	t.Logf("%7.1f ms  VF in the host's netns", float64(time.Since(start).Microseconds())/1000)
	before.Link.Index, s.Link.Index = 0, 0
	if diff := cmp.Diff(before, s, cmpopts.IgnoreFields(vf.Link{}, "Traffic")); diff != "" {
		t.Errorf("after detach (-before +after):\n%s", diff)
	}
}

// The kernel moves a netdevice first and renames it second. If the name is taken in the target
// netns, the step Move still leaves the netdevice in its old netns.
func TestLabMoveToATakenName(t *testing.T) {
	n := labNode(t)
	a, b := n.bound(0, 0), n.bound(0, 1)
	pod := n.netns("pod")
	n.do(step.Move{VF: a.PCI, To: pod, Name: "net1"})
	if err := n.Do(n.context(), step.Move{VF: b.PCI, To: pod, Name: "net1"}); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a taken name: %v", err)
	}
	if s := n.vf(0, 1, ""); s.Link == nil || s.Link.Name != b.Link.Name {
		t.Errorf("VF is at %+v", s.Link)
	}
	if err := n.Do(n.context(), step.Rename{VF: b.PCI, Name: a.Link.Name}); err != nil {
		t.Error(err)
	}
	n.do(step.Rename{VF: b.PCI, Name: b.Link.Name})
	other := n.netns("other")
	n.do(step.Move{VF: a.PCI, From: pod, To: other, Name: "eth7"})
	if s := n.vf(0, 0, other); s.Link == nil || s.Link.Name != "eth7" {
		t.Errorf("from pod to pod: %+v", s.Link)
	}
}

func TestLabUnbindInsideANetns(t *testing.T) {
	n := labNode(t)
	s := n.bound(1, 4)
	pod := n.netns("pod")
	n.do(step.Move{VF: s.PCI, To: pod, Name: "net1"}, step.SetUp{VF: s.PCI, Netns: pod, Up: true})
	n.timed(step.Unbind{VF: s.PCI})
	if s := n.vf(1, 4, pod); s.Link != nil || s.Driver != "" {
		t.Errorf("after Unbind: %+v", s)
	}
	n.timed(step.Bind{VF: s.PCI})
	if after := n.vf(1, 4, pod); after.Link == nil || after.Link.Netns != "" || after.Link.MAC != s.Link.MAC {
		t.Errorf("after Bind: %+v", after.Link)
	}
}

// When a netns ends, its VF returns to the host under the name and with the settings that it had in
// the netns.
func TestLabNetnsGoes(t *testing.T) {
	n := labNode(t)
	s := n.bound(0, 5)
	pod := "/run/netns/gone"
	if err := netns.New(pod); err != nil {
		t.Fatal(err)
	}
	n.do(step.Move{VF: s.PCI, To: pod, Name: "net1"})
	wake, err := n.Watch(n.context())
	if err != nil {
		t.Fatal(err)
	}
	if err := netns.Delete(pod); err != nil {
		t.Fatal(err)
	}
	for n.vf(0, 5, pod).Link == nil {
		select {
		case <-wake:
		case <-time.After(time.Minute):
			t.Fatal("nothing woke")
		}
	}
	// udev leaves the name, too, since a program has set it (name_assign_type).
	if got := n.vf(0, 5, pod).Link.Name; got != "net1" {
		t.Errorf("it came back as %s", got)
	}
	n.do(step.Rename{VF: s.PCI, Name: s.Link.Name})
}

func TestLabClearPromisc(t *testing.T) {
	n := labNode(t)
	s := n.bound(0, 6)
	n.do(step.SetUp{VF: s.PCI, Up: true})
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		t.Fatal(err)
	}
	mreq := &unix.PacketMreq{Ifindex: int32(s.Link.Index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, mreq); err != nil {
		t.Fatal(err)
	}
	if !n.vf(0, 6, "").Link.Promisc {
		t.Error("a capture does not show")
	}
	if err := n.Do(n.context(), step.ClearPromisc{VF: s.PCI}); err == nil {
		t.Error("a capture went unnoticed")
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	c, err := rtnl.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const both = unix.IFF_PROMISC | unix.IFF_ALLMULTI
	if err := c.SetLink(s.Link.Index, both, both, nil); err != nil {
		t.Fatal(err)
	}
	if l := n.vf(0, 6, "").Link; !l.Promisc || !l.AllMulti {
		t.Errorf("switched on by hand: %+v", l)
	}
	n.do(step.ClearPromisc{VF: s.PCI})
	if l := n.vf(0, 6, "").Link; l.Promisc || l.AllMulti {
		t.Errorf("%+v", l)
	}
}

func TestLabWatch(t *testing.T) {
	n := labNode(t)
	ctx, cancel := context.WithCancel(t.Context())
	wake, err := n.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	n.do(step.Bind{VF: n.pfs[0].VFs[0].PCI})
	select {
	case <-wake:
	case <-time.After(time.Minute):
		t.Error("a bind did not wake")
	}
	cancel()
	for range wake { // until it is closed
	}
}

// The counters of a VF's netdevice rise in a pod, and igb has none of its VFs.
func TestLabTraffic(t *testing.T) {
	n := labNode(t)
	before := n.bound(0, 0)
	pod := n.netns("pod")
	n.do(step.Move{VF: before.PCI, To: pod, Name: "net1"}, step.SetUp{VF: before.PCI, Netns: pod, Up: true},
		step.AddAddress{VF: before.PCI, Netns: pod, Address: prefix("10.56.0.10/24")})
	quiet := n.vf(0, 0, pod).Link.Traffic
	if err := netns.Run(pod, func() error {
		to, err := net.Dial("udp", "10.56.0.255:9") // a broadcast needs no neighbour
		if err != nil {
			return err
		}
		defer to.Close()
		_, err = to.Write(make([]byte, 1000))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	rise, ok := n.vf(0, 0, pod).Link.Traffic.Since(quiet)
	for deadline := time.Now().Add(10 * time.Second); rise.TxBytes < 1000 && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		rise, ok = n.vf(0, 0, pod).Link.Traffic.Since(quiet) // igbvf reads its counters every two seconds
	}
	if !ok || rise.TxPackets == 0 || rise.TxBytes < 1000 {
		t.Errorf("after a datagram of 1,000 bytes: %+v, %t", rise, ok)
	}
	if counters, err := n.VFTraffic(n.context(), n.pfs[0].PCI); counters != nil || err != nil {
		t.Errorf("igb counts of its VFs: %v, %v", counters, err)
	}
}
