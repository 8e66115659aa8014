package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// addressed has links with addresses.
type addressed struct {
	told
	addrs []rtnl.Addr
}

func (a addressed) Addrs(index int) (rtnl.List[rtnl.Addr], error) {
	isOther := func(o rtnl.Addr) bool { return index != 0 && o.Index != index }
	return rtnl.List[rtnl.Addr]{Kept: slices.DeleteFunc(slices.Clone(a.addrs), isOther)}, nil
}

// usedHost returns a Kernel whose netlink answers are those of c. Its processes have no open files,
// and the netns of process 1 is that of the test.
func usedHost(t *testing.T, c reader) *Kernel {
	t.Helper()
	proc := t.TempDir()
	put(t, filepath.Join(proc, "1/ns/net"), "-> /proc/self/ns/net")
	sys := treeOf(t, "host.txtar")
	k := New(Options{SysRoot: sys.root, ProcRoot: proc, RunRoot: t.TempDir()})
	k.see = func(_ string, fn func(reader) error) error { return fn(c) }
	return k
}

// usesOf returns the uses as text, by VF.
func usesOf(t *testing.T, k *Kernel, vfs ...vf.PCIAddr) (map[vf.PCIAddr]string, error) {
	t.Helper()
	uses, err := k.Uses(t.Context(), vfs...)
	out := map[vf.PCIAddr]string{}
	for addr, use := range uses {
		out[addr] = use.String()
	}
	return out, err
}

// I2: Uses describes how the host's network uses a VF's interface. An interface that is only up or
// promiscuous is not used.
func TestI2UsesByTheHost(t *testing.T) {
	// The table of /proc/net/packet of Linux 6.12.
	const packets = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n" +
		"ffff9a7f06c0d000 3      3    0003   %d     1 0      0      27402\n"
	on := func(index int, prefix string) rtnl.Addr {
		return rtnl.Addr{Index: index, Prefix: netip.MustParsePrefix(prefix)}
	}
	for _, tt := range []struct {
		name    string
		link    rtnl.Link
		addrs   []rtnl.Addr
		uppers  []string
		packets int // the interface of a packet socket
		want    string
	}{
		{name: "down"},
		{name: "up and promiscuous", link: rtnl.Link{Up: true, Promisc: true}},
		{
			name: "an address", addrs: []rtnl.Addr{on(8, "10.8.0.1/24"), on(7, "10.9.0.1/24")},
			want: "the host uses it as enp1s0v0 with address 10.9.0.1/24",
		},
		{name: "an address of another interface", addrs: []rtnl.Addr{on(8, "10.8.0.1/24")}},
		{
			name: "a master", link: rtnl.Link{Master: 9},
			want: "the host uses it as enp1s0v0, a part of another interface",
		},
		{
			name: "a program of XDP", link: rtnl.Link{XDP: true},
			want: "an XDP program of the host runs on it as enp1s0v0",
		},
		{
			name: "two on top", uppers: []string{"upper_tag", "upper_mv", "lower_x", "queues"},
			want: "the host uses it as enp1s0v0 below mv, tag",
		},
		{
			name: "a reader", link: rtnl.Link{Up: true}, packets: 7,
			want: "a program of the host listens on it as enp1s0v0 (AF_PACKET)",
		},
		{name: "a reader while it is down", packets: 7},
		{name: "a reader of another interface", link: rtnl.Link{Up: true}, packets: 77},
		{name: "a reader of all interfaces", link: rtnl.Link{Up: true}, packets: 0},
	} {
		tt.link.Index, tt.link.Name = 7, "enp1s0v0"
		k := usedHost(t, addressed{told{tt.link}, tt.addrs})
		put(t, filepath.Join(k.proc, "1/net/packet"), fmt.Sprintf(packets, tt.packets))
		for _, name := range tt.uppers {
			put(t, filepath.Join(k.sys.root, "class/net/enp1s0v0", name, "ifindex"), "9\n")
		}
		addr := pciAddr(t, "01:10.0")
		got, err := usesOf(t, k, addr)
		want := map[vf.PCIAddr]string{}
		if tt.want != "" {
			want[addr] = tt.want
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v -want +got:\n%s", tt.name, err, diff)
		}
	}
}

