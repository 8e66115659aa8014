package attach_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// keepBusy starts work on a free VF that lasts until release is called.
func keepBusy(t *testing.T, n *node.Node, id vf.ID) (release func()) {
	t.Helper()
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ran, err := n.VFs.WithIdle(t.Context(), id, func(journal.Record) error {
			close(begun)
			<-end
			return nil
		})
		if err != nil || !ran {
			t.Errorf("work on VF %s: %v, %v", id, ran, err)
		}
	}()
	select {
	case <-begun:
	case <-ended:
		t.FailNow()
	}
	return func() {
		close(end)
		<-ended
	}
}

// newBusyNode returns a node that can give its VFs idleSoon and hangs only, and on which other work has
// both. foundBusy is closed when an attach has tried both.
func newBusyNode(t *testing.T, first, second int) (n *node.Node, idleSoon, hangs vf.State, foundBusy chan struct{}) {
	t.Helper()
	_, n = newNode(t)
	all := n.Inventory.PFs()[0].VFs
	idleSoon, hangs, foundBusy = all[first], all[second], make(chan struct{})
	var asked atomic.Int32
	n.VFs.Given = func(context.Context) (func(vf.PCIAddr) string, error) {
		return func(a vf.PCIAddr) string {
			if a == idleSoon.PCI || a == hangs.PCI {
				return ""
			}
			// The attach looks at each VF when it chooses: once for each of the two, and once without them.
			if a == all[2].PCI && asked.Add(1) == 3 {
				close(foundBusy)
			}
			return "default/b"
		}, nil
	}
	return n, idleSoon, hangs, foundBusy
}

// An attach that finds all VFs busy gets the first one that is idle. It does not wait for the work
// on the others, which may hang.
func TestAttachWaitsForOneBusyVF(t *testing.T) {
	for name, order := range map[string][2]int{"the first": {0, 1}, "the second": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			n, idleSoon, hangs, foundBusy := newBusyNode(t, order[0], order[1])
			release, releaseHung := keepBusy(t, n, idleSoon.ID), keepBusy(t, n, hangs.ID)
			type outcome struct {
				rec journal.Record
				err error
			}
			result := make(chan outcome, 1)
			go func() {
				rec, err := n.Engine.Attach(t.Context(), everything(t))
				result <- outcome{rec, err}
			}()
			select {
			case <-foundBusy:
			case got := <-result:
				t.Errorf("with both VFs busy: %s, %v", got.rec.PCI, got.err)
			}
			release()
			select {
			case got := <-result:
				if got.err != nil || got.rec.PCI != idleSoon.PCI {
					t.Errorf("%s, %v; want VF %s", got.rec.PCI, got.err, idleSoon.PCI)
				}
				releaseHung()
			case <-time.After(5 * time.Minute):
				t.Errorf("VF %s is idle, and the attach waits for VF %s", idleSoon.PCI, hangs.PCI)
				releaseHung()
				<-result
			}
		})
	}
}

// The error of an attach whose caller disconnects while all VFs are busy names a VF and its work.
func TestAttachNamesABusyVF(t *testing.T) {
	n, one, other, _ := newBusyNode(t, 0, 1)
	release, releaseOther := keepBusy(t, n, one.ID), keepBusy(t, n, other.ID)
	defer releaseOther()
	defer release()
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errHungUp)
	_, err := n.Engine.Attach(gone, everything(t))
	want := "VF " + one.ID.String() + " may be free soon, culvertd's work on a VF that is free has not ended: "
	if !errors.Is(err, errHungUp) || !errors.Is(err, vf.ErrNothingFree) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
}
