package attach_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// watchedPod is a pod with a VF, the events that it gets, and the engine's clock.
type watchedPod struct {
	t      *testing.T
	k      machine
	n      *node.Node
	rec    journal.Record
	pf     vf.PCIAddr
	now    time.Time
	events []string
}

// watchPod attaches a VF to a pod, and reads its interface once.
func watchPod(t *testing.T, p fake.Profile, req attach.Request) *watchedPod {
	t.Helper()
	w := &watchedPod{t: t, now: time.Now()}
	w.k, w.n = nodeOf(t, p)
	w.n.VFs.Now = func() time.Time { return w.now }
	w.n.Upkeep.PodEvent = func(l journal.Lease, kind, reason, text string) {
		w.events = append(w.events, l.Owner.Name+" "+kind+" "+reason+" "+text)
	}
	var err error
	if w.rec, err = w.n.Engine.Attach(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	w.pf = pfOf(t, w.n, w.rec.ID.PF).PCI
	w.passAfter(time.Minute)
	return w
}

func (w *watchedPod) passAfter(d time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(d)
	pass(w.t, w.n)
}

func (w *watchedPod) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// ledgerEvents returns the reasons and texts of the events in the ledger since a number.
func (w *watchedPod) ledgerEvents(since int) (out []string) {
	w.t.Helper()
	w.do(w.n.Ledger.View(func(tx *journal.Tx) error {
		for _, e := range tx.Events(uint64(since)) {
			out = append(out, e.Reason+" "+e.Text)
		}
		return nil
	}))
	return out
}

// After a reset of its PF, on every NIC, culvertd restores the settings of a held VF to its lease,
// and mends the interface in the pod in place. The interface is up, with its MTU, addresses and
// routes. The pod need not be started again.
func TestResetOfAPFIsMendedInPlace(t *testing.T) {
	for name, p := range fake.Profiles() {
		t.Run(name, func(t *testing.T) {
			req := everything(t)
			req.Spec = vf.Spec{Interface: "net1", MTU: ptr(1400)}
			if p.Abilities[vf.SetVLAN] == vf.Yes {
				req.Spec.VLAN = &vf.VLAN{ID: 33}
			}
			if p.Abilities[vf.SetTrust] == vf.Yes {
				req.Spec.Trust = ptr(true)
			}
			w := watchPod(t, p, req)
			before, since := w.k.String(), len(w.ledgerEvents(0))
			w.do(w.k.ResetPF(w.pf))
			if w.k.String() == before {
				t.Fatal("the reset changed nothing")
			}
			w.passAfter(time.Second)
			if got := w.k.String(); got != before {
				t.Errorf("not mended:\n%s\nbefore:\n%s", got, before)
			}
			told := strings.Join(w.ledgerEvents(since), "\n")
			for _, want := range []string{"up is false, not true", "mtu is 1500, not 1400", "address is [], not 10.1.0."} {
				if !strings.Contains(told, want) {
					t.Errorf("no event %q: %s", want, told)
				}
			}
			if len(w.events) > 0 {
				t.Errorf("the pod is mended, and has the events %q", w.events)
			}
			if err := w.n.Engine.Check(t.Context(), w.rec.Lease.Owner, attach.Request{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// After a reset of the PF of a member, or of all PFs, the members of a bond are as before, and the
// bond has kept its addresses and routes. The pod need not be started again.
func TestResetOfAPFOfABondIsMendedInPlace(t *testing.T) {
	for name, resets := range map[string][]int{"the first": {0}, "the second": {1}, "both": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			w := &watchedPod{t: t, now: time.Now()}
			w.k, w.n = nodeOf(t, fake.IGB)
			w.n.VFs.Now = func() time.Time { return w.now }
			w.n.Upkeep.PodEvent = func(l journal.Lease, kind, reason, text string) { w.events = append(w.events, reason+" "+text) }
			got := bonded(t, w.n, fullBond(t))
			w.passAfter(time.Minute)
			before, since := w.k.String(), len(w.ledgerEvents(0))
			for _, i := range resets {
				w.do(w.k.ResetPF(pfOf(t, w.n, got.Members[i].ID.PF).PCI))
			}
			if memberState(t, w.k, got.Members[resets[0]]).Link.Up {
				t.Fatal("the reset left the member up")
			}
			w.passAfter(time.Second)
			if diff := cmp.Diff(before, w.k.String()); diff != "" {
				t.Errorf("not mended:\n%s", diff)
			}
			told := strings.Join(w.ledgerEvents(since), "\n")
			if want := len(resets); strings.Count(told, "up is false, not true") != want || strings.Count(told, "mtu is 1500, not 1400") != want {
				t.Errorf("events: %s", told)
			}
			if err := w.n.Engine.Check(t.Context(), got.Members[0].Lease.Owner, attach.Request{}); err != nil || len(w.events) > 0 {
				t.Errorf("CHECK %v; events of the pod %q", err, w.events)
			}
		})
	}
}

// A member that a reset took down and that cannot be brought up is reported to its pod, once.
func TestMemberThatStaysDownIsReported(t *testing.T) {
	w := &watchedPod{t: t, now: time.Now()}
	w.k, w.n = nodeOf(t, fake.IGB)
	w.n.VFs.Now = func() time.Time { return w.now }
	w.n.Upkeep.PodEvent = func(l journal.Lease, kind, reason, text string) { w.events = append(w.events, reason+" "+text) }
	got := bonded(t, w.n, fullBond(t))
	w.passAfter(time.Minute)
	w.k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if _, is := s.(step.SetUp); is && m == faulty.Before {
			return errInjected
		}
		return nil
	})
	w.do(w.k.ResetPF(pfOf(t, w.n, got.Members[1].ID.PF).PCI))
	for range 3 {
		w.passAfter(time.Second)
	}
	if len(w.events) != 1 || !strings.Contains(w.events[0], "up is false") {
		t.Errorf("events of the pod %q", w.events)
	}
}

// A pod that sets a member down itself keeps it down after a reset of its PF.
func TestPodKeepsItsMemberDown(t *testing.T) {
	w := &watchedPod{t: t, now: time.Now()}
	w.k, w.n = nodeOf(t, fake.IGB)
	w.n.VFs.Now = func() time.Time { return w.now }
	got := bonded(t, w.n, plainBond(t))
	w.do(w.k.Do(t.Context(), step.SetUp{VF: got.Members[1].PCI, Netns: podNetns, Up: false}))
	w.passAfter(time.Minute)
	w.do(w.k.ResetPF(pfOf(t, w.n, got.Members[1].ID.PF).PCI))
	w.passAfter(time.Second)
	if memberState(t, w.k, got.Members[1]).Link.Up {
		t.Error("culvertd set it up")
	}
}

// culvertd keeps the changes that a pod makes itself: without a reset of the PF, and also after one
// if the pod made them before. In a pool with drift: report culvertd changes nothing.
func TestPodKeepsItsOwnChanges(t *testing.T) {
	mtu := func(w *watchedPod, to int) {
		w.do(w.k.Do(t.Context(), step.SetMTU{VF: w.rec.PCI, Netns: podNetns, MTU: to}))
	}
	link := func(w *watchedPod) vf.Link {
		st, err := w.k.VF(t.Context(), w.rec.PCI, podNetns)
		w.do(err)
		return *st.Link
	}
	w := watchPod(t, fake.IGB, everything(t))
	mtu(w, 1300)
	w.do(w.k.Do(t.Context(), step.SetUp{VF: w.rec.PCI, Netns: podNetns}))
	w.passAfter(time.Minute)
	if l := link(w); l.MTU != 1300 || l.Up {
		t.Errorf("without a reset: %+v", l)
	}
	w.do(w.k.ResetPF(w.pf))
	w.passAfter(time.Second)
	if l := link(w); l.MTU != 1500 || l.Up || len(l.Addrs) == 0 {
		t.Errorf("after a reset: MTU %d (the driver's), up %t, addresses %v", l.MTU, l.Up, l.Addrs)
	}
	w = watchPod(t, fake.IGB, everything(t))
	w.n.SetSpec(desired.Spec{PFs: w.n.Spec().PFs, Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice, Drift: desired.ReportDrift}}})
	w.do(w.k.ResetPF(w.pf))
	w.passAfter(time.Second)
	if l := link(w); l.Up || len(l.Addrs) > 0 {
		t.Errorf("drift: report: %+v", l)
	}
}

// While a VF may be in a pool that culvertd does not know yet, culvertd reports drift and does not
// mend it, since that pool may have drift: report.
func TestDriftWaitsForThePool(t *testing.T) {
	w := watchPod(t, fake.IGB, everything(t))
	before := w.k.String()
	w.do(w.k.Meddle(w.rec.PCI, func(st *vf.State) { st.Admin.VLAN = vf.VLAN{} }))
	drifted := w.k.String()
	w.n.SetSpec(desired.Spec{Partial: true})
	w.passAfter(time.Minute)
	if w.k.String() != drifted {
		t.Error("it is mended before the pools are known")
	}
	w.n.SetSpec(desired.Spec{})
	w.passAfter(time.Minute)
	if w.k.String() != before {
		t.Error("it is not mended when no pool says otherwise")
	}
}

// An address or a route that a pod removed itself stays removed after a reset of its PF, and is not
// announced. The others are there again.
func TestPodKeepsWhatItRemoved(t *testing.T) {
	removed := netip.MustParsePrefix("10.1.0.2/24")
	for name, test := range map[string]struct {
		remove        func(*vf.Link)
		addrs, routes int // left afterwards
	}{
		"address": {func(l *vf.Link) { l.Addrs, l.Routes = l.Addrs[1:], nil }, 1, 0},
		"route":   {func(l *vf.Link) { l.Routes = l.Routes[1:] }, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := watchPod(t, fake.IGB, everything(t))
			w.do(w.k.Meddle(w.rec.PCI, func(st *vf.State) { test.remove(st.Link) }))
			w.passAfter(time.Minute)
			w.n.VFs.Wait()
			announced := len(w.k.Announced())
			w.do(w.k.ResetPF(w.pf))
			w.passAfter(time.Second)
			w.n.VFs.Wait()
			st, err := w.k.VF(t.Context(), w.rec.PCI, podNetns)
			w.do(err)
			if l := st.Link; !l.Up || len(l.Addrs) != test.addrs || len(l.Routes) != test.routes {
				t.Errorf("up %t, %v, %v", l.Up, l.Addrs, l.Routes)
			}
			if got := w.k.Announced()[announced:]; len(got) != test.addrs || test.addrs == 1 && slices.Contains(got, removed) {
				t.Errorf("announced %v", got)
			}
		})
	}
}

