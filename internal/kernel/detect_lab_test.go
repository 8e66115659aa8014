package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// detectionOf returns the kernel's parameters of duplicate address detection of net1 in a netns.
func detectionOf(t *testing.T, path string) (out string) {
	t.Helper()
	err := netns.Run(path, func() error {
		for _, file := range []string{"conf/net1/router_solicitation_delay", "conf/net1/dad_transmits", "neigh/net1/retrans_time_ms"} {
			b, err := os.ReadFile("/proc/sys/net/ipv6/" + file)
			if err != nil {
				return err
			}
			out += string(b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The kernel finds the addresses that other VFs on the segment have, on the VF's own PF and on the
// other PF, in one wait. The pod can use the other addresses.
func TestLabDetectDuplicates(t *testing.T) {
	n := labNode(t)
	own, near, far := n.bound(0, 0), n.bound(0, 1), n.bound(1, 0)
	pod := n.netns("pod")
	for i, other := range []vf.State{near, far} {
		path := n.netns(fmt.Sprintf("other%d", i))
		n.do(step.Move{VF: other.PCI, To: path, Name: "net1"}, step.SetUp{VF: other.PCI, Netns: path, Up: true},
			step.AddAddress{VF: other.PCI, Netns: path, Address: prefix(fmt.Sprintf("fd00::%d/64", i+1))},
			step.Announce{VF: other.PCI, Netns: path}) // waits for carrier
	}
	n.do(step.Move{VF: own.PCI, To: pod, Name: "net1"})
	usual := detectionOf(t, pod)
	n.do(step.SetUp{VF: own.PCI, Netns: pod, Up: true})
	var all []netip.Prefix
	for i := range 4 {
		all = append(all, prefix(fmt.Sprintf("fd00::%d/64", i+1)))
		n.do(step.AddAddress{VF: own.PCI, Netns: pod, Address: all[i], Detect: true})
	}
	if now := detectionOf(t, pod); now != "0\n3\n100\n" {
		t.Errorf("while Culvert waits the parameters are %q", now)
	}
	start := time.Now()
	err := n.Do(n.context(), step.DetectDuplicates{VF: own.PCI, Netns: pod, Addresses: all})
	t.Logf("%7.1f ms  with the wait for carrier", float64(time.Since(start).Microseconds())/1000)
	var found vf.DuplicateError
	if !errors.As(err, &found) || !errors.Is(err, vf.ErrDuplicate) {
		t.Fatalf("detect duplicates: %v", err)
	}
	same := cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})
	less := cmpopts.SortSlices(func(a, b netip.Addr) bool { return a.Less(b) })
	if diff := cmp.Diff([]netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")}, found.Addresses, same, less); diff != "" {
		t.Errorf("duplicates (-want +got): %s", diff)
	}
	st := n.vf(0, 0, pod)
	if len(st.Link.Duplicates) != 2 || len(st.Link.Tentative) != 0 || len(st.Link.Addrs) != 4 {
		t.Errorf("as read: %+v", st.Link)
	}
	if now := detectionOf(t, pod); now != usual {
		t.Errorf("the parameters are %q, and were %q", now, usual)
	}
	n.do(step.DelAddress{VF: own.PCI, Netns: pod, Address: all[0]}, step.DelAddress{VF: own.PCI, Netns: pod, Address: all[1]})
	more := prefix("fd00::9/64")
	n.do(step.AddAddress{VF: own.PCI, Netns: pod, Address: more, Detect: true})
	start = time.Now()
	n.do(step.DetectDuplicates{VF: own.PCI, Netns: pod, Addresses: append(all[2:], more)})
	t.Logf("%7.1f ms  with carrier", float64(time.Since(start).Microseconds())/1000)
	if st := n.vf(0, 0, pod); len(st.Link.Duplicates)+len(st.Link.Tentative) != 0 {
		t.Errorf("as read: %+v", st.Link)
	}
}

// Duplicate address detection on a link without carrier has no result. The kernel continues it when
// the link gets carrier.
func TestLabDetectionWithoutCarrier(t *testing.T) {
	n := labNode(t)
	own, other := n.bound(0, 0), n.bound(1, 0)
	pod, far := n.netns("pod"), n.netns("far")
	address := prefix("fd00::1/64")
	n.do(step.Move{VF: other.PCI, To: far, Name: "net1"}, step.SetUp{VF: other.PCI, Netns: far, Up: true},
		step.AddAddress{VF: other.PCI, Netns: far, Address: address}, step.Announce{VF: other.PCI, Netns: far})
	n.do(step.Move{VF: own.PCI, To: pod, Name: "net1"}, step.AddAddress{VF: own.PCI, Netns: pod, Address: address, Detect: true})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	s := step.DetectDuplicates{VF: own.PCI, Netns: pod, Addresses: []netip.Prefix{address}}
	if err := n.Do(ctx, s); !errors.Is(err, vf.ErrTimeout) {
		t.Errorf("on a link that is down: %v", err)
	}
	if st := n.vf(0, 0, pod); len(st.Link.Tentative) != 1 || len(st.Link.Duplicates) != 0 {
		t.Errorf("on a link that is down: %+v", st.Link)
	}
	// Only one probe is left after that, and a frame may be lost while a link comes up.
	if err := netns.Run(pod, func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/net1/dad_transmits", []byte("3"), 0) }); err != nil {
		t.Fatal(err)
	}
	n.do(step.SetUp{VF: own.PCI, Netns: pod, Up: true})
	if err := n.Do(n.context(), s); !errors.Is(err, vf.ErrDuplicate) {
		t.Errorf("once it is up: %v", err)
	}
}
