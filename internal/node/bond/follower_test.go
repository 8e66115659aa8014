package bond_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/bond"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

const podNetns = "/run/netns/c1"

// world is a node on the fake kernel with a bond of two VFs, a Follower, and a clock of its own.
type world struct {
	*faulty.Kernel
	t     *testing.T
	k     *fake.Kernel
	n     *node.Node
	f     *bond.Follower
	clock atomic.Int64
	pfs   []vf.PCIAddr // by number

	unreadable []vf.PCIAddr
	log        bytes.Buffer // warnings of the Follower; read it when no move runs
}

// Carrier fails for the PFs of unreadable.
func (w *world) Carrier(pf vf.PCIAddr) (bool, error) {
	if slices.Contains(w.unreadable, pf) {
		return false, syscall.EMFILE
	}
	return w.k.Carrier(pf)
}

// newWorld returns a world with a bond of VFs of two PFs. The bond prefers the named PF, if there
// is a name.
func newWorld(t *testing.T, primary string) *world {
	t.Helper()
	return newWorldOf(t, 2, primary)
}

// newWorldOf returns a world with a bond of VFs of so many PFs.
func newWorldOf(t *testing.T, pfs int, primary string) *world {
	t.Helper()
	return newWorldWith(t, pfs, 2, primary)
}

