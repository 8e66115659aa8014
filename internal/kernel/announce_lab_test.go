package kernel_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/neigh"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// The PF hears what its VF announces: the NIC switches between them.
func TestLabAnnounce(t *testing.T) {
	n := labNode(t)
	s := n.bound(0, 0)
	pod := n.netns("pod")
	addrs := []netip.Prefix{prefix("10.56.0.10/24"), prefix("fd00::10/64")}
	n.do(step.Move{VF: s.PCI, To: pod, Name: "net1"}, step.SetUp{VF: s.PCI, Netns: pod, Up: true})
	err := netns.Run(pod, func() error { // as the SR-IOV CNI plugin sets them
		for _, path := range []string{"/proc/sys/net/ipv4/conf/net1/arp_notify", "/proc/sys/net/ipv6/conf/net1/ndisc_notify"} {
			if have, err := os.ReadFile(path); err != nil || string(have) != "1\n" {
				t.Errorf("%s is %q, %v", path, have, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		n.do(step.AddAddress{VF: s.PCI, Netns: pod, Address: a})
	}
	fd := listen(t, n.pfs[0].Name)
	n.timed(step.Announce{VF: s.PCI, Netns: pod, Addresses: addrs})

	missing := map[netip.Addr]bool{}
	for _, a := range addrs {
		missing[a.Addr()] = true
	}
	buf := make([]byte, 2048)
	for len(missing) > 0 {
		c, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			t.Fatalf("not heard: %v (%v)", missing, err)
		}
		for a := range missing {
			if bytes.HasPrefix(buf[:c], neigh.Frame(s.Link.MAC, a)) {
				delete(missing, a)
			}
		}
	}
}

// listen opens a packet socket on a netdevice that gives up after 30 s.
func listen(t *testing.T, name string) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0x0300) // ETH_P_ALL, big endian
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 30}); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, name); err != nil {
		t.Fatal(err)
	}
	return fd
}

// A VF that is down never gets carrier: the wait ends with the context.
func TestLabAnnounceWithoutCarrier(t *testing.T) {
	n := labNode(t)
	s := n.bound(0, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := n.Do(ctx, step.Announce{VF: s.PCI, Addresses: []netip.Prefix{prefix("10.0.0.1/24")}})
	if !errors.Is(err, vf.ErrTimeout) {
		t.Errorf("announcing on a link that is down: %v", err)
	}
}

func TestLabWaitCarrier(t *testing.T) {
	n := bareNode(t)
	n.timed(step.WaitCarrier{PF: n.pfs[0].PCI})
	n.timed(step.SetPFMTU{PF: n.pfs[0].PCI, MTU: 9000})
	n.timed(step.WaitCarrier{PF: n.pfs[0].PCI})
	if pf, err := n.PF(n.context(), n.pfs[0].PCI); err != nil || pf.MTU != 9000 {
		t.Errorf("%+v, %v", pf, err)
	}
	n.do(step.SetPFMTU{PF: n.pfs[0].PCI, MTU: 1500}, step.WaitCarrier{PF: n.pfs[0].PCI})
}