// A reset goes on for some time in the driver of a VF. So culvertd also mends changes that appear
// later, and takes changes long after the reset for the pod's own.
func TestLateEffectsOfAReset(t *testing.T) {
	w := watchPod(t, fake.IGB, everything(t))
	down := func() { w.do(w.k.Do(t.Context(), step.SetUp{VF: w.rec.PCI, Netns: podNetns})) }
	isUp := func() bool {
		st, err := w.k.VF(t.Context(), w.rec.PCI, podNetns)
		w.do(err)
		return st.Link.Up
	}
	w.k.Cable(w.pf, false)
	w.passAfter(time.Second)
	down()
	w.passAfter(time.Minute)
	if isUp() {
		t.Error("it was set up while its PF had no link")
	}
	w.k.Cable(w.pf, true)
	w.passAfter(time.Second)
	if !isUp() {
		t.Error("it is down although its PF is back")
	}
	down()
	w.passAfter(30 * time.Second)
	if !isUp() {
		t.Error("it is down half a minute after its PF came back")
	}
	w.passAfter(time.Minute)
	down()
	w.passAfter(time.Minute)
	if isUp() {
		t.Error("what the pod did long after the reset was undone")
	}
}

// A trusted VF may set its own MAC address, which the PF then reports: that address stays. culvertd
// sets an address again that the PF forgot.
func TestForgottenMACIsSetAgain(t *testing.T) {
	w := watchPod(t, fake.IGB, everything(t))
	set := func(admin, link vf.MAC) {
		w.do(w.k.Meddle(w.rec.PCI, func(st *vf.State) { st.Admin.MAC, st.Link.MAC = admin, link }))
	}
	admin := func() vf.MAC {
		st, err := w.k.VF(t.Context(), w.rec.PCI, podNetns)
		w.do(err)
		return st.Admin.MAC
	}
	other := vf.MAC{2, 9, 9, 9, 9, 9}
	set(other, other)
	w.passAfter(time.Minute)
	if got := admin(); got != other {
		t.Errorf("the MAC of a trusted VF was set back to %s", got)
	}
	w.do(w.k.Do(t.Context(), step.SetUp{VF: w.rec.PCI, Netns: podNetns}))
	w.passAfter(time.Minute)
	if st, err := w.k.VF(t.Context(), w.rec.PCI, podNetns); err != nil || st.Link.Up {
		t.Errorf("another MAC counts as a reset: %v", err)
	}
	w.do(w.k.Do(t.Context(), step.SetUp{VF: w.rec.PCI, Netns: podNetns, Up: true}))
	set(vf.MAC{}, w.rec.Lease.LinkMAC)
	w.passAfter(time.Minute)
	if got := admin(); got != w.rec.Lease.LinkMAC {
		t.Errorf("the MAC that the PF forgot is %s, want %s", got, w.rec.Lease.LinkMAC)
	}
}