// newWorldWith returns a world with so many PFs, and so many VFs on each.
func newWorldWith(t *testing.T, pfs, vfs int, primary string) *world {
	t.Helper()
	w := &world{t: t, k: fake.New(fake.IGB, pfs)}
	w.Kernel = faulty.New(w.k)
	l, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	spec, err := desired.Parse("host.yaml", fmt.Appendf(nil, "pfs:\n- name: \"*\"\n  vfs: %d\npools:\n- name: fast\n  prefix: intel.com\n  selectors: {pfNames: [\"*\"]}\n", vfs))
	if err != nil {
		t.Fatal(err)
	}
	w.n = node.New(node.Config{Kernel: w.Kernel, Ledger: l, BootID: "b"})
	w.n.SetSpec(spec)
	if err := errors.Join(w.n.Start(t.Context()), w.n.Reconciler.Pass(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, pf := range w.n.Inventory.PFs() {
		w.pfs = append(w.pfs, pf.PCI)
	}
	w.startFollower()
	w.lookOnce()
	w.attachBond("c1", "10.1.0.5/24", vf.Bond{Links: pfs, Primary: primary})
	return w
}

// attachBond attaches a bond to a pod.
func (w *world) attachBond(pod, address string, b vf.Bond) {
	w.t.Helper()
	addresses, err := ipam.Parse([]byte(`{"type":"static","addresses":[{"address":"` + address + `"}]}`))
	if err != nil {
		w.t.Fatal(err)
	}
	b.Mode, b.AntiAffinity = vf.BondActiveBackup, vf.ApartPF
	w.k.AddNetns("/run/netns/" + pod)
	_, err = w.n.Engine.AttachBond(w.t.Context(), attach.Request{
		Owner: vf.Owner{Kind: vf.OwnerPod, UID: pod, Name: "default/" + pod, Interface: "net1"}, Network: "blue", Netns: "/run/netns/" + pod, IPAM: addresses,
		Bond: &b, Spec: vf.Spec{Interface: "net1"},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.n.VFs.Wait()
}

// startFollower starts a Follower, as culvertd does when it starts.
func (w *world) startFollower() {
	w.f = bond.New(w, w.n.Ledger, w.n.Inventory, slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	w.f.Now = func() time.Time { return time.Unix(0, w.clock.Load()) }
}

// lookOnce reads the ledger, looks at the PFs once and waits for the moves.
func (w *world) lookOnce() {
	w.t.Helper()
	if err := w.f.ReadBonds(); err != nil {
		w.t.Fatal(err)
	}
	w.f.LookAtPFs(w.t.Context())
	w.f.Wait()
}

func (w *world) passTime(d time.Duration) { w.clock.Add(int64(d)) }

// listMembers returns the state of the bond's VFs that exist, by the number of the PF.
func (w *world) listMembers() map[int]vf.State {
	w.t.Helper()
	records, err := w.n.Records()
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[int]vf.State{}
	for _, r := range records {
		if r.Phase != vf.PhaseAttached || r.Lease.Netns != podNetns {
			continue
		}
		if st, err := w.k.VF(w.t.Context(), r.PCI, podNetns); err == nil && st.Link != nil && st.Link.Bond != nil {
			out[slices.Index(w.pfs, w.pfOf(r.PCI))] = st
		}
	}
	return out
}

// pfOf returns the address of a VF's PF. On the fake kernel each PF has a bus of its own, which its
// VFs share.
func (w *world) pfOf(v vf.PCIAddr) vf.PCIAddr {
	return w.pfs[slices.IndexFunc(w.pfs, func(pf vf.PCIAddr) bool { return pf.Bus == v.Bus })]
}

// findSender returns the number of the PF whose VF sends, -1 if there is none.
func (w *world) findSender() int {
	w.t.Helper()
	for i, st := range w.listMembers() {
		if st.Link.Bond.Active {
			return i
		}
	}
	return -1
}

func (w *world) wantSender(what string, sender int) {
	w.t.Helper()
	w.lookOnce()
	if got := w.findSender(); got != sender {
		w.t.Errorf("%s: PF %d sends, want PF %d", what, got, sender)
	}
}

// listEvents returns the reasons of the ledger's events about bonds, the oldest first.
func (w *world) listEvents() (out []string) {
	w.t.Helper()
	err := w.n.Ledger.View(func(tx *journal.Tx) error {
		for _, e := range tx.Events(0) {
			if strings.HasPrefix(e.Reason, "Bond") {
				out = append(out, e.Reason)
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func TestBondFollowsTheWires(t *testing.T) {
	w := newWorld(t, "")
	var failovers atomic.Int32
	w.f.FailedOver = func() { failovers.Add(1) }
	before := w.k.String()
	w.wantSender("all wires are in", 0)
	if after := w.k.String(); after != before {
		t.Error(cmp.Diff(before, after))
	}
	announced := len(w.k.Announced())
	w.k.Cable(w.pfs[0], false)
	w.wantSender("the first wire is pulled", 1)
	if got := w.k.Announced(); len(got) != announced+1 || !strings.Contains(fmt.Sprint(got[announced:]), "10.1.0.5") {
		t.Errorf("announced %v", got)
	}
	w.k.Cable(w.pfs[0], true)
	w.wantSender("it is in again", 1)
	w.passTime(time.Minute)
	w.wantSender("it is in for long, and no PF is preferred", 1)
	w.k.Cable(w.pfs[1], false)
	w.wantSender("the second wire is pulled", 0)
	w.k.Cable(w.pfs[0], false)
	w.wantSender("both are pulled", 0)
	w.k.Cable(w.pfs[1], true)
	w.wantSender("the second is in again", 1)
	if got := failovers.Load(); got != 3 {
		t.Errorf("%d fail-overs were counted, want 3", got)
	}
	if diff := cmp.Diff([]string{"BondFailedOver", "BondFailedOver", "BondFailedOver"}, w.listEvents()); diff != "" {
		t.Error(diff)
	}
}

// If a wire is pulled over which the bond does not send, the Follower changes, announces and
// reports nothing.
func TestBondThatSendsElsewhereIsLeft(t *testing.T) {
	w := newWorld(t, "enp1s0")
	w.wantSender("all wires are in", 0)
	announced := len(w.k.Announced())
	for range 3 {
		w.k.Cable(w.pfs[1], false)
		w.wantSender("the other wire is pulled", 0)
		w.k.Cable(w.pfs[1], true)
		w.passTime(time.Minute)
		w.wantSender("it is in again", 0)
	}
	if got := w.listEvents(); len(got) > 0 || len(w.k.Announced()) != announced || w.log.Len() > 0 {
		t.Errorf("events %v, announced %v, warnings %s", got, w.k.Announced()[announced:], w.log.String())
	}
}

// The kernel moves bonds by ARP requests, too. It may do so before the Follower, and it may move a
// bond back to a PF without carrier.
func TestBondThatTheKernelMoves(t *testing.T) {
	w := newWorld(t, "")
	members := w.listMembers()
	w.k.Cable(w.pfs[0], false)
	if err := w.k.Activate(members[1].PCI); err != nil {
		t.Fatal(err)
	}
	w.wantSender("the kernel was faster", 1)
	if got := w.listEvents(); len(got) > 0 {
		t.Errorf("events of a move that the kernel made: %v", got)
	}
	if err := w.k.Activate(members[0].PCI); err != nil {
		t.Fatal(err)
	}
	w.passTime(time.Second)
	w.wantSender("the kernel has moved it back", 1)
	if diff := cmp.Diff([]string{"BondFailedOver"}, w.listEvents()); diff != "" {
		t.Error(diff)
	}
}

// A bond whose PF goes down fails over like a bond whose wire is pulled.
func TestBondOfAPFThatIsDown(t *testing.T) {
	w := newWorld(t, "")
	w.wantSender("all are up", 0)
	w.k.TakePFDown(w.pfs[0])
	w.wantSender("the first is down", 1)
}

// A member that is unplugged, or that the kernel counts as down, is not used: the Follower takes
// the next member.
func TestBondWithABrokenMember(t *testing.T) {
	for name, breakMember := range map[string]func(w *world, v vf.PCIAddr) error{
		"unplugged": func(w *world, v vf.PCIAddr) error { return w.k.RemoveVF(v) },
		"down":      func(w *world, v vf.PCIAddr) error { return w.k.Meddle(v, func(st *vf.State) { st.Link.Up = false }) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, 3, "")
			w.wantSender("all wires are in", 0)
			if err := breakMember(w, w.listMembers()[1].PCI); err != nil {
				t.Fatal(err)
			}
			w.k.Cable(w.pfs[0], false)
			w.wantSender("the first wire is pulled", 2)
		})
	}
}

// A move that the kernel refuses, since the only other member is down, succeeds once that member is
// up.
func TestBondWaitsForItsOnlyOtherMember(t *testing.T) {
	w := newWorld(t, "")
	other := w.listMembers()[1].PCI
	down := func(is bool) {
		t.Helper()
		if err := w.Do(t.Context(), step.SetUp{VF: other, Netns: podNetns, Up: !is}); err != nil {
			t.Fatal(err)
		}
	}
	down(true)
	w.k.Cable(w.pfs[0], false)
	w.wantSender("the other member is down", 0)
	down(false)
	w.passTime(5 * time.Second)
	w.wantSender("it is up", 1)
}

// The PF of the primary member goes away, and comes back as new hardware: no other member becomes
// the primary one, and the Follower reports no move back.
func TestBondOfAPFThatIsRebound(t *testing.T) {
	w := newWorldOf(t, 3, "enp1s0")
	w.wantSender("all are there", 0)
	if err := w.k.RemovePF(w.pfs[0]); err != nil {
		t.Fatal(err)
	}
	w.wantSender("the PF is gone, which is not listed yet", 1)
	if _, err := w.n.Inventory.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.passTime(time.Minute)
	w.wantSender("the PF is not listed", 1)
	for i, st := range w.listMembers() {
		if st.Link.Bond.Primary {
			t.Errorf("the VF of PF %d became the primary member", i)
		}
	}
	if err := w.k.AddPF(w.pfs[0], w.pfs[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := w.n.Inventory.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantSender("the PF is back, without VFs", 1)
	w.k.Cable(w.pfs[1], false)
	w.wantSender("the wire of the next one is pulled", 2)
	if diff := cmp.Diff([]string{"BondFailedOver"}, w.listEvents()); diff != "" {
		t.Error(diff)
	}
}

// A PF whose carrier cannot be read is neither chosen nor avoided.
func TestBondOfAPFThatCannotBeRead(t *testing.T) {
	w := newWorldOf(t, 3, "")
	w.unreadable = w.pfs[:1]
	w.wantSender("the first PF cannot be read", 0)
	w.k.Cable(w.pfs[1], false)
	w.wantSender("the wire of another one is pulled", 0)
	w.unreadable = nil
	w.k.Cable(w.pfs[0], false)
	w.wantSender("it can be read", 2)
	w.unreadable = w.pfs
	w.wantSender("none can be read: they are as they were", 2)
}

// A move that waits for the kernel's lock of the links delays neither the looks nor other bonds. It is
// not begun again meanwhile, and ends with culvertd; the next culvertd moves the bond.
func TestBondWhoseMoveHangs(t *testing.T) {
	w := newWorld(t, "")
	w.attachBond("c2", "10.1.0.6/24", vf.Bond{Links: 2})
	ctx, end := context.WithCancel(t.Context())
	var begun atomic.Int64
	second := make(chan struct{})
	w.Fail(func(m faulty.Moment, s step.Step) error {
		active, ok := s.(step.SetBondActive)
		switch {
		case !ok:
		case active.Netns == podNetns && m == faulty.Before:
			begun.Add(1)
			<-ctx.Done()
			return ctx.Err()
		case active.Netns != podNetns && m == faulty.After:
			close(second)
		}
		return nil
	})
	w.k.Cable(w.pfs[0], false)
	if err := w.f.ReadBonds(); err != nil {
		t.Fatal(err)
	}
	w.f.LookAtPFs(ctx)
	<-second
	for range 10 {
		w.passTime(time.Minute)
		if err := w.f.ReadBonds(); err != nil {
			t.Fatal(err)
		}
		w.f.LookAtPFs(ctx)
	}
	end()
	w.f.Wait()
	if got := begun.Load(); got != 1 {
		t.Errorf("%d moves of the bond were begun", got)
	}
	if got := w.findSender(); got != 0 {
		t.Errorf("PF %d sends", got)
	}
	w.Fail(nil)
	w.startFollower()
	w.wantSender("with the next culvertd", 1)
}

// The Follower moves a limited number of bonds at once. It decides about the waiting bonds when
// their turn comes, from the carriers at that time.
func TestBondsThatWaitForOthers(t *testing.T) {
	w := newWorld(t, "")
	w.f.LimitMoves(1)
	w.attachBond("c2", "10.1.0.6/24", vf.Bond{Links: 2})
	release, begun := make(chan struct{}), make(chan string, 100)
	w.Fail(func(m faulty.Moment, s step.Step) error {
		if active, ok := s.(step.SetBondActive); ok && m == faulty.Before {
			begun <- active.Netns
			<-release
		}
		return nil
	})
	w.k.Cable(w.pfs[0], false)
	if err := w.f.ReadBonds(); err != nil {
		t.Fatal(err)
	}
	w.f.LookAtPFs(t.Context())
	<-begun
	w.f.LookAtPFs(t.Context())
	if n := len(begun); n > 0 {
		t.Errorf("%d moves more than allowed at once", n)
	}
	close(release)
	w.f.Wait()
	w.f.LookAtPFs(t.Context())
	w.f.Wait()
	if diff := cmp.Diff([]string{"BondFailedOver", "BondFailedOver"}, w.listEvents()); diff != "" {
		t.Error(diff)
	}
}

// A bond with a primary PF returns to that PF when the PF's wire has been in for the hold-down, and
// not while the wire flaps.
func TestBondReturnsToItsPrimary(t *testing.T) {
	w := newWorld(t, "enp2s0")
	var failovers atomic.Int32
	w.f.FailedOver = func() { failovers.Add(1) }
	w.wantSender("all wires are in", 1)
	w.k.Cable(w.pfs[1], false)
	w.wantSender("the primary's wire is pulled", 0)
	for range 20 {
		w.k.Cable(w.pfs[1], true)
		w.wantSender("the wire flaps", 0)
		w.passTime(4 * time.Second)
		w.wantSender("the wire flaps", 0)
		w.k.Cable(w.pfs[1], false)
		w.wantSender("the wire flaps", 0)
	}
	w.k.Cable(w.pfs[1], true)
	w.wantSender("the wire is in", 0)
	w.passTime(5 * time.Second)
	w.wantSender("the wire stays in", 1)
	if diff := cmp.Diff([]string{"BondFailedOver", "BondMovedBack"}, w.listEvents()); diff != "" {
		t.Error(diff)
	}
	if got := failovers.Load(); got != 1 {
		t.Errorf("%d fail-overs were counted, want 1: the move back is none", got)
	}
}

// If the last settled PF loses its carrier, the bond sends over a PF that has carrier, even during
// the hold-down of that PF.
func TestBondUsesWhatIsLeft(t *testing.T) {
	w := newWorld(t, "")
	w.k.Cable(w.pfs[0], false)
	w.wantSender("the first wire is pulled", 1)
	w.k.Cable(w.pfs[0], true)
	w.wantSender("it is in", 1)
	w.k.Cable(w.pfs[1], false)
	w.wantSender("the second is pulled during the hold-down of the first", 0)
}

// A culvertd that starts moves a bond away from a PF that lost its carrier meanwhile. It moves a
// bond back that an earlier culvertd moved away from its primary PF.
func TestBondAfterARestart(t *testing.T) {
	w := newWorld(t, "enp2s0")
	w.k.Cable(w.pfs[1], false)
	w.startFollower()
	w.wantSender("the wire was pulled without culvertd", 0)
	w.k.Cable(w.pfs[1], true)
	w.startFollower()
	w.wantSender("the wire was plugged in without culvertd", 1)
	events := w.listEvents()
	w.startFollower()
	w.wantSender("all is well", 1)
	if diff := cmp.Diff(events, w.listEvents()); diff != "" {
		t.Errorf("events of a start with nothing to do: %s", diff)
	}
}

// A move that fails is tried again after a pause; the pauses grow. The Follower leaves a bond alone
// whose pod is gone.
func TestBondThatCannotBeMoved(t *testing.T) {
	w := newWorld(t, "")
	tries := 0
	w.Fail(func(m faulty.Moment, s step.Step) error {
		if _, ok := s.(step.SetBondActive); ok && m == faulty.Before {
			tries++
			return vf.ErrUnable
		}
		return nil
	})
	w.k.Cable(w.pfs[0], false)
	for range 1000 {
		w.lookOnce()
		w.passTime(10 * time.Millisecond)
	}
	if tries < 4 || tries > 8 {
		t.Errorf("%d tries in ten seconds", tries)
	}
	if got := strings.Count(w.log.String(), "\n"); got != 1 {
		t.Errorf("%d warnings: %s", got, w.log.String())
	}
	w.log.Reset()
	w.Fail(nil)
	w.passTime(5 * time.Second)
	w.wantSender("it can be moved", 1)
	w.k.Cable(w.pfs[0], true)
	w.passTime(time.Minute)
	w.lookOnce()
	w.k.DelNetns(podNetns)
	w.k.Cable(w.pfs[1], false)
	w.lookOnce()
	if diff := cmp.Diff([]string{"BondFailedOver"}, w.listEvents()); diff != "" || w.log.Len() > 0 {
		t.Errorf("%s; warnings %s", diff, w.log.String())
	}
}

// Run sees a new bond and a pulled wire without a call of the test, and ends with its context.
func TestRun(t *testing.T) {
	w := newWorld(t, "")
	w.startFollower()
	w.f.Now = time.Now
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.f.Run(ctx) }()
	w.k.Cable(w.pfs[0], false)
	for w.findSender() != 1 { // the test's own timeout ends this
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Two wires that flap move a bond at each look, and so does a pod that moves it back itself. Such a
// bond has few events, which count its moves, so the ledger keeps the other events of the node.
func TestBondOfTwoFlappingWires(t *testing.T) {
	w := newWorld(t, "")
	members := w.listMembers()
	for name, moveOnce := range map[string]func(i int){
		"two wires flap": func(i int) {
			w.k.Cable(w.pfs[i%2], false)
			w.k.Cable(w.pfs[1-i%2], true)
		},
		"the pod moves the bond back": func(int) {
			w.k.Cable(w.pfs[0], false)
			w.k.Cable(w.pfs[1], true)
			if err := w.k.Activate(members[0].PCI); err != nil {
				t.Fatal(err)
			}
		},
	} {
		w.passTime(2 * time.Hour) // the bond is at rest
		w.lookOnce()
		before, announced := len(w.listEvents()), len(w.k.Announced())
		for i := range 3000 { // 50 minutes
			moveOnce(i)
			w.lookOnce()
			w.passTime(time.Second)
		}
		moves := len(w.k.Announced()) - announced
		if got := len(w.listEvents()) - before; moves < 2900 || got < 5 || got > 8 {
			t.Errorf("%s: %d events of %d moves", name, got, moves)
		}
		w.passTime(11 * time.Minute)
		w.lookOnce()
		if got := w.countMoves(before); got != moves {
			t.Errorf("%s: the events tell of %d moves of %d", name, got, moves)
		}
	}
}

// countMoves returns how many moves the events of bonds stand for. It skips the first events, as
// many as without says.
func (w *world) countMoves(without int) (n int) {
	w.t.Helper()
	err := w.n.Ledger.View(func(tx *journal.Tx) error {
		for _, e := range tx.Events(0) {
			if !strings.HasPrefix(e.Reason, "Bond") {
				continue
			}
			if without--; without >= 0 {
				continue
			}
			var merged int
			if _, after, is := strings.Cut(e.Text, "stands for "); !is {
				n++
			} else if _, err := fmt.Sscan(after, &merged); err != nil {
				w.t.Errorf("%s: %v", e.Text, err)
			}
			n += merged
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// slowLedger writes nothing until it is released.
type slowLedger struct {
	node.Ledger

	release chan struct{}
}

func (l slowLedger) Update(f func(*journal.Tx) error) error {
	<-l.release
	return l.Ledger.Update(f)
}

// An announcement waits for the carrier of the member that sends, and an event for the disk.
// Meanwhile the Follower moves all other bonds, and each gets its event.
func TestI7MovesDoNotWaitForAnnouncements(t *testing.T) {
	const bonds = 7
	w := newWorldWith(t, 2, bonds, "")
	for i := range bonds - 1 {
		w.attachBond(fmt.Sprintf("more%d", i), fmt.Sprintf("10.1.1.%d/24", i+1), vf.Bond{Links: 2})
	}
	w.f.LimitMoves(2)
	release := make(chan struct{})
	w.f.Ledger = slowLedger{w.n.Ledger, release}
	var moved atomic.Int64
	w.Fail(func(m faulty.Moment, s step.Step) error {
		switch s.(type) {
		case step.SetBondActive:
			if m == faulty.After {
				moved.Add(1)
			}
		case step.Announce:
			<-release
		}
		return nil
	})
	w.k.Cable(w.pfs[0], false)
	if err := w.f.ReadBonds(); err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		if w.f.LookAtPFs(t.Context()); moved.Load() == bonds {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if got := moved.Load(); got != bonds {
		t.Errorf("%d of %d bonds were moved while announcements waited", got, bonds)
	}
	close(release)
	w.f.Wait()
	if got := len(w.listEvents()); got != bonds {
		t.Errorf("%d events of %d moves", got, bonds)
	}
}

// A pod that renames its bond keeps its network when a wire is pulled.
func TestBondThatThePodRenames(t *testing.T) {
	w := newWorld(t, "")
	if err := w.k.RenameBond(w.listMembers()[0].PCI, "mine", true); err != nil {
		t.Fatal(err)
	}
	w.k.Cable(w.pfs[0], false)
	w.wantSender("the first wire is pulled", 1)
}
