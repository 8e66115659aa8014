package failure

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/vf"
)

// story is a kind of work during which culvertd may be killed, and the preparation for it. It
// ignores errors, since a killed culvertd gives no answer.
type story struct {
	name   string
	before func(*world)
	work   func(*world)
}

var (
	podA  = attachment{pod: "a", pool: "net"}
	podB  = attachment{pod: "b", pool: "net", plain: true}
	podC  = attachment{pod: "c", pool: "user"}
	bondA = attachment{pod: "a", pool: "net", bond: true}
	// podSix also gets an IPv6 address, and podNamed requests a given one.
	podSix   = attachment{pod: "a", pool: "net", six: true}
	podNamed = attachment{pod: "a", pool: "net", six: true, named: "fd00::2"}
	bondSix  = attachment{pod: "a", pool: "net", six: true, bond: true}
	// guestD gets its VF from the engine without CNI, and gives it back by DEL as the others do.
	guestD = attachment{pod: "d", pool: "net"}
)

func must(w *world, err error) {
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

func stories() []story {
	addA := func(w *world) { must(w, w.add(podA)) }
	addBond := func(w *world) { must(w, w.add(bondA)) }
	addPod := func(w *world) { must(w, w.pod("ADD")) }
	guest := func(w *world) { must(w, w.guest()) }
	elsewhere := func(w *world) { w.k.SetElsewhere(netip.MustParseAddr("fd00::2"), true) }
	all := func(w *world) { must(w, w.add(podA)); must(w, w.add(podB)); must(w, w.add(podC)) }
	return []story{
		{"ADD", nil, func(w *world) { _ = w.add(podA) }},
		{"ADD without settings", nil, func(w *world) { _ = w.add(podB) }},
		{"ADD for user space", nil, func(w *world) { _ = w.add(podC) }},
		{"ADD with an address of IPv6", nil, func(w *world) { _ = w.add(podSix) }},
		{"ADD with an address that another machine has", elsewhere, func(w *world) { w.addDuplicate(podSix) }},
		{"ADD that names an address that another machine has", elsewhere, func(w *world) { w.addDuplicate(podNamed) }},
		{"ADD of a bond", nil, func(w *world) { _ = w.add(bondA) }},
		{"ADD of a bond with an address that another machine has", elsewhere, func(w *world) { w.addDuplicate(bondSix) }},
		{"DEL of a bond", addBond, func(w *world) { _ = w.del(bondA) }},
		{"DEL of a bond without the netns", func(w *world) { addBond(w); w.k.DelNetns(netnsOf("a")) }, func(w *world) { _ = w.del(bondA) }},
		{"GC of a bond", addBond, func(w *world) { _ = w.gc(bondA, "b") }},
		{"CHECK of a bond", addBond, func(w *world) { _ = w.call("CHECK", bondA, w.config(bondA, "CHECK")) }},
		{"a bond whose first VF is unplugged, and its DEL", addBond, func(w *world) {
			w.expect["a"] = either
			v := w.heldBy("a")
			must(w, w.k.RemoveVF(v))
			w.pass()
			_ = w.del(bondA)
			_ = w.k.ReturnVF(v) // the PF may have made its VFs anew meanwhile
			w.pass()
		}},
		{"ADD of a bond when a VF turns out to be dirty", nil, func(w *world) {
			w.soil(w.anyFree())
			_ = w.add(bondA)
			w.pass()
		}},
		{"DEL", addA, func(w *world) { _ = w.del(podA) }},
		{"DEL of a VF for user space", func(w *world) { must(w, w.add(podC)) }, func(w *world) { _ = w.del(podC) }},
		{"a guest gets a VF of a netdevice pool", nil, func(w *world) { _ = w.guest() }},
		{"a guest gives its VF back", guest, func(w *world) { _ = w.del(guestD) }},
		{"a guest starts", nil, func(w *world) { _ = w.starts() }},
		{"a guest has ended", func(w *world) { must(w, w.starts()) }, func(w *world) { _ = w.stops() }},
		{"a guest is seen to run, and to have ended", func(w *world) { must(w, w.starts()) }, func(w *world) {
			must(w, w.k.Open(w.vfs()[0].PCI, vf.Process{PID: 1, Name: "qemu"}))
			w.pass()
			must(w, w.k.Open(w.vfs()[0].PCI))
			w.expect[guestE] = either
			w.pass()
		}},
		{"a guest runs of which nobody tells, and ends", nil, (*world).untold},
		{"DEL without the netns", func(w *world) { addA(w); w.k.DelNetns(netnsOf("a")) }, func(w *world) { _ = w.del(podA) }},
		{"ADD when the VF turns out to be dirty", nil, func(w *world) {
			w.soil(w.anyFree())
			_ = w.add(podA)
			w.pass()
		}},
		{"a rate is lent and given back", addA, func(w *world) {
			w.expect["a"] = meddled
			if rec, err := w.node.Loans.Lend(context.Background(), w.heldBy("a"), 100, time.Minute); err == nil {
				_ = w.node.Loans.GiveBack(context.Background(), rec)
			}
		}},
		{"a rate is lent, and its time is up", addA, func(w *world) {
			w.expect["a"] = meddled
			_, _ = w.node.Loans.Lend(context.Background(), w.heldBy("a"), 100, time.Minute)
			w.skew += time.Hour
			w.pass()
		}},
		{"a rate is lent, and the VF is given back", addA, func(w *world) {
			w.expect["a"] = meddled
			_, _ = w.node.Loans.Lend(context.Background(), w.heldBy("a"), 100, time.Minute)
			_ = w.del(podA)
		}},
		{"CHECK", addA, func(w *world) { _ = w.call("CHECK", podA, w.config(podA, "CHECK")) }},
		{"GC", all, func(w *world) { _ = w.gc(podA, "b") }},
		{"ADD of a pod's networks", nil, func(w *world) { _ = w.pod("ADD") }},
		{"DEL of a pod's networks", addPod, func(w *world) { _ = w.pod("DEL") }},
		{"GC of a pod's networks", addPod, func(w *world) { _ = w.pod("GC") }},
		{"CHECK of a pod's networks", addPod, func(w *world) { _ = w.pod("CHECK") }},
		{"claims are prepared, used and ended", (*world).joinCluster, (*world).useClaims},
		{"claims end whose DEL is lost", (*world).haveClaims, (*world).endsClaims},
		{"a claim's pod has another sandbox", (*world).haveClaims, func(w *world) { _ = w.del(podA); _ = w.addByClaim("a", "net") }},
		{"STATUS", nil, func(w *world) { _ = w.call("STATUS", podA, w.config(podA, "STATUS")) }},
		{"a pass over changed free VFs", func(w *world) {
			w.soil(w.anyFree())
		}, (*world).pass},
		{"a pass over a changed attached VF", func(w *world) {
			addA(w)
			w.meddle(w.heldBy("a"), func(st *vf.State) { w.change(&st.Admin, 7, vf.No) })
			w.expect["a"] = meddled
		}, (*world).pass},
		{"fewer VFs and more again", nil, func(w *world) {
			w.want(1)
			w.pass()
			w.want(vfsPerPF)
			w.pass()
		}},
		{"VFs are made anew after somebody wrote sriov_numvfs", func(w *world) {
			all(w)
			must(w, w.k.WriteNumVFs(w.pf(0), 0))
			w.expect["a"], w.expect["b"], w.expect["c"] = either, either, either
		}, (*world).pass},
		{"VFs are made anew by force", all, (*world).remakeByForce},
	}
}

// addDuplicate adds an attachment while another machine has fd00::2. In the end the attachment
// cannot use that address, unless the kernel gave no result in time.
func (w *world) addDuplicate(a attachment) {
	_ = w.add(a)
	for _, v := range w.vfs() {
		st, err := w.k.VF(context.Background(), v.PCI, netnsOf(a.pod))
		if err != nil || st.Link == nil {
			continue
		}
		link := st.Link
		if link.Bond != nil {
			link = &link.Bond.Link
		}
		if slices.ContainsFunc(link.Addrs, func(p netip.Prefix) bool { return p.Addr() == netip.MustParseAddr("fd00::2") }) {
			if w.expect[a.pod] == present && len(link.Tentative)+len(link.Duplicates) == 0 {
				w.t.Errorf("%s can use the address of another machine: %+v", a.pod, link)
			}
			w.expect[a.pod] = either
		}
	}
}

// remakeByForce takes all VFs from their owners and makes them anew.
func (w *world) remakeByForce() {
	for _, pod := range pods {
		if w.expect[pod] == present {
			w.expect[pod] = either
		}
	}
	w.want(1)
	_ = w.node.Reconciler.Apply(context.Background(), true)
	w.node.VFs.Wait()
	w.want(vfsPerPF)
	w.pass()
}

// I1, I2, I3, I4, I6, I8: culvertd is killed before and after each kernel call, each commit and
// each answer of every kind of work. The next culvertd finds everything in order, and the
// runtime goes on.
func TestKilledAtEveryMoment(t *testing.T) {
	for name, profile := range profiles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			total := 0
			for _, s := range stories() {
				n := 1
				for ; ; n += stride(1) {
					w := made(t, profile, fastDir(t))
					if s.before != nil {
						s.before(w)
					}
					if died := w.dies(n, s.work); !died {
						w.rest()
						w.asNew()
						w.close()
						break
					}
					w.recovers(fmt.Sprintf("%s, killed %s", s.name, w.gate.killed()))
				}
				total += n / stride(1)
			}
			t.Logf("%d crash points in %d kinds of work", total, len(stories()))
		})
	}
}