// A PF whose driver is bound anew destroys the VFs of pods. Their leases end, the VFs are made anew
// and are free, and each pod gets an event that it has to be restarted.
func TestPodIsToldToRestart(t *testing.T) {
	for name, between := range map[string]bool{"at once": false, "with a pass in between": true} {
		t.Run(name, func(t *testing.T) {
			w := watchPod(t, fake.IGB, everything(t))
			w.do(w.k.RemovePF(w.pf))
			if between {
				w.passAfter(time.Second)
			}
			w.do(w.k.AddPF(w.pf, w.pf))
			w.passAfter(time.Second)
			w.passAfter(time.Minute)
			clean(t, w.n, 14)
			if len(w.events) != 1 || !strings.HasPrefix(w.events[0], "default/a Warning VFLost its VF 0000:") || !strings.Contains(w.events[0], "restart the pod") {
				t.Errorf("%q", w.events)
			}
			if err := w.n.Resets.Detach(t.Context(), w.rec.Lease.Owner); err != nil {
				t.Error("the DEL of the pod that is restarted:", err)
			}
			clean(t, w.n, 14)
		})
	}
}

// After a VF was made anew, culvertd does not apply its memory of the VF's earlier pod to the next
// pod, although both leases have the same generation.
func TestNextPodOnAVFThatWasMadeAnew(t *testing.T) {
	w := watchPod(t, fake.IGB, everything(t))
	w.k.Cable(w.pf, false)
	w.k.Cable(w.pf, true)
	w.do(w.k.SetMailbox(w.pf, false))
	for range 3 {
		w.passAfter(time.Minute)
	}
	if !w.n.VFs.IsDark(w.rec) {
		t.Fatal("the VF has carrier")
	}
	w.do(w.k.RemovePF(w.pf))
	w.passAfter(time.Second)
	w.do(w.k.AddPF(w.pf, w.pf))
	w.do(w.k.SetMailbox(w.pf, true))
	w.passAfter(time.Second)
	req := everything(t)
	req.Owner.UID, req.Owner.Name, req.VF = "c2", "default/b", w.rec.PCI
	next, err := w.n.Engine.Attach(t.Context(), req)
	w.do(err)
	if next.ID != w.rec.ID || next.Generation != w.rec.Generation {
		t.Fatalf("VF %s, generation %d: want %s, %d", next.ID, next.Generation, w.rec.ID, w.rec.Generation)
	}
	if w.n.VFs.IsDark(next) {
		t.Error("the next pod's VF is dark at once")
	}
	w.do(w.k.Do(t.Context(), step.SetMTU{VF: next.PCI, Netns: podNetns, MTU: 1300}))
	w.passAfter(time.Second)
	if st, err := w.k.VF(t.Context(), next.PCI, podNetns); err != nil || st.Link.MTU != 1300 {
		t.Errorf("the pod's MTU was set back to %d: %v", st.Link.MTU, err)
	}
}

