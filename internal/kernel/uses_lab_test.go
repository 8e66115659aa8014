package kernel_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	xdp "github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// I2: Uses names who uses a VF's interface. One that is up without more is not used, and neither is
// one after its use has ended.
func TestLabI2Uses(t *testing.T) {
	n := labNode(t)
	v := n.bound(0, 0)
	name, pod := v.Link.Name, n.netns("uses")
	use := func() string {
		t.Helper()
		uses, err := n.Uses(n.context(), v.PCI)
		if err != nil {
			t.Fatal(err)
		}
		if uses[v.PCI] == (vf.Use{}) {
			return ""
		}
		return uses[v.PCI].String()
	}
	ip := func(commands ...string) {
		t.Helper()
		for _, c := range commands {
			if out, err := exec.Command("ip", strings.Fields(strings.ReplaceAll(c, "DEV", name))...).CombinedOutput(); err != nil {
				t.Fatalf("ip %s: %v: %s", c, err, out)
			}
		}
	}
	for _, tt := range []struct {
		begin, end []string
		want       string
	}{
		{[]string{"link set DEV up"}, []string{"link set DEV down"}, ""},
		{[]string{"address add 10.9.0.1/24 dev DEV"}, []string{"address flush dev DEV"}, "with address 10.9.0.1/24"},
		{[]string{"link add link DEV name tag type vlan id 5"}, []string{"link del tag"}, "below tag"},
		{[]string{"link add link DEV name mv type macvlan"}, []string{"link del mv"}, "below mv"},
		{[]string{"link add link DEV name mt type macvtap"}, []string{"link del mt"}, "below mt"},
		{[]string{"link add link DEV name iv type ipvlan"}, []string{"link del iv"}, "below iv"},
		{[]string{"link add ubridge type bridge", "link set DEV master ubridge"}, []string{"link del ubridge"}, "a part of another interface"},
		{[]string{"link add ubond type bond", "link set DEV master ubond"}, []string{"link set DEV nomaster", "link del ubond", "link set DEV down"}, "a part of another interface"},
		{[]string{"link add ubond type bond", "link set DEV master ubond", "link set ubond up", "link add link ubond name ubond.7 type vlan id 7"}, []string{"link set DEV nomaster", "link del ubond", "link set DEV down"}, "a part of another interface"},
		{[]string{"link add link DEV name tag type vlan id 5", "link set tag netns uses", "link set DEV up"}, []string{"-n uses link del tag", "link set DEV down"}, "tag in the network namespace " + pod},
		{[]string{"link add link DEV name mv type macvlan", "link set mv netns uses", "link set DEV up"}, []string{"-n uses link del mv", "link set DEV down"}, "mv in the network namespace " + pod},
		{[]string{"link set DEV promisc on", "link set DEV up"}, []string{"link set DEV promisc off", "link set DEV down"}, ""},
	} {
		ip(tt.begin...)
		if got := use(); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("after ip %s: %q, want %q", tt.begin, got, tt.want)
		}
		ip(tt.end...)
		if got := use(); got != "" {
			t.Errorf("after ip %s: %q", tt.end, got)
		}
	}
	n.do(step.Move{VF: v.PCI, To: pod, Name: "net1"})
	if got := use(); got != "its interface is in another network namespace" {
		t.Errorf("in another netns: %q", got)
	}
	n.do(step.Move{VF: v.PCI, From: pod, Name: name})
	if got := use(); got != "" {
		t.Errorf("back on the host: %q", got)
	}
	n.do(step.Unbind{VF: v.PCI})
	if got := use(); got != "" {
		t.Errorf("without a driver: %q", got)
	}
}

// I2: programs that read from a VF's interface by AF_PACKET or XDP use it.
func TestLabI2UsesByPrograms(t *testing.T) {
	n := labNode(t)
	v := n.bound(0, 0)
	check := func(when, want string) {
		t.Helper()
		uses, err := n.Uses(n.context(), v.PCI)
		if got := uses[v.PCI].How; err != nil || !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, %v; want %q", when, got, err, want)
		}
	}
	n.do(step.SetUp{VF: v.PCI, Up: true})
	socket := func(index int) func() {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 0x0300, Ifindex: index}); err != nil {
			t.Fatal(err)
		}
		return func() { _ = unix.Close(fd) }
	}
	end := socket(0)
	check("a program reads from all interfaces", "")
	end()
	end = socket(v.Link.Index)
	check("a program reads from this one", "AF_PACKET")
	end()
	check("it has ended", "")

	pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer pass.Close()
	on, err := xdp.AttachXDP(xdp.XDPOptions{Program: pass, Interface: v.Link.Index, Flags: xdp.XDPGenericMode})
	if err != nil {
		t.Fatal(err)
	}
	check("an XDP program runs", "XDP")
	if err := on.Close(); err != nil {
		t.Fatal(err)
	}
	check("it was removed", "")
	n.do(step.SetUp{VF: v.PCI}, step.Unbind{VF: v.PCI})
}