// I1, I2, I5: culvertd is killed at every moment while it makes the VFs for the first time.
func TestKilledWhileVFsAreMade(t *testing.T) {
	for name, profile := range profiles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := made(t, profile, fastDir(t))
			n := 1
			for ; ; n++ {
				w := newWorld(t, profile, fastDir(t))
				w.pristine, w.whole = whole.pristine, whole.whole
				if !w.dies(n, func(w *world) { w.start(); w.pass() }) {
					break
				}
				w.recovers("making VFs, killed " + w.gate.killed())
			}
			t.Logf("%d crash points", n-1)
		})
	}
}

// I1, I2, I8: culvertd is killed, and the next one is killed at every moment while it
// clears up. The third one finishes the work.
func TestKilledTwice(t *testing.T) {
	total := 0
	for first := 1; ; first += stride(2) {
		var alive bool
		for second := 1; ; second += 3 {
			w := made(t, fake.IGB, fastDir(t))
			if alive = !w.dies(first, func(w *world) { _ = w.add(podA); _ = w.del(podA) }); alive {
				w.close()
				break
			}
			was := w.gate.killed()
			w.restart()
			if !w.dies(second, func(w *world) { w.start(); w.pass() }) {
				w.asNew()
				w.close()
				break
			}
			total++
			w.recovers(fmt.Sprintf("killed %s, then %s", was, w.gate.killed()))
		}
		if alive {
			break
		}
	}
	t.Logf("%d pairs of crash points", total)
}