// A VF whose own driver is bound anew is back on the host, while its pod runs on: the pod has to be
// restarted. A pod that ends gets no such event.
func TestPodWhoseVFIsBackIsToldToRestart(t *testing.T) {
	w := watchPod(t, fake.IGB, everything(t))
	a := &answers{knows: true}
	w.n.Upkeep.KnowsPod = a.knowsPod
	w.do(w.k.Do(t.Context(), step.Unbind{VF: w.rec.PCI}))
	w.do(w.k.Do(t.Context(), step.Bind{VF: w.rec.PCI}))
	w.passAfter(time.Second)
	if len(w.events) > 0 {
		t.Errorf("a pod that may be ending has the events %q", w.events)
	}
	for range 4 {
		w.passAfter(30 * time.Second)
	}
	if len(w.events) != 1 || !strings.Contains(w.events[0], "VFLost") || !strings.Contains(w.events[0], "back on the host") || !strings.Contains(w.events[0], "restart the pod") {
		t.Errorf("%q", w.events)
	}
}

// A pod with a VF of vfio never gets the event that its VF is back on the host.
func TestVFIOIsNotBack(t *testing.T) {
	req := everything(t)
	req.IPAM, req.Spec = ipam.Config{}, vf.Spec{Interface: "net1"}
	k, n := nodeOf(t, fake.IGB)
	n.SetSpec(desired.Spec{PFs: n.Spec().PFs, Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.VFIO}}})
	pass(t, n)
	a := &answers{knows: true}
	a.serve(n)
	var events []string
	n.Upkeep.PodEvent = func(_ journal.Lease, _, reason, text string) { events = append(events, reason+" "+text) }
	rec, err := n.Engine.Attach(t.Context(), req)
	if err != nil || rec.Lease.Wanted.Driver != vf.DriverVFIO {
		t.Fatal(err, rec.Lease.Wanted.Driver)
	}
	a.watchFor(t, n, 3*time.Minute)
	if len(events) > 0 || !isHeld(t, n, rec) {
		t.Errorf("%q\n%s", events, k)
	}
}

