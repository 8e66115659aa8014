package fake

import (
	"errors"
	"fmt"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// openBeacons returns a machine with three PFs, up on one wire, and a Beacon on each.
func openBeacons(t *testing.T) (k *Kernel, pfs []vf.PF, beacons []*Beacon) {
	t.Helper()
	k = New(IGB, 3)
	pfs = list(t, k)
	for _, p := range pfs {
		doSteps(t, k, step.SetPFUp{PF: p.PCI})
		b, err := k.OpenBeacon(p.Name)
		must(t, err)
		beacons = append(beacons, b)
	}
	return k, pfs, beacons
}

// TestBeaconsHear: a frame reaches the packet sockets (packet(7)) of the other netdevices on the
// wire that are up with a cable in, and not that of its sender (PACKET_IGNORE_OUTGOING of uapi
// linux/if_packet.h). A bridge takes the frames of its members before the sockets
// (br_handle_frame), and a bond does not.
func TestBeaconsHear(t *testing.T) {
	for name, c := range map[string]struct {
		change func(k *Kernel, pfs []vf.PF)
		heard  [3]bool
	}{
		"one wire":           {func(*Kernel, []vf.PF) {}, [3]bool{false, true, true}},
		"another wire":       {func(k *Kernel, pfs []vf.PF) { k.Wire(pfs[1].PCI, "b") }, [3]bool{false, false, true}},
		"the sender's wire":  {func(k *Kernel, pfs []vf.PF) { k.Wire(pfs[0].PCI, "b") }, [3]bool{}},
		"no cable":           {func(k *Kernel, pfs []vf.PF) { k.Cable(pfs[1].PCI, false) }, [3]bool{false, false, true}},
		"the sender's cable": {func(k *Kernel, pfs []vf.PF) { k.Cable(pfs[0].PCI, false) }, [3]bool{}},
		"down":               {func(k *Kernel, pfs []vf.PF) { k.TakePFDown(pfs[2].PCI) }, [3]bool{false, true, false}},
		"unplugged":          {func(k *Kernel, pfs []vf.PF) { must(t, k.RemovePF(pfs[2].PCI)) }, [3]bool{false, true, false}},
		"a member of a bridge": {func(k *Kernel, pfs []vf.PF) {
			must(t, k.AddMaster("br0", vf.MasterBridge, ""), k.JoinMaster(pfs[1].PCI, "br0"))
		}, [3]bool{false, false, true}},
		"a member of a bond": {func(k *Kernel, pfs []vf.PF) {
			must(t, k.AddMaster("bond0", vf.MasterBond, vf.BondActiveBackup), k.DownPF(pfs[1].PCI), k.JoinMaster(pfs[1].PCI, "bond0"))
		}, [3]bool{false, true, true}},
	} {
		k, pfs, beacons := openBeacons(t)
		c.change(k, pfs)
		frame := []byte("here")
		must(t, beacons[0].Send(frame))
		frame[0] = 'x' // the sender may use its buffer again
		var heard [3]bool
		for i, b := range beacons {
			got, more, err := b.Receive(8)
			must(t, err)
			if heard[i] = len(got) > 0; heard[i] && (string(got[0]) != "here" || len(got) != 1) || more {
				t.Errorf("%s: PF %d hears %q, more %t", name, i, got, more)
			}
		}
		if heard != c.heard {
			t.Errorf("%s: heard by %v, want %v", name, heard, c.heard)
		}
	}
}

// TestBeaconSendsWhileUp: a packet socket of a netdevice that is down sends nothing (ENETDOWN,
// packet_snd of net/packet/af_packet.c), and none opens on a netdevice that is not there.
func TestBeaconSendsWhileUp(t *testing.T) {
	k, pfs, beacons := openBeacons(t)
	k.TakePFDown(pfs[0].PCI)
	if err := beacons[0].Send([]byte("x")); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("down: %v", err)
	}
	must(t, k.RemovePF(pfs[1].PCI))
	if err := beacons[1].Send([]byte("x")); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("unplugged: %v", err)
	}
	if _, err := k.OpenBeacon(pfs[1].Name); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("opened on a PF that is unplugged: %v", err)
	}
}

// TestBeaconQueue: Receive returns at most so many frames and reports that there were more, as
// beacon.Socket does. A full queue drops new frames, which the next Receive reports once
// (PACKET_STATISTICS).
func TestBeaconQueue(t *testing.T) {
	k, _, beacons := openBeacons(t)
	for _, c := range []struct {
		sent, taken, got int
		more             bool
	}{
		{3, 8, 3, false}, {8, 8, 8, false}, {9, 8, 8, true}, {0, 8, 0, false},
		{beaconQueue, beaconQueue, beaconQueue, false}, {beaconQueue + 1, beaconQueue, beaconQueue, true}, {0, 8, 0, false},
	} {
		for i := range c.sent {
			k.SendFrame("", fmt.Append(nil, i))
		}
		got, more, err := beacons[0].Receive(c.taken)
		must(t, err)
		if len(got) != c.got || more != c.more {
			t.Errorf("%d sent, %d taken: %d, more %t; want %d, %t", c.sent, c.taken, len(got), more, c.got, c.more)
		}
		for i := range got {
			if string(got[i]) != fmt.Sprint(i) {
				t.Errorf("%d sent: frame %d is %q", c.sent, i, got[i])
			}
		}
	}
}

// TestBeaconClose: a Beacon that is closed hears nothing more, and the others hear as before.
func TestBeaconClose(t *testing.T) {
	k, _, beacons := openBeacons(t)
	must(t, beacons[1].Close())
	k.SendFrame("", []byte("late"))
	for i, want := range []int{1, 0, 1} {
		got, _, err := beacons[i].Receive(8)
		must(t, err)
		if len(got) != want {
			t.Errorf("Beacon %d hears %q, want %d frames", i, got, want)
		}
	}
}