// I1, I2, P1: power is cut at every moment of an attach, a detach and the making of
// VFs. After the boot the same VFs are there, and none has an owner.
func TestPowerCutAtEveryMoment(t *testing.T) {
	total := 0
	for _, s := range stories() {
		for n := 1; ; n += stride(2) {
			w := made(t, fake.IGB, fastDir(t))
			if s.before != nil {
				s.before(w)
			}
			died := w.dies(n, s.work)
			w.reboot()
			w.start()
			w.want(vfsPerPF)
			w.pass()
			w.asNew()
			w.close()
			if !died {
				break
			}
			total++
		}
	}
	t.Logf("%d crash points", total)
}

// dies does the work with a culvertd that is killed at its nth moment, and reports whether the
// work had so many moments.
func (w *world) dies(n int, work func(*world)) bool {
	w.gate.killAfter(n)
	work(w)
	w.node.VFs.Wait()
	w.gate.spare()
	return w.gate.killed() != ""
}

// recovers starts culvertd again, which must find everything in order. Then it sends a DEL and
// another ADD, as a runtime does.
func (w *world) recovers(what string) {
	w.t.Helper()
	w.want(vfsPerPF)
	w.restart()
	w.start()
	w.pass()
	must(w, w.metaPlugin().Resume(context.Background()))
	w.sound()
	w.rest()
	w.settled()
	w.k.AddNetns(netnsOf("a")) // the sandbox may be a new one
	for _, a := range []attachment{podA, podC} {
		if err := w.del(a); err != nil {
			w.t.Errorf("DEL: %v", err)
		}
		if err := w.add(a); err != nil {
			w.t.Errorf("ADD: %v", err)
		}
	}
	w.settled()
	w.asNew()
	w.close()
	if t, ok := w.t.(*testing.T); ok && t.Failed() {
		t.Fatalf("%s\n%s", what, w.k)
	}
}