// A VF that its PF does not answer has no carrier, although the PF has a link. If that lasts,
// culvertd reports it, emits an event of the pod, and binds the VF's driver anew before another pod
// gets the VF. If the driver then makes up a MAC address, the VF is set aside, and pods get other
// VFs.
func TestVFWithoutCarrier(t *testing.T) {
	req := everything(t)
	req.Spec.MAC = nil // else its driver is bound anew at each release
	w := watchPod(t, fake.IGB, req)
	since := len(w.ledgerEvents(0))
	w.do(w.k.SetMailbox(w.pf, false))
	w.passAfter(time.Minute)
	if w.n.VFs.IsDark(w.rec) || len(w.events) > 0 {
		t.Errorf("one look is enough: %q", w.events)
	}
	for range 3 {
		w.passAfter(time.Minute)
	}
	if !w.n.VFs.IsDark(w.rec) || len(w.events) != 1 || !strings.Contains(w.events[0], "VFNoCarrier") || !strings.Contains(w.events[0], "has no carrier, although PF enp1s0 has a link") {
		t.Errorf("dark %t, %q", w.n.VFs.IsDark(w.rec), w.events)
	}
	if got := w.ledgerEvents(since); len(got) != 1 || !strings.HasPrefix(got[0], "VFNoCarrier ") {
		t.Errorf("%q", got)
	}
	w.do(w.k.SetMailbox(w.pf, true))
	w.passAfter(time.Minute)
	if got := w.ledgerEvents(since); w.n.VFs.IsDark(w.rec) || len(got) != 2 || !strings.HasPrefix(got[1], "VFCarrier ") {
		t.Errorf("it has carrier again: dark %t, %q", w.n.VFs.IsDark(w.rec), got)
	}
	w.do(w.k.SetMailbox(w.pf, false))
	w.passAfter(time.Minute)
	w.now = w.now.Add(15 * time.Second)
	w.do(w.n.Resets.Detach(t.Context(), w.rec.Lease.Owner))
	if got := recordOf(t, w.n, w.rec); got.Phase != vf.PhaseQuarantined || !strings.Contains(got.Reason, "link mac is ") || !strings.Contains(got.Reason, "the PF did not answer") {
		t.Errorf("a VF that the PF does not answer is %s: %s", got.Phase, got.Reason)
	}
	next, err := w.n.Engine.Attach(t.Context(), everything(t))
	if err != nil || next.ID == w.rec.ID {
		t.Errorf("the next pod has VF %s, %v", next.ID, err)
	}
	w.do(w.n.Resets.Detach(t.Context(), next.Lease.Owner))
	w.do(w.k.SetMailbox(w.pf, true))
	for range 3 {
		w.passAfter(11 * time.Minute)
	}
	clean(t, w.n, 14)
}

