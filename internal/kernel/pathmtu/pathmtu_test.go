package pathmtu

import (
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestEcho(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	b := encodeEcho(four, 0x1234, 7, 33)
	if len(b) != 33 || b[0] != request4 || sumRFC1071(b) != 0 {
		t.Errorf("request: %x, checksum over all %x, which must be 0", b, sumRFC1071(b))
	}
	if isReply(b, four, 0x1234, 7) {
		t.Error("a request is taken for its answer, as lo shows it")
	}
	b[0] = reply4
	if !isReply(b, four, 0x1234, 7) || isReply(b, four, 0x1235, 7) || isReply(b, four, 0x1234, 8) || isReply(b, six, 0x1234, 7) || isReply(b[:7], four, 0x1234, 7) {
		t.Errorf("answers are not told apart: %x", b)
	}
	if b := encodeEcho(six, 1, 2, 8); b[0] != request6 {
		t.Errorf("request: %x", b)
	}
}

// busyTries is how often a packet is probed that gets through: on a busy machine its answer may
// come too late for a LAN. No answer is early.
const busyTries = 10

// TestPath tries both families over the two PFs of a node, which are on one
// wire: the second one in a netns of its own is the peer.
func TestPath(t *testing.T) {
	if os.Getenv("CULVERT_LAB_NODE") == "" {
		t.Skip("needs a lab node (tools/test-lab)")
	}
	sh := func(script string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "sh", "-ec", script).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	sh(`ip link set eth0 mtu 4000; ip addr add 10.7.0.1/24 dev eth0; ip addr add fd07::1/64 dev eth0 nodad
		ip netns add peer; ip link set eth1 mtu 4000; ip link set eth1 netns peer; ip -n peer link set eth1 up
		ip -n peer addr add 10.7.0.2/24 dev eth1; ip -n peer addr add fd07::2/64 dev eth1 nodad`)
	defer sh(`ip netns del peer`)
	for _, peer := range []string{"10.7.0.2", "fd07::2"} {
		addr := netip.MustParseAddr(peer)
		route, err := Find(addr)
		if err != nil || route.Device != "eth0" || route.MTU != 4000 || !route.Source.IsValid() || route.Gateway.IsValid() {
			t.Fatalf("%s: %+v %v", peer, route, err)
		}
		sh(`until ip netns exec peer ping -c 1 -W 1 10.7.0.1 && ip netns exec peer ping -c 1 -W 1 fd07::1; do :; done`) // carrier after the move
		for size, want := range map[int]bool{Least(addr): true, 4000: true, 4001: false} {
			got, err := Fits(t.Context(), addr, route.Device, size)
			for try := 1; want && !got && err == nil && try < busyTries; try++ {
				got, err = Fits(t.Context(), addr, route.Device, size)
			}
			if got != want || err != nil {
				t.Errorf("%s, %d bytes: %v %v", peer, size, got, err)
			}
		}
		sh(`ip -n peer link set eth1 mtu 1500`) // the emulated igb then drops what is longer than that and a VLAN tag
		largest, err := Largest(t.Context(), addr, route.Device, Least(addr), 4000)
		for try := 1; largest < 1500 && err == nil && try < busyTries; try++ {
			largest, err = Largest(t.Context(), addr, route.Device, Least(addr), 4000)
		}
		if err != nil || largest < 1500 || largest > 1530 {
			t.Errorf("%s: %d bytes get through to a peer of 1500: %v", peer, largest, err)
		}
		sh(`ip -n peer link set eth1 mtu 4000`)
	}
	nobody := netip.MustParseAddr("10.7.0.99")
	if ok, err := Fits(t.Context(), nobody, "eth0", 100); ok || err != nil && !strings.Contains(err.Error(), "host") {
		t.Errorf("nobody answers: %v %v", ok, err)
	}
	if _, err := Find(netip.MustParseAddr("198.51.100.1")); err == nil {
		t.Error("there is a way to nowhere")
	}
}