// rest lets an hour pass, and makes a pass. culvertd then resets quarantined VFs again, and
// mends changes that were made outside Culvert.
func (w *world) rest() {
	w.skew += time.Hour
	w.pass()
	clear(w.dirty)
	for pod, p := range w.expect {
		if p == meddled {
			w.expect[pod] = present
		}
	}
}

// fastDir returns a folder for a ledger, in memory if there is /dev/shm: bbolt syncs a new file
// even if it has the option NoSync.
func fastDir(t *testing.T) string {
	t.Helper()
	parent := "/dev/shm"
	if _, err := os.Stat(parent); err != nil {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "culvert-failure-") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// isSample reports whether a part of the tries has to be enough: the race detector makes each
// one slow, and `make check` asks for an answer within a minute by -short.
func isSample() bool { return raceEnabled || testing.Short() }

// stride returns how far apart the tried moments are: five times as far in a sample, and four times as
// far again under the race detector, since `make test` has the sample without it, too.
func stride(full int) int {
	switch {
	case raceEnabled:
		return 20 * full
	case testing.Short():
		return 5 * full
	default:
		return full
	}
}

// profiles returns the drivers on which failures are tried: all of them, or igb in a sample.
func profiles() map[string]fake.Profile {
	if isSample() {
		return map[string]fake.Profile{"igb": fake.IGB}
	}
	return fake.Profiles()
}

// meddle changes a VF outside Culvert.
func (w *world) meddle(v vf.PCIAddr, change func(*vf.State)) {
	w.t.Helper()
	w.dirty[v] = true
	must(w, w.k.Meddle(v, change))
}

// soil changes a free VF outside Culvert, as a program that uses the VF would.
func (w *world) soil(v vf.PCIAddr) {
	w.t.Helper()
	w.meddle(v, func(st *vf.State) {
		w.change(&st.Admin, 7, vf.Yes)
		st.Link.Up, st.Link.MTU = true, 1400
	})
}

// change sets the VLAN and the trust, each if the driver supports it.
func (w *world) change(a *vf.Admin, vlan uint16, trust vf.Tri) {
	if w.able(vf.SetVLAN) {
		a.VLAN.ID = vlan
	}
	if w.able(vf.SetTrust) {
		a.Trust = trust
	}
}

// anyFree is the VF that the next pod would get.
func (w *world) anyFree() vf.PCIAddr { return w.vfs()[0].PCI }

// heldBy is the VF that a pod has.
func (w *world) heldBy(pod string) vf.PCIAddr {
	for _, r := range w.records() {
		if r.Lease.Owner.UID == pod {
			return r.PCI
		}
	}
	return vf.PCIAddr{}
}

// pf is the address of a PF.
func (w *world) pf(i int) vf.PCIAddr {
	pfs, err := w.k.PFs(context.Background())
	must(w, err)
	return pfs[i].PCI
}
