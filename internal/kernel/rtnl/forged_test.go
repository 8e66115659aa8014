package rtnl

import (
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// A container with CAP_NET_ADMIN can write to any netlink socket of its netns, where Culvert has
// one while it attaches. Culvert does not take a message of the container for an answer.
func TestForgedAnswersAreDropped(t *testing.T) {
	c, err := Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	forger, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(forger)
	for seq := uint32(1); seq <= 3; seq++ {
		b := Request{Type: unix.RTM_NEWLINK, Body: AppendString(linkHeader(1, 0, 0), unix.IFLA_IFNAME, "forged")}.encodeRequest(seq)
		binary.NativeEndian.PutUint32(b[12:], c.pid)
		err := unix.Sendto(forger, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: c.pid})
		if errors.Is(err, unix.EPERM) {
			t.Skip("needs CAP_NET_ADMIN to forge")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	l, err := c.LinkNamed("lo")
	if err != nil || l.Name != "lo" {
		t.Errorf("the link is %q, %v", l.Name, err)
	}
}
