package attach_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// I1: no request takes a VF that the kubelet has given to a pod, also when it names the
// VF. While the kubelet does not answer, no request takes any VF. The pod itself gets
// its VF.
func TestI1GivenByTheKubelet(t *testing.T) {
	_, n := newNode(t)
	req := everything(t)
	given := map[vf.PCIAddr]string{}
	var unknown error
	n.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
		return func(a vf.PCIAddr) string { return given[a] }, unknown
	}
	all := n.Inventory.PFs()
	for _, pf := range all {
		for _, v := range pf.VFs {
			given[v.PCI] = "default/b"
		}
	}
	if _, err := n.Engine.Attach(t.Context(), req); !errors.Is(err, vf.ErrNothingFree) || !strings.Contains(err.Error(), "pod default/b") {
		t.Errorf("all given: %v", err)
	}
	spare := all[1].VFs[3].PCI
	delete(given, spare)
	unknown = vf.ErrNotReady
	if _, err := n.Engine.Attach(t.Context(), req); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("unknown: %v", err)
	}
	named := req
	named.VF, named.Owner.UID, named.Netns = all[0].VFs[0].PCI, "b", podNetns
	named.Owner.Interface, named.Spec.Interface, named.Spec.MAC = "net2", "net2", nil
	if _, err := n.Engine.Attach(t.Context(), named); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("by name while the kubelet does not answer: %v", err)
	}
	unknown = nil
	named.Owner.Name = "default/thief"
	if _, err := n.Engine.Attach(t.Context(), named); !errors.Is(err, vf.ErrHeld) || !strings.Contains(err.Error(), "gave it to pod default/b") {
		t.Errorf("another pod names it: %v", err)
	}
	named.Owner.Name = "default/b"
	if rec, err := n.Engine.Attach(t.Context(), named); err != nil || rec.PCI != named.VF {
		t.Errorf("its own pod names it: %s %v", rec.PCI, err)
	}
	named.VF, named.Owner.UID, named.Network = spare, "b2", "blue"
	if _, err := n.Engine.Attach(t.Context(), named); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), "gave it to no pod") || !strings.Contains(err.Error(), "network blue") {
		t.Errorf("a pod names a VF that the kubelet gave to no pod: %v", err)
	}
	if rec, err := n.Engine.Attach(t.Context(), req); err != nil || rec.PCI != spare {
		t.Errorf("%s, %v; want %s", rec.PCI, err, spare)
	}
}

// A host without a kubelet gives a pod the VF that its network names: another runtime
// set it up, and no kubelet gives VFs out there.
func TestNamedVFWithoutAKubelet(t *testing.T) {
	_, n := newNode(t)
	n.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) { return nil, nil }
	req := everything(t)
	req.VF = n.Inventory.PFs()[1].VFs[3].PCI
	if rec, err := n.Engine.Attach(t.Context(), req); err != nil || rec.PCI != req.VF {
		t.Errorf("%s, %v; want %s", rec.PCI, err, req.VF)
	}
	if out, err := n.VFs.Outside(t.Context(), n.Inventory.PFs()[1].VFs[2].PCI); err != nil || len(out) > 0 {
		t.Errorf("%v, %v", out, err)
	}
}

// I1: culvertd asks the kubelet again after a wait, since the kubelet may have given
// the VF that the request waited for.
func TestI1GivenDuringAWait(t *testing.T) {
	_, n := newNode(t)
	var mu sync.Mutex // guards given and asked
	given, asked := map[vf.PCIAddr]string{}, 0
	n.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
		mu.Lock()
		defer mu.Unlock()
		now := maps.Clone(given)
		asked++
		return func(a vf.PCIAddr) string { return now[a] }, nil
	}
	var last vf.State
	for _, pf := range n.Inventory.PFs() {
		for _, v := range pf.VFs {
			given[v.PCI], last = "default/b", v
		}
	}
	delete(given, last.PCI)
	result := make(chan error, 1)
	_, err := n.VFs.WithIdle(t.Context(), last.ID, func(journal.Record) error {
		go func() {
			_, err := n.Engine.Attach(t.Context(), everything(t))
			result <- err
		}()
		for waits := false; !waits; time.Sleep(time.Millisecond) {
			mu.Lock()
			waits = asked > 1 // WithIdle asked, and then the attach
			mu.Unlock()
		}
		time.Sleep(500 * time.Millisecond) // from the answer to the wait for the VF: microseconds on an idle machine
		mu.Lock()
		given[last.PCI] = "default/b"
		mu.Unlock()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-result; !errors.Is(err, vf.ErrNothingFree) {
		t.Errorf("the VF was given while it was waited for, and the attach says %v", err)
	}
	if asked != 3 {
		t.Errorf("the kubelet was asked %d times, want once by WithIdle, and by the attach before and after its wait", asked)
	}
}

// I1: culvertd neither rebinds nor probes a free VF that the kubelet gave to a pod or
// that a process has open. The same holds where culvertd cannot find out.
func TestI1WithIdleLeavesUsedVFsAlone(t *testing.T) {
	k, n := newNode(t)
	free := n.Inventory.PFs()[0].VFs[0]
	idle := func() bool {
		ran, err := n.VFs.WithIdle(t.Context(), free.ID, func(journal.Record) error { return nil })
		if err != nil {
			t.Error(err)
		}
		return ran
	}
	if !idle() {
		t.Error("a VF that is not used was left alone")
	}
	pod, unknown := "default/dpdk", error(nil)
	n.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
		return func(vf.PCIAddr) string { return pod }, unknown
	}
	if idle() {
		t.Error("given by the kubelet, and worked on")
	}
	pod, unknown = "", vf.ErrNotReady
	if idle() {
		t.Error("the kubelet does not answer, and the VF was worked on")
	}
	unknown = nil
	n.VFs.Now = func() time.Time { return time.Now().Add(time.Minute) }
	if !idle() {
		t.Error("the kubelet answers again, and the VF was left alone")
	}
	if err := k.Meddle(free.PCI, func(st *vf.State) { st.Driver = vf.DriverVFIO }); err != nil {
		t.Fatal(err)
	}
	if err := k.Open(free.PCI, vf.Process{PID: 4711, Name: "qemu"}); err != nil {
		t.Fatal(err)
	}
	if idle() {
		t.Error("open in a process, and worked on")
	}
}
