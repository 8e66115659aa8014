package bpf

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// counting counts every packet, and returns an action.
func counting(a Action) func(Counter) asm.Instructions {
	return func(c Counter) asm.Instructions {
		lost := Next.Return()
		lost[0] = lost[0].WithSymbol("lost")
		return slices.Concat(c.Add("lost"), a.Return(), lost)
	}
}

// soon is longer than a datagram needs on a loopback interface, and patience is long enough on a
// busy machine.
const soon, patience = 200 * time.Millisecond, 5 * time.Minute

// datagrams sends a number of datagrams over the loopback interface of the thread's network
// namespace, and returns how many arrived within the given time.
func datagrams(count int, while time.Duration) (arrived int, err error) {
	to, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer to.Close()
	from, err := net.Dial("udp", to.LocalAddr().String())
	if err != nil {
		return 0, err
	}
	defer from.Close()
	for range count {
		if _, err := from.Write([]byte("x")); err != nil {
			return 0, err
		}
	}
	if err := to.SetReadDeadline(time.Now().Add(while)); err != nil {
		return 0, err
	}
	for one := make([]byte, 1); arrived < count; arrived++ {
		if _, _, err := to.ReadFrom(one); errors.Is(err, os.ErrDeadlineExceeded) {
			break
		} else if err != nil {
			return 0, err
		}
	}
	return arrived, nil
}

// A program counts the packets that an interface receives and decides their fate before the
// programs that were attached earlier. After Close it does neither.
func TestAttachIngress(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("making network namespaces and loading eBPF needs root")
	}
	path := filepath.Join(t.TempDir(), "netns")
	if err := netns.New(path); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := netns.Delete(path); err != nil {
			t.Error(err)
		}
	}()
	err := netns.Run(path, func() error {
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		lo, err := net.InterfaceByName("lo")
		if err != nil {
			return err
		}
		passing, err := AttachIngress(lo.Index, counting(Next))
		if err != nil {
			return err
		}
		defer passing.Close()
		if arrived, err := datagrams(3, patience); err != nil || arrived != 3 {
			t.Errorf("%d of 3 arrived past a program that lets them through: %v", arrived, err)
		}
		dropping, err := AttachIngress(lo.Index, counting(Drop))
		if err != nil {
			return err
		}
		if arrived, err := datagrams(5, soon); err != nil || arrived != 0 {
			t.Errorf("%d of 5 arrived past a program that drops them: %v", arrived, err)
		}
		first, err := dropping.Count()
		for end := time.Now().Add(patience); first < 5 && err == nil && time.Now().Before(end); first, err = dropping.Count() {
			time.Sleep(time.Millisecond)
		}
		if err := errors.Join(err, dropping.Close()); err != nil {
			return err
		}
		if arrived, err := datagrams(1, patience); err != nil || arrived != 1 {
			t.Errorf("%d of 1 arrived after the program was closed: %v", arrived, err)
		}
		second, err := passing.Count()
		if first != 5 || second != 4 {
			t.Errorf("counted %d and %d, want 5, and 4 behind it", first, second)
		}
		return err
	})
	if errors.Is(err, ebpf.ErrNotSupported) {
		t.Skip(err) // before Linux 6.6
	}
	if err != nil {
		t.Fatal(err)
	}
}

// AttachIngress of an interface that does not exist fails with an error that names it.
func TestAttachIngressNowhere(t *testing.T) {
	i, err := AttachIngress(1<<30, counting(Next))
	if err == nil {
		t.Fatalf("attached to an interface that is not there: %v", i.Close())
	}
	if !strings.Contains(err.Error(), strconv.Itoa(1<<30)) {
		t.Errorf("the error does not name the interface: %v", err)
	}
}