// The carrier of a VF comes some seconds after its interface was set up. A pod that ends soon does
// not pay for a new bind of the driver at the release, whether its carrier has come or not.
func TestShortPodsNeedNoBind(t *testing.T) {
	for name, test := range map[string]struct {
		comes bool // the carrier, after 3 s
		ends  time.Duration
		binds bool
	}{
		"came, 5 s":   {true, 5 * time.Second, false},
		"came, 15 s":  {true, 15 * time.Second, false},
		"never, 5 s":  {false, 5 * time.Second, false},
		"never, 15 s": {false, 15 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			req := everything(t)
			req.Spec.MAC = nil
			w := watchPod(t, fake.IGB, req)
			w.do(w.n.Resets.Detach(t.Context(), w.rec.Lease.Owner))
			w.do(w.k.SetMailbox(w.pf, false))
			rec, err := w.n.Engine.Attach(t.Context(), req)
			w.do(err)
			w.passAfter(time.Second)
			w.do(w.k.SetMailbox(w.pf, test.comes))
			w.now = w.now.Add(test.ends - time.Second)
			binds := 0
			w.k.faults.Fail(func(_ faulty.Moment, s step.Step) error {
				if faulty.Kind(s) == "Unbind" {
					binds++
				}
				return nil
			})
			w.do(w.n.Resets.Detach(t.Context(), rec.Lease.Owner))
			if binds > 0 != test.binds {
				t.Errorf("%d unbinds", binds)
			}
		})
	}
}

// A VF has no carrier by itself while its PF has none, while its interface is down, and where its
// network wants that. None of it is a problem of the VF.
func TestVFsThatNeedNoCarrier(t *testing.T) {
	w := watchPod(t, fake.ICE, everything(t))
	w.do(w.k.SetMailbox(w.pf, false))
	check := func(name string) {
		t.Helper()
		for range 3 {
			w.passAfter(time.Minute)
		}
		if w.n.VFs.IsDark(w.rec) || len(w.events) > 0 {
			t.Errorf("%s: %q", name, w.events)
		}
	}
	w.k.Cable(w.pf, false)
	check("no link")
	w.do(w.k.Do(t.Context(), step.SetUp{VF: w.rec.PCI, Netns: podNetns}))
	w.do(w.k.Do(t.Context(), step.DelAddress{VF: w.rec.PCI, Netns: podNetns, Address: netip.MustParsePrefix("10.1.0.2/24")}))
	w.n.SetSpec(desired.Spec{PFs: w.n.Spec().PFs, Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice, Drift: desired.ReportDrift}}})
	w.k.Cable(w.pf, true)
	check("down")
	req := everything(t)
	req.Owner.UID, req.Spec.MAC, req.Spec.Interface, req.IPAM = "c2", nil, "net2", ipam.Config{}
	req.Spec.LinkState = ptr(vf.LinkDisable)
	rec, err := w.n.Engine.Attach(t.Context(), req)
	w.do(err)
	w.rec = rec
	check("link_state: disable")
}

