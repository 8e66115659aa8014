package gather

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/vf"
)

// The status has the counters of the netdevice in the pod. It has those of the PF's driver for the
// guest's VF, which has no netdevice. Where the driver has none, the VF has no counters.
func TestTraffic(t *testing.T) {
	h := newHost(t)
	inPod, ofGuest := vf.Traffic{RxBytes: 7, TxDropped: 2}, vf.Traffic{TxBytes: 9}
	if err := h.kernel.Meddle(h.net.PCI, func(st *vf.State) { st.Link.Traffic = inPod }); err != nil {
		t.Fatal(err)
	}
	_, at := h.readStatus(t)
	if got := at(h.net.PCI).Traffic; got == nil || *got != inPod {
		t.Errorf("the pod's VF: %+v", got)
	}
	if got := at(h.user.PCI).Traffic; got != nil {
		t.Errorf("the guest's VF, at a driver without counters: %+v", got)
	}
	if err := h.kernel.CountVF(h.user.PCI, ofGuest); err != nil {
		t.Fatal(err)
	}
	_, at = h.readStatus(t)
	if got := at(h.user.PCI).Traffic; got == nil || *got != ofGuest {
		t.Errorf("the guest's VF: %+v", got)
	}
}

// Counters that cannot be read are absent, and the status is there.
func TestTrafficThatCannotBeRead(t *testing.T) {
	h := newHost(t)
	if err := h.kernel.CountVF(h.user.PCI, vf.Traffic{TxBytes: 9}); err != nil {
		t.Fatal(err)
	}
	k := faulty.New(h.kernel)
	h.Kernel = k
	k.FailReads(func(_ context.Context, r faulty.Reading) error {
		if r.Kind == faulty.ReadVFTraffic {
			return errors.New("the NIC is busy")
		}
		return nil
	})
	_, at := h.readStatus(t)
	if got := at(h.user.PCI); got.Traffic != nil || got.Owner == nil {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(h.log.String(), "the NIC is busy") {
		t.Errorf("logged: %s", h.log.String())
	}
}
