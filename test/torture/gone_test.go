package torture

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/vf"
)

// held has two pods on VFs of one PF.
type held struct {
	*daemon
	kernel *kernel.Kernel
	before clean
	pf     vf.PF
	pods   [2]pod
	vfs    [2]vf.PCIAddr
	seq    uint64
	begin  time.Time
}

// TestForeignHands changes NICs and VFs outside Culvert while pods have VFs.
// One culvertd runs through all stories; after each of them the node is as it
// was before.
func TestForeignHands(t *testing.T) {
	k := inNode(t)
	d := newDaemon(t, hostYAML)
	for _, story := range []struct {
		name string
		pf   int // whose VFs the pods have
		tell func(*testing.T, *held)
	}{
		{"settings change", 0, settingsChange},
		{"MAC and place change", 0, placeChanges},
		{"netns dies", 0, netnsDies},
		{"DEL with little", 0, delWithLittle},
		{"two want one VF", 0, twoWantOne},
		{"VF loses its driver", 0, vfLosesDriver},
		{"sriov_numvfs 0", 0, noVFsByHand},
		{"sriov_numvfs 0 and 3", 0, otherVFsByHand},
		{"PF loses its driver", 1, pfLosesDriver},
		{"PF is unplugged", 1, pfIsUnplugged},
	} {
		t.Run(story.name, func(t *testing.T) {
			h := holdTwo(t, k, d, story.pf)
			story.tell(t, h)
			for _, p := range h.pods {
				h.mustCNI(t, "DEL", p)
			}
			wholeAgain(t, d, k, h.before)
		})
	}
}

// holdTwo attaches VF 0 and VF 1 of a PF.
func holdTwo(t *testing.T, k *kernel.Kernel, d *daemon, which int) *held {
	t.Helper()
	h := &held{kernel: k, daemon: d}
	all := pfs(t, h.kernel)
	h.pf, h.before = all[which], allClean(all)
	for i, id := range []string{"first", "second"} {
		h.vfs[i] = h.pf.VFs[i].PCI
		h.pods[i] = newPod(t, id, h.vfs[i], `"vlan": 9, "trust": "on", `)
		h.mustCNI(t, "ADD", h.pods[i])
	}
	h.now(t)
	return h
}

// now records the time and the newest event before a change that the test is
// about to make.
func (h *held) now(t *testing.T) {
	t.Helper()
	h.seq, h.begin = h.lastEvent(t), time.Now()
}

// ended checks that the lease of a pod ends by itself, that its address is
// free, and that CHECK finds no VF. A late DEL must succeed.
func (h *held) ended(t *testing.T, i int) {
	t.Helper()
	h.event(t, h.begin, h.seq, "LeaseEnded", "VF "+h.vfs[i].String(), h.pods[i].id)
	for _, a := range h.leases(t).addresses {
		if a.Owner.UID == h.pods[i].id {
			t.Errorf("I4: %s is still held by %s", a.Addr, a.Owner)
		}
	}
	_, err := h.cni(t.Context(), "CHECK", h.pods[i])
	mentions(t, err, "no VF")
	h.mustCNI(t, "DEL", h.pods[i])
}

// I4 I7 I8: a PF is removed with all its VFs, and comes back.
func pfIsUnplugged(t *testing.T, h *held) {
	other := newPod(t, "elsewhere", vf.PCIAddr{}, `"vlan": 8, `)
	h.now(t)
	echo(t, "1", device(h.pf.PCI, "remove"))
	h.ended(t, 0)
	h.ended(t, 1)
	h.mustCNI(t, "ADD", other)
	echo(t, "1", "/sys/bus/pci/rescan")
	h.mustCNI(t, "DEL", other)
}

// I4 I8: the PF's driver is unbound, which takes its VFs away.
func pfLosesDriver(t *testing.T, h *held) {
	echo(t, h.pf.PCI.String(), "/sys/bus/pci/drivers/igb/unbind")
	h.ended(t, 0)
	h.ended(t, 1)
	echo(t, h.pf.PCI.String(), "/sys/bus/pci/drivers/igb/bind")
}

// I4 I5: a program outside Culvert writes 0 to sriov_numvfs. The leases end,
// and culvertd makes the VFs again.
func noVFsByHand(t *testing.T, h *held) {
	echo(t, "0", device(h.pf.PCI, "sriov_numvfs"))
	h.ended(t, 0)
	h.ended(t, 1)
}

// I4 I5: a program outside Culvert writes 0 and then another number, as other
// tools do, faster than culvertd can look. The new VFs have the same PCI
// addresses, but they are not the VFs that the pods had.
func otherVFsByHand(t *testing.T, h *held) {
	echo(t, "0", device(h.pf.PCI, "sriov_numvfs"))
	echo(t, "3", device(h.pf.PCI, "sriov_numvfs"))
	for i := range h.pods {
		eventually(t, time.Minute, func() error {
			_, err := h.cni(t.Context(), "CHECK", h.pods[i])
			if err == nil {
				return errors.New("CHECK is content with a VF that is another one")
			}
			return nil
		})
	}
}

// I2 I8: the VF's driver is unbound by hand in the pod.
func vfLosesDriver(t *testing.T, h *held) {
	echo(t, h.vfs[0].String(), "/sys/bus/pci/drivers/igbvf/unbind")
	h.event(t, h.begin, h.seq, "Drifted", "VF "+h.vfs[0].String(), "driver is none, not igbvf")
	_, err := h.cni(t.Context(), "CHECK", h.pods[0])
	mentions(t, err, "driver")
}

// I1 I8: two ADDs request the same VF at once, and one gets it. A late DEL of
// the other pod does not take the VF from the winner.
func twoWantOne(t *testing.T, h *held) {
	h.mustCNI(t, "DEL", h.pods[0])
	h.mustCNI(t, "DEL", h.pods[1])
	rival := h.pods[1]
	rival.config = h.pods[0].config
	errs := make(chan error, 2)
	for _, p := range []pod{h.pods[0], rival} {
		go func() {
			_, err := h.cni(t.Context(), "ADD", p)
			if err != nil {
				err = &loser{p, err}
			}
			errs <- err
		}()
	}
	lost := errors.Join(<-errs, <-errs)
	mentions(t, lost, "held by")
	var l *loser
	if !errors.As(lost, &l) {
		t.Fatal("nobody lost")
	}
	winner := h.pods[0]
	if l.pod.id == winner.id {
		winner = rival
	}
	h.mustCNI(t, "DEL", l.pod)
	h.mustCNI(t, "CHECK", winner)
	h.mustCNI(t, "DEL", winner)
}

// loser is the error of a pod that did not get the VF.
type loser struct {
	pod pod
	error
}

// I8: DEL succeeds when only the name of the attachment is right. The netns is
// gone, its path is empty or leads to a file that is no netns, the
// configuration is another one, or there never was an ADD.
func delWithLittle(t *testing.T, h *held) {
	gone, changed := h.pods[0], h.pods[1]
	file := h.socket + ".no-netns"
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, "ip", "netns", "delete", gone.id)
	gone.netns = file
	changed.config = `{"cniVersion": "1.1.0", "name": "churn", "type": "culvert", "pool": "vm", "vlan": 1234}`
	changed.netns = ""
	never := pod{id: "never", config: changed.config}
	for range 2 {
		for _, p := range []pod{gone, changed, never} {
			h.mustCNI(t, "DEL", p)
		}
	}
}