// Rates that an ixgbe drops when its link comes up at another speed are set again, the ledger has
// an event of it, and the other VFs of the PF get theirs, too.
func TestDroppedRatesAreReported(t *testing.T) {
	req := limited(vf.Spec{MaxTxRate: ptr(uint32(500))})
	w := watchPod(t, fake.IXGBE, req)
	other := req
	other.Owner.UID, other.Owner.Interface, other.Spec.Interface, other.Spec.MaxTxRate = "c2", "net2", "net2", ptr(uint32(700))
	other.VF = pfOf(t, w.n, w.rec.ID.PF).VFs[5].PCI
	second, err := w.n.Engine.Attach(t.Context(), other)
	w.do(err)
	since := len(w.ledgerEvents(0))
	w.do(w.k.SetLinkSpeed(w.pf, 1000))
	w.do(w.k.SetLinkSpeed(w.pf, fake.IXGBE.SpeedMbps))
	w.passAfter(time.Second)
	for _, rec := range []journal.Record{w.rec, second} {
		st, err := w.k.VF(t.Context(), rec.PCI, podNetns)
		w.do(err)
		if want := *rec.Lease.Wanted.MaxTxRate; st.Admin.MaxTxRate != want {
			t.Errorf("VF %s: max_tx_rate %d, want %d", rec.PCI, st.Admin.MaxTxRate, want)
		}
	}
	got := w.ledgerEvents(since)
	for _, want := range []string{"max_tx_rate is 0, not 500", "max_tx_rate is 0, not 700"} {
		if !slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, "DriftMended ") && strings.Contains(e, want) }) {
			t.Errorf("no event %q: %q", want, got)
		}
	}
	if len(w.events) > 0 {
		t.Errorf("the pod has the events %q, although its VF was mended", w.events)
	}
}

// A setting of the PF that cannot be mended, such as a rate that the driver refuses, does not hide
// that the interface has no carrier. The events list the settings that were mended after the reset.
func TestUnmendableDriftHidesNothing(t *testing.T) {
	w := watchPod(t, fake.IGB, everything(t))
	since := len(w.ledgerEvents(0))
	w.k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if m == faulty.Before && faulty.Kind(s) == "SetVFRate" {
			return errors.New("operation not supported")
		}
		return nil
	})
	w.do(w.k.ResetPF(w.pf))
	w.do(w.k.SetMailbox(w.pf, false))
	for range 4 {
		w.now = w.now.Add(30 * time.Second)
		if err := w.n.Reconciler.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "operation not supported") {
			t.Error("the error of the rate is lost:", err)
		}
	}
	got := w.ledgerEvents(since)
	for _, want := range []string{"DriftMended vlan", "DriftMended up is false", "Drifted max_tx_rate is 0, not 200", "VFNoCarrier "} {
		reason, text, _ := strings.Cut(want, " ")
		matches := slices.DeleteFunc(slices.Clone(got), func(e string) bool { return !strings.HasPrefix(e, reason+" ") || !strings.Contains(e, text) })
		if len(matches) != 1 {
			t.Errorf("%d events %q of\n%s", len(matches), want, strings.Join(got, "\n"))
		}
	}
	if !w.n.VFs.IsDark(w.rec) {
		t.Error("the VF is not dark")
	}
}

// culvertd emits one event about a difference that it cannot mend in a pod, however often the PF
// loses its link.
func TestUnmendedLinkIsReportedOnce(t *testing.T) {
	w := watchPod(t, fake.IGB, everything(t))
	since := len(w.ledgerEvents(0))
	w.k.faults.Fail(func(m faulty.Moment, s step.Step) error {
		if m == faulty.Before && faulty.Kind(s) == "SetMTU" {
			return errors.New("device or resource busy")
		}
		return nil
	})
	w.do(w.k.ResetPF(w.pf))
	for range 20 {
		w.k.Cable(w.pf, false)
		w.k.Cable(w.pf, true)
		w.passAfter(15 * time.Second)
	}
	got := slices.DeleteFunc(w.ledgerEvents(since), func(e string) bool { return !strings.HasPrefix(e, "Drifted ") })
	if len(got) != 1 || !strings.Contains(got[0], "mtu is 1500, not 1400") {
		t.Errorf("%d events: %q", len(got), got)
	}
	if len(w.events) != 1 || !strings.Contains(w.events[0], "VFChanged") {
		t.Errorf("the pod has %d events: %q", len(w.events), w.events)
	}
}