// I2: a VF is used by a process that has it open, or that has its RDMA device open. Uses does not
// look at the interface of such a VF, which a driver may hold.
func TestI2UsesByProcesses(t *testing.T) {
	k := usedHost(t, told{})
	guest, rdma := pciAddr(t, "01:10.2"), pciAddr(t, "01:10.4")
	both, free := pciAddr(t, "05:00.2"), pciAddr(t, "02:00.0")
	bindVFIO(t, k.sys, guest, "77")
	put(t, k.sys.pciPath(rdma, "infiniband_verbs/uverbs0/dev"), "1:5\n") // that of /dev/zero
	put(t, k.sys.pciPath(both, "vfio-dev/vfio3/dev"), "511:3\n")
	put(t, k.sys.pciPath(both, "infiniband_verbs/uverbs1/dev"), "1:7\n") // that of /dev/full
	put(t, k.sys.pciPath(free, "infiniband_verbs/uverbs2/dev"), "1:9\n")
	put(t, k.sys.pciPath(rdma, "net/v1/ifindex"), "not read\n")
	links(t, k.proc, map[string]string{
		"100/fd/7": "/dev/vfio/77", "200/fd/3": "/dev/zero", "300/fd/3": "/dev/full",
		"400/fd/0": "/dev/null",
	})
	for pid, name := range map[string]string{"100": "qemu", "200": "ib_send_bw", "300": "dpdk"} {
		put(t, filepath.Join(k.proc, pid, "comm"), name+"\n")
	}
	got, err := usesOf(t, k, guest, rdma, both, free)
	want := map[vf.PCIAddr]string{
		guest: "open by qemu (process 100)", rdma: "open by ib_send_bw (process 200)",
		both: "open by dpdk (process 300)",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
}

// I2: the folder net of a VF stays when its interface leaves the host's netns, and is empty then. A
// VF without the folder has no interface.
func TestI2InterfaceElsewhereIsAUse(t *testing.T) {
	k := usedHost(t, told{})
	addr := pciAddr(t, "01:10.2")
	if got, err := usesOf(t, k, addr); len(got) > 0 || err != nil {
		t.Errorf("without an interface: %v, %v", got, err)
	}
	if err := os.Mkdir(k.sys.pciPath(addr, "net"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := usesOf(t, k, addr)
	if want := "its interface is in another network namespace"; got[addr] != want || err != nil {
		t.Errorf("%v, %v; want %s", got, err, want)
	}
}

// I7: Uses names the VFs that it could not look at, and returns the uses of the others.
func TestI7UnreadUseHidesNone(t *testing.T) {
	k := usedHost(t, told{})
	moved, broken, used := pciAddr(t, "01:10.0"), pciAddr(t, "01:10.2"), pciAddr(t, "05:00.2")
	put(t, k.sys.pciPath(broken, "net/v1/ifindex"), "many\n")
	if err := os.Mkdir(k.sys.pciPath(used, "net"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := usesOf(t, k, moved, broken, used)
	if len(got) != 1 || got[used] != "its interface is in another network namespace" {
		t.Errorf("%v", got)
	}
	for _, want := range []string{
		"look how VF 0000:01:10.0 is used: interface enp1s0v0 moved",
		"look how VF 0000:01:10.2 is used: ifindex of v1",
	} {
		checkSays(t, err, want)
	}
	if !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("of an interface that moves: %v", err)
	}
	k.see = func(string, func(reader) error) error { return unix.EPERM }
	if got, err := usesOf(t, k, moved); len(got) > 0 || !errors.Is(err, unix.EPERM) {
		t.Errorf("without the right to look: %v, %v", got, err)
	}
}

// namedNetns makes a network namespace at a path, and returns the file by which links are made in
// it.
func namedNetns(t *testing.T, path string) netlink.NsFd {
	t.Helper()
	if err := netns.New(path); errors.Is(err, unix.EPERM) {
		t.Skip("needs the right to make network namespaces")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Delete(path) })
	f, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return netlink.NsFd(f.Fd())
}

// I2: an interface of a pod that is on top of a VF's interface uses the VF. Uses does not mistake
// these for one: the peer of a veth, and an interface on top of one that has the same index in
// another netns.
func TestI2UsesFromAnotherNetns(t *testing.T) {
	const index = 1000 // of v0 in two netns
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, "run/netns", name) }
	k := usedHost(t, told{{Index: index, Name: "v0", Up: true}})
	k.proc, k.run = filepath.Join(dir, "proc"), filepath.Join(dir, "run")
	host, other := filepath.Join(dir, "host"), filepath.Join(dir, "other")
	named, unnamed := path("pod"), filepath.Join(dir, "container")
	namedNetns(t, host)
	namedNetns(t, other)
	namedPod, unnamedPod := namedNetns(t, named), namedNetns(t, unnamed)
	put(t, filepath.Join(k.proc, "1/ns/net"), "-> "+host)
	put(t, filepath.Join(k.proc, "20/ns/net"), "-> "+unnamed)
	put(t, filepath.Join(k.proc, "30/ns/net"), "-> "+filepath.Join(dir, "ended"))
	put(t, path("no-netns"), "")
	addr := pciAddr(t, "01:10.2")
	put(t, k.sys.pciPath(addr, "net/v0/ifindex"), fmt.Sprintln(index))

	add := func(in string, l netlink.Link) {
		t.Helper()
		if err := netns.Run(in, func() error { return netlink.LinkAdd(l) }); err != nil {
			t.Skipf("the kernel lacks veth or macvlan: %v", err)
		}
	}
	v0 := func(peer string) netlink.Link {
		a := netlink.LinkAttrs{Name: "v0", Index: index}
		return &netlink.Veth{LinkAttrs: a, PeerName: peer, PeerNamespace: namedPod}
	}
	onTop := func(name string, pod netlink.NsFd) netlink.Link {
		a := netlink.LinkAttrs{Name: name, ParentIndex: index, Namespace: pod}
		return &netlink.Macvlan{LinkAttrs: a, Mode: netlink.MACVLAN_MODE_BRIDGE}
	}
	check := func(when, want string) {
		t.Helper()
		got, err := usesOf(t, k, addr)
		if got[addr] != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", when, got[addr], err, want)
		}
	}
	add(host, v0("p0"))
	check("the peer of a veth", "")
	add(other, v0("p1"))
	add(other, onTop("mo", namedPod))
	check("on top of the link with that index in another netns", "")
	add(host, onTop("mv", namedPod))
	check("in a netns with a name", "mv in the network namespace "+named+" is on top of it as v0")
	add(host, onTop("mw", unnamedPod))
	process := filepath.Join(k.proc, "20/ns/net")
	check("in that of a process", "mw in the network namespace "+process+" is on top of it as v0")
}
