package torture

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/soak"
)

// wire is an interface of a pod. The PF of its VF receives the frames that the pod sends.
type wire struct {
	pod    pod
	name   string // of the interface
	mac    vf.MAC
	own    netip.Addr
	pf     string
	hears  listener
	serial *byte
}

// foreign is an address that the pod does not have.
var foreign = netip.MustParseAddr("10.9.0.60")

// spoofs are frames that a guard drops.
func (w wire) spoofs() map[string][]byte {
	other := vf.MAC{2, 0xbb, 0, 0, 0, 1}
	return map[string][]byte{
		"ARP of another address":     newARP(w.mac, w.mac, foreign, foreign),
		"ARP of another MAC address": newARP(w.mac, other, w.own, foreign),
		"another source MAC address": newARP(other, w.mac, w.own, foreign),
		"another source address":     newIPv4(w.mac, foreign, w.own),
	}
}

// expectSpoofs sends each spoofed frame and one that a guard lets pass. The PF must receive the
// frame that may pass, and the spoofed one only if pass is set.
func (w wire) expectSpoofs(t *testing.T, when string, pass bool) {
	t.Helper()
	for what, frame := range w.spoofs() {
		*w.serial++
		mark := newARP(w.mac, w.mac, w.own, netip.AddrFrom4([4]byte{10, 9, 1, *w.serial}))
		sendFrames(t, w.pod.netns, w.name, frame, mark)
		if got := w.hears.seesBefore(t, frame, mark); got != pass {
			t.Errorf("%s, at %s: a frame with %s passes: %t, want %t", when, w.name, what, got, pass)
		}
	}
}

// wiresOf returns the interfaces of the VFs that a pod has, in the order of their names.
func wiresOf(t *testing.T, k *kernel.Kernel, d *daemon, p pod, own netip.Prefix) (out []wire) {
	t.Helper()
	all, serial := pfs(t, k), new(byte)
	for _, rec := range d.leases(t).records {
		if rec.Lease.Owner.UID != p.id {
			continue
		}
		i := slices.IndexFunc(all, func(pf vf.PF) bool { return pf.ID == rec.ID.PF })
		out = append(out, wire{p, rec.Lease.Wanted.Interface, rec.Lease.LinkMAC, own.Addr(), all[i].Name, listenAt(t, all[i].Name), serial})
	}
	slices.SortFunc(out, func(a, b wire) int { return int(a.name[len(a.name)-1]) - int(b.name[len(b.name)-1]) })
	return out
}

// attachPod adds a pod to a network with these settings.
func attachPod(t *testing.T, d *daemon, id, settings string) (pod, netip.Prefix) {
	t.Helper()
	p := newPod(t, id, vf.PCIAddr{}, settings)
	r, err := d.cni(t.Context(), "ADD", p)
	if err != nil {
		t.Fatal(err)
	}
	return p, r.IPs[0].Address
}

// P12 I6: a guard needs no culvertd. It holds while culvertd is dead, and the next culvertd finds
// it unchanged. A pod without a guard can send any frame.
func TestGuardOutlivesCulvertd(t *testing.T) {
	k := inNode(t)
	d := newDaemon(t, hostYAML)
	before := allClean(pfs(t, k))
	free, freeAddress := attachPod(t, d, "free", ``)
	p, own := attachPod(t, d, "guarded", `"guard": "ip", `)
	wiresOf(t, k, d, free, freeAddress)[0].expectSpoofs(t, "without a guard", true)
	w := wiresOf(t, k, d, p, own)[0]
	w.expectSpoofs(t, "after the ADD", false)
	d.kill()
	w.expectSpoofs(t, "while culvertd is dead", false)
	d.start(t)
	d.ready(t)
	d.mustCNI(t, "CHECK", p)
	w.expectSpoofs(t, "after culvertd's return", false)
	d.mustCNI(t, "DEL", p)
	d.mustCNI(t, "DEL", free)
	wholeAgain(t, d, k, before)
}

// P12: the guard of a bond is at each of its members, so that a pod can spoof neither by the bond nor by
// a member alone. Its own traffic passes, also by the other member after a fail-over.
func TestGuardOfABond(t *testing.T) {
	soak.Only(t, "a bond and a wire that goes down; TestGuardOutlivesCulvertd has one VF")
	k := inNode(t)
	d := newDaemon(t, hostYAML)
	before := allClean(pfs(t, k))
	p, own := attachPod(t, d, "bonded", `"guard": "ip", "bond": {"links": 2}, `)
	wires := wiresOf(t, k, d, p, own)
	if len(wires) != 2 || wires[0].pf == wires[1].pf {
		t.Fatalf("the bond has the VFs %+v", wires)
	}
	for _, w := range wires {
		w.expectSpoofs(t, "at first", false)
	}
	first := slices.IndexFunc(wires, func(w wire) bool { return w.sends(t, k, d) })
	for _, i := range []int{first, 1 - first} {
		w := wires[i]
		if i != first {
			run(t, "ip", "link", "set", wires[first].pf, "down")
			w.waitUntilSends(t, k, d)
		}
		w.expectTraffic(t)
		w.expectLinkLocal(t)
		bond := w
		bond.name = iface
		bond.expectSpoofs(t, "by the bond over "+w.pf, false)
	}
	run(t, "ip", "link", "set", wires[first].pf, "up")
	eventually(t, 2*time.Minute, func() error { // while the driver opens the PF, culvertd cannot read its VFs
		_, err := d.cni(t.Context(), "CHECK", p)
		return err
	})
	d.mustCNI(t, "DEL", p)
	wholeAgain(t, d, k, before)
}

