package kernel_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/beacon"
	"github.com/culvert-net/culvert/internal/kernel/step"
)

func openBeacon(t *testing.T, name string) *beacon.Socket {
	t.Helper()
	s, err := beacon.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// hears sends a payload by one socket until the other socket has received it, at most n times.
func hears(t *testing.T, from, to *beacon.Socket, payload []byte, n int) bool {
	t.Helper()
	for range n {
		if err := from.Send(payload); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // between two tries
		got, _, err := to.Receive(64)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range got {
			if bytes.HasPrefix(p, payload) {
				return true
			}
		}
	}
	return false
}

// A PF hears another one on its hub, which the PFs of a fast node share. It hears what its VF sends
// too, so a pod can forge frames. Receive drops frames beyond the number that the caller asked for,
// and reports that it did.
func TestLabBeacon(t *testing.T) {
	n := labNode(t)
	s := n.bound(0, 0)
	n.do(step.SetUp{VF: s.PCI, Up: true})
	first, second, pod := openBeacon(t, n.pfs[0].Name), openBeacon(t, n.pfs[1].Name), openBeacon(t, s.Link.Name)
	if !hears(t, pod, first, []byte("of the VF"), 1500) {
		t.Fatal("the PF does not hear its VF")
	}
	if !hears(t, first, second, []byte("of the first PF"), 1500) || !hears(t, second, first, []byte("of the second PF"), 1500) {
		t.Error("a PF does not hear one on the same hub")
	}
	flooded := false
	for range 200 {
		for range 100 {
			_ = pod.Send([]byte("flood"))
		}
		got, more, err := first.Receive(8)
		if err != nil || len(got) > 8 {
			t.Fatalf("%d frames, %v", len(got), err)
		}
		if flooded = more; flooded {
			break
		}
	}
	if !flooded {
		t.Error("a flood is not reported")
	}
	if _, err := beacon.Open("nosuchdev"); err == nil {
		t.Error("there is no such netdevice")
	}
}
