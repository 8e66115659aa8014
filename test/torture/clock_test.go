package torture

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/soak"
)

// jump sets the machine's clock ahead, or back.
func jump(t *testing.T, by time.Duration) {
	t.Helper()
	tv := unix.NsecToTimeval(time.Now().Add(by).UnixNano())
	if err := unix.Settimeofday(&tv); err != nil {
		t.Fatal(err)
	}
}

// I3 I6: the clock jumps while pods attach and detach, and while a VF waits in
// quarantine. No attach or detach fails because of that, and the VF does not
// wait for years.
func TestClockJumps(t *testing.T) {
	soak.Only(t, "two quarantines that end by themselves; TestI7ClockThatWasSetBack of internal/node/attach sets a clock back")
	k := inNode(t)
	d := newDaemon(t, hostYAML)
	for _, by := range []time.Duration{-90 * 24 * time.Hour, 91 * 24 * time.Hour} {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			h := holdTwo(t, k, d, 0)
			quarantined := quarantine(t, h)
			done := make(chan error, 1)
			go func() {
				for range 3 {
					if _, err := h.cni(t.Context(), "DEL", h.pods[1]); err != nil {
						done <- err
						return
					}
					if _, err := h.cni(t.Context(), "ADD", h.pods[1]); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
			jump(t, by)
			if err := <-done; err != nil {
				t.Error(err)
			}
			h.mustCNI(t, "CHECK", h.pods[1])
			run(t, "ip", "link", "delete", quarantined)
			took := eventually(t, 2*time.Minute, func() error { return d.settled(t.Context()) })
			t.Logf("%8s  from the jump until the VF was out of quarantine", took.Round(time.Millisecond))
			h.mustCNI(t, "DEL", h.pods[1])
			wholeAgain(t, d, k, h.before)
		})
	}
}

// quarantine ends the first pod with a reset that fails, since another
// interface has the name of its VF. It returns that name.
func quarantine(t *testing.T, h *held) string {
	t.Helper()
	name := h.before[h.pf.VFs[0].ID].Link.Name
	run(t, "ip", "link", "add", name, "type", "dummy")
	h.mustCNI(t, "DEL", h.pods[0])
	h.event(t, h.begin, h.seq, "Quarantined", "VF "+h.vfs[0].String(), name)
	for _, rec := range h.leases(t).records {
		if rec.PCI == h.vfs[0] && rec.Phase != vf.PhaseQuarantined {
			t.Errorf("VF %s is %s", rec.PCI, rec.Phase)
		}
	}
	return name
}