// The guard of a bond in a forced mode drops spoofed frames at each member, and not the pod's traffic.
func TestGuardOfAForcedBond(t *testing.T) {
	soak.Only(t, "a bond in each forced mode")
	k := inNode(t)
	d := newDaemon(t, hostYAML)
	before := allClean(pfs(t, k))
	for _, mode := range []string{"balance-rr", "balance-xor", "broadcast"} {
		settings := fmt.Sprintf(`"guard": "ip", "bond": {"mode": %q, "force": true}, `, mode)
		p, own := attachPod(t, d, "forced-"+mode, settings)
		wires := wiresOf(t, k, d, p, own)
		expectARP(t, mode, wires)
		for _, w := range wires {
			w.expectSpoofs(t, "mode "+mode, false)
		}
		d.mustCNI(t, "CHECK", p)
		d.mustCNI(t, "DEL", p)
	}
	wholeAgain(t, d, k, before)
}

// expectLinkLocal expects that the PF of this member receives a datagram from the pod's link-local
// address. The bond keeps that address when another member sends.
func (w wire) expectLinkLocal(t *testing.T) {
	t.Helper()
	eventually(t, 2*time.Minute, func() error {
		err := netns.Run(w.pod.netns, func() error { return sendDatagram("udp6", "[ff02::1%"+iface+"]:9") })
		if err == nil && !w.hears.drain(slices.Concat([]byte{0x33, 0x33, 0, 0, 0, 1}, w.mac[:], []byte{0x86, 0xdd})) {
			err = fmt.Errorf("no frame of IPv6 by %s", w.name)
		}
		return err
	})
}

// sendDatagram sends a datagram from the netns of the calling thread.
func sendDatagram(network, to string) error {
	c, err := net.Dial(network, to)
	if err != nil {
		return err
	}
	_, err = c.Write([]byte("x"))
	return errors.Join(err, c.Close())
}

// expectARP expects that one of the PFs hears the ARP request of the pod's kernel.
func expectARP(t *testing.T, mode string, wires []wire) {
	t.Helper()
	eventually(t, 2*time.Minute, func() error {
		err := netns.Run(wires[0].pod.netns, func() error { return sendDatagram("udp4", foreign.String()+":9") })
		for _, w := range wires {
			if err == nil && w.hears.drain(newARP(w.mac, w.mac, w.own, foreign)[:arpLength]) {
				return nil
			}
		}
		return errors.Join(fmt.Errorf("mode %s: no PF hears the pod", mode), err)
	})
}

// sends reports whether the bond sends by this member.
func (w wire) sends(t *testing.T, k *kernel.Kernel, d *daemon) bool {
	t.Helper()
	for _, rec := range d.leases(t).records {
		if rec.Lease.Owner.UID != w.pod.id || rec.Lease.Wanted.Interface != w.name {
			continue
		}
		st, err := k.VF(t.Context(), rec.PCI, w.pod.netns)
		return err == nil && st.Link != nil && st.Link.Bond != nil && st.Link.Bond.Active
	}
	return false
}

func (w wire) waitUntilSends(t *testing.T, k *kernel.Kernel, d *daemon) {
	t.Helper()
	eventually(t, 2*time.Minute, func() error {
		if !w.sends(t, k, d) {
			return fmt.Errorf("the bond does not send by %s", w.name)
		}
		return nil
	})
}

// expectTraffic expects that a datagram of the pod reaches the host by the PF of this member. The pod's
// kernel asks for the host's MAC address first, so ARP passes as well.
func (w wire) expectTraffic(t *testing.T) {
	t.Helper()
	host := map[string]netip.Addr{"eth0": netip.MustParseAddr("10.9.0.50"), "eth1": netip.MustParseAddr("10.9.0.51")}[w.pf]
	run(t, "ip", "address", "add", host.String()+"/26", "dev", w.pf)
	defer run(t, "ip", "address", "del", host.String()+"/26", "dev", w.pf)
	server, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(host, 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	eventually(t, time.Minute, func() error {
		err := netns.Run(w.pod.netns, func() error { return sendDatagram("udp4", server.LocalAddr().String()) })
		_ = server.SetReadDeadline(time.Now().Add(time.Second))
		_, from, readErr := server.ReadFromUDPAddrPort(make([]byte, 8))
		if err := errors.Join(err, readErr); err != nil {
			return err
		}
		if from.Addr() != w.own {
			return fmt.Errorf("a datagram of %s, not of %s", from, w.own)
		}
		return nil
	})
}
