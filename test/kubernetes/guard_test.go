//go:build kubernetes

package kubernetes

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/soak"
)

// I9: a pod with the capabilities that containerd grants by default sends packets with another
// host's address. They arrive in a network without a guard. In a network with a guard only those
// with the pod's own address do, also after culvertd was killed. The pod gets the event
// GuardNotEnforced, since a container with NET_RAW has other ways to forge packets. A pod without
// NET_RAW gets no event, and cannot open a raw socket.
func TestI9GuardedPodCannotForge(t *testing.T) {
	soak.Only(t, "pods start, and culvertd again; internal/kernel/guard and test/torture send forged packets in a node")
	networks(t)
	objects, err := os.ReadFile("testdata/guarded.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, string(objects))
	const both = "guarded,open"
	quiet := strings.Replace(pod("quiet", "worker01", both), "command:", "securityContext: {capabilities: {drop: [NET_RAW]}}, command:", 1)
	apply(t, pod("forger", "worker01", both)+quiet+pod("victim", "worker02", both))
	has := map[string][]netip.Addr{} // of each pod: in guarded, in open
	for _, p := range running(t, 3) {
		if has[p.Metadata.Name], err = addresses(p); err != nil || len(has[p.Metadata.Name]) != 2 {
			t.Fatalf("pod %s has %v: %v", p.Metadata.Name, has[p.Metadata.Name], err)
		}
	}
	kubectl(t, "exec", "victim", "--", "sh", "-c", "socat -u UDP4-RECV:7000 CREATE:/tmp/heard >/dev/null 2>&1 </dev/null &")
	eventually(t, "the victim listens", func() error {
		_, err := k8s.Kubectl(t.Context(), "exec", "victim", "--", "grep", "-q", ":1B58 ", "/proc/net/udp")
		return err
	})
	// hears sends a packet from a forged address, and after it one from the pod's own, until the
	// victim has received the wanted ones. It returns all that the victim has received.
	hears := func(network int, round string, wanted ...string) (heard string) {
		t.Helper()
		from, to := has["forger"][network], has["victim"][network]
		stranger := netip.AddrFrom4([4]byte{10, 97, 70 + byte(network), 200})
		eventually(t, "the packets "+strings.Join(wanted, " and ")+" in "+round+" arrive", func() error {
			if out, err := k8s.Kubectl(t.Context(), "exec", "forger", "--", "bash", "-c", rawSender(stranger, to, "forged in "+round+"\n")+"; "+rawSender(from, to, "honest in "+round+"\n")); err != nil {
				t.Fatalf("send from %s and %s: %v: %s", stranger, from, err, out)
			}
			heard = kubectl(t, "exec", "victim", "--", "cat", "/tmp/heard")
			for _, w := range wanted {
				if !strings.Contains(heard, w+" in "+round+"\n") {
					return fmt.Errorf("the victim has heard %q", heard)
				}
			}
			return nil
		})
		return heard
	}
	hears(1, "open", "honest", "forged") // otherwise the test would prove nothing
	if heard := hears(0, "guarded", "honest"); strings.Contains(heard, "forged in guarded\n") {
		t.Errorf("a forged packet passed the guard: %q", heard)
	}
	killed := strings.TrimSpace(on(t, "worker01", `pid=$(pgrep -xo culvertd); kill -9 "$pid"; echo "$pid"`))
	if heard := hears(0, "culvertd killed", "honest"); strings.Contains(heard, "forged in culvertd killed\n") {
		t.Errorf("a forged packet passed the guard after culvertd (%s) was killed: %q", killed, heard)
	}
	out, err := k8s.Kubectl(t.Context(), "exec", "quiet", "--", "bash", "-c", rawSender(has["forger"][0], has["victim"][0], "quiet\n"))
	if err == nil || !strings.Contains(fmt.Sprint(string(out), err), "not permitted") {
		t.Errorf("a pod without NET_RAW opens a raw socket: %v: %s", err, out)
	}
	eventually(t, "the pod with NET_RAW is warned, and no other", func() error {
		got := kubectl(t, "get", "events", "--field-selector", "reason=GuardNotEnforced", "-o", `jsonpath={range .items[*]}{.involvedObject.name}: {.message}{"\n"}{end}`)
		var warned []string
		for line := range strings.Lines(got) {
			name, message, _ := strings.Cut(line, ": ")
			if !strings.Contains(message, "network default/guarded: guard ip is partly enforced") {
				t.Errorf("the event of pod %s is %q", name, message)
			}
			warned = append(warned, name)
		}
		slices.Sort(warned)
		if want := []string{"forger", "victim"}; !slices.Equal(slices.Compact(warned), want) {
			return fmt.Errorf("pods %q are warned, not %q", warned, want)
		}
		return nil
	})
	eventually(t, "culvertd runs again, and tells of the guards", func() error {
		degrees, err := tryOn("worker01", `set -o pipefail; culvert vf list -o json | jq -r '.[] | select(.guard) | "\(.owner.name) \(.guard.mode) \(.guard.degree)"' | sort`)
		if err == nil && degrees != "default/forger ip partly\ndefault/quiet ip enforced\n" {
			err = fmt.Errorf("culvert vf list says of the guards: %q", degrees)
		}
		return err
	})
	checkSandbox(t, "worker01", "forger")
	feed(t, pod("forger", "", "")+pod("quiet", "", "")+pod("victim", "", ""), "delete", "--wait", "-f", "-")
	allFree(t, allVFs)
}

// rawSender returns a shell command that sends a UDP packet to port 7000 from an address that need
// not be the pod's, by a raw socket with IP_HDRINCL (ip(7), option 3 of level 0). The kernel fills in
// the length and the checksum of the IP header. The packet goes through a file: bash writes a pipe
// line by line, a byte of an address may be a newline, and socat sends what one read returns.
func rawSender(from, to netip.Addr, text string) string {
	packet := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0}
	packet = append(packet, from.AsSlice()...)
	packet = append(packet, to.AsSlice()...)
	packet = append(packet, 0x1b, 0x58, 0x1b, 0x58, 0, byte(8+len(text)), 0, 0)
	var escaped strings.Builder
	for _, b := range append(packet, text...) {
		fmt.Fprintf(&escaped, `\x%02x`, b)
	}
	return "printf '" + escaped.String() + "' >/tmp/packet && socat -u OPEN:/tmp/packet IP4-SENDTO:" + to.String() + ":255,setsockopt-int=0:3:1"
}
