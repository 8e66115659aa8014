package membership

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/inventory"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// The Node gets one event when a PF with VFs loses its link, and one when the link is back. A PF
// that cannot be read, or is not there, has no new link.
func TestLinkEvents(t *testing.T) {
	m, c := joined(t)
	k := m.Node.VFs.Kernel.(*fake.Kernel)
	pf := vf.PCIAddr{Bus: 1}
	picture, unread, gone := m.Status, false, false
	m.Status = func(ctx context.Context) (api.NodeStatus, error) {
		n, err := picture(ctx)
		if gone {
			n.PFs = nil
		}
		for i := range n.PFs {
			if unread {
				n.PFs[i].Up, n.PFs[i].Carrier, n.PFs[i].MTU = false, false, 0
			}
		}
		return n, err
	}
	down := []string{"Warning LinkDown link of PF enp1s0: no carrier, so its VFs reach only each other: "}
	for _, step := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"a PF without VFs", func() { k.Cable(pf, false) }, nil},
		{"VFs, and a cable", func() { k.Cable(pf, true); c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 3, "a")} }, nil},
		{"no cable", func() { k.Cable(pf, false) }, down},
		{"unread", func() { unread = true }, nil},
		{"gone", func() { unread, gone = false, true }, nil},
		{"a cable", func() { gone = false; k.Cable(pf, true) }, []string{"Normal LinkUp link of PF enp1s0: that is over: no carrier"}},
		{"unread, with a cable", func() { unread = true }, nil},
	} {
		step.change()
		c.events = nil
		for range 2 {
			m.look(t)
		}
		if !slices.EqualFunc(c.events, step.want, strings.HasPrefix) {
			t.Errorf("%s: %q\nwant %q", step.name, c.events, step.want)
		}
	}
}

// A PF that is down is another trouble than one without carrier.
func TestLinkTroubles(t *testing.T) {
	vfs := api.Counts{Total: 1}
	got := findTroubles(api.NodeStatus{}, nil)
	findLinkTroubles(got, []api.PF{
		{PF: vf.PF{Name: "a", MTU: 1500}, VFs: vfs}, {PF: vf.PF{Name: "b", MTU: 1500, Up: true}, VFs: vfs},
		{PF: vf.PF{Name: "c", MTU: 1500, Up: true, Carrier: true}, VFs: vfs}, {PF: vf.PF{Name: "d", MTU: 1500}},
		{PF: vf.PF{Name: "e", MTU: 1500, Up: true, Carrier: true, Flapping: true}, VFs: vfs},
	}, nil)
	if len(got) != 3 || got["link of PF e"].Begins != "LinkFlapping" || !strings.Contains(got["link of PF a"].Text, "is down") || !strings.Contains(got["link of PF b"].Text, "no carrier") {
		t.Errorf("%+v", got)
	}
}

// A change of a link is in the NodeState at once, however long other changes wait. That includes a
// change while the NodeState is being written.
func TestLinkChangesAreWrittenAtOnce(t *testing.T) {
	m, c := joined(t)
	m.writeInterval, m.idleInterval = time.Hour, time.Hour
	k := m.Node.VFs.Kernel.(*fake.Kernel)
	pf := vf.PCIAddr{Bus: 1}
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 3, "a")}
	m.look(t)
	cable := func(in bool) {
		k.Cable(pf, in)
		if _, err := m.Node.Inventory.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
	}
	picture, pulled := m.Status, false
	m.Status = func(ctx context.Context) (api.NodeStatus, error) {
		n, err := picture(ctx)
		if !pulled {
			pulled = true
			cable(false) // n has the earlier state
		}
		return n, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	defer func() { cancel(); _ = g.Wait() }()
	carrier := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.written) > 0 && c.written[len(c.written)-1].PFs[0].Carrier
	}
	if !carrier() {
		t.Fatal("no link before the cable was pulled")
	}
	g.Go(func() error { m.keepState(ctx); return nil })
	until(t, "the cable was pulled during a write", func() bool { return !carrier() })
	cable(true)
	until(t, "the cable was plugged in", carrier)
}

// A flapping link makes one event and one write, however often it comes and goes.
func TestFlappingLinkIsWrittenOnce(t *testing.T) {
	m, c := joined(t)
	k := m.Node.VFs.Kernel.(*fake.Kernel)
	m.Node.Inventory = inventory.New(k, func() time.Time { return time.Date(2026, 11, 26, 18, 0, 0, 0, time.UTC) })
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 3, "a")}
	m.look(t)
	pull := func(in bool) {
		k.Cable(vf.PCIAddr{Bus: 1}, false)
		k.Cable(vf.PCIAddr{Bus: 1}, in)
		if _, err := m.Node.Inventory.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	m.hasNewHealth()
	for range vf.FlapLosses {
		pull(true)
	}
	if !m.hasNewHealth() {
		t.Error("a link that is flapping from now on waits for writeInterval")
	}
	c.written, c.events = nil, nil
	for _, in := range []bool{true, false, false, true} {
		pull(in)
		if m.hasNewHealth() {
			t.Error("each change of a flapping link is written at once")
		}
		m.look(t)
	}
	if len(c.written) != 1 || !c.written[0].PFs[0].Flapping || c.written[0].PFs[0].Carrier {
		t.Errorf("%d writes, want 1: %+v", len(c.written), c.written)
	}
	if len(c.events) != 1 || !strings.HasPrefix(c.events[0], "Warning LinkFlapping link of PF enp1s0: its link is flapping: ") {
		t.Errorf("%q", c.events)
	}
}

// Errors of devices are events of the Node when they begin and when they are over.
func TestFaultsAreEvents(t *testing.T) {
	m, c := joined(t)
	var faults []api.Problem
	m.Faults = func() []api.Problem { return faults }
	m.look(t)
	for _, s := range []struct {
		faults []api.Problem
		want   []string
	}{
		{[]api.Problem{{Object: "PCIe of PF enp1s0", Reason: "errors"}}, []string{"Warning DeviceErrors PCIe of PF enp1s0: errors"}},
		{nil, []string{"Normal NoDeviceErrors PCIe of PF enp1s0: that is over: errors"}},
	} {
		c.events, faults = nil, s.faults
		m.look(t)
		m.look(t)
		if !slices.Equal(c.events, s.want) {
			t.Errorf("%q, want %q", c.events, s.want)
		}
	}
}

// A VF that goes into quarantine is in the NodeState and is an event at once, however long other
// changes wait, and so is one whose interface in a pod has no carrier although its PF has a link.
func TestAilingVFsAreWrittenAtOnce(t *testing.T) {
	m, c := joined(t)
	m.writeInterval, m.idleInterval = time.Hour, time.Hour
	k := m.Node.VFs.Kernel.(*fake.Kernel)
	var clock atomic.Int64
	m.Node.VFs.Now = func() time.Time { return time.Unix(1e9+clock.Load(), 0) }
	k.AddNetns("/run/netns/a")
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 3, "a")}
	m.look(t)
	pass := func() {
		clock.Add(60)
		if err := m.Node.Reconciler.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	rec, err := m.Node.Engine.Attach(t.Context(), attach.Request{
		Owner: vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: "net1"}, Netns: "/run/netns/a", Spec: vf.Spec{Interface: "net1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	picture := m.Status
	m.Status = func(ctx context.Context) (api.NodeStatus, error) {
		n, err := picture(ctx)
		for i, v := range n.VFs {
			n.VFs[i].NoCarrier = v.ID == rec.ID && v.Phase == string(vf.PhaseAttached) && m.Node.VFs.IsDark(rec)
		}
		return n, err
	}
	pass()
	m.look(t)
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	defer func() { cancel(); _ = g.Wait() }()
	g.Go(func() error { m.keepState(ctx); return nil })
	state := func(is func(v1alpha1.VFState) bool) func() bool {
		return func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.written) > 0 && slices.ContainsFunc(c.written[len(c.written)-1].VFs, is)
		}
	}
	event := func(prefix string) func() bool {
		return func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return slices.ContainsFunc(c.events, func(e string) bool { return strings.HasPrefix(e, prefix) })
		}
	}
	if err := k.SetMailbox(vf.PCIAddr{Bus: 1}, false); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		pass()
	}
	until(t, "the VF without carrier is written", state(func(v v1alpha1.VFState) bool { return v.NoCarrier }))
	until(t, "its event", event("Warning VFNoCarrier carrier of VF enp1s0#"))
	if err := m.Node.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
		t.Fatal(err)
	}
	until(t, "the VF in quarantine is written", state(func(v v1alpha1.VFState) bool { return v.Phase == string(vf.PhaseQuarantined) && !v.NoCarrier }))
	until(t, "its event", event("Warning Quarantined VF enp1s0#"))
}

// hasNewHealth reports once when a VF goes into quarantine, when it loses its driver, and when it
// recovers.
func TestNewHealthOfVFs(t *testing.T) {
	m, c := joined(t)
	k := m.Node.VFs.Kernel.(*fake.Kernel)
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 3, "a")}
	m.look(t)
	records, err := m.Node.Records()
	if err != nil || len(records) != 3 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	put := func(phase vf.Phase) {
		if err := m.Node.Ledger.Update(func(tx *journal.Tx) error {
			switch records[0].Phase = phase; phase {
			case vf.PhaseQuarantined:
				records[0].Attempts++
			case vf.PhaseFree:
				records[0].Attempts = 0
			}
			return tx.Put(records[0])
		}); err != nil {
			t.Fatal(err)
		}
	}
	do := func(s step.Step) {
		if err := k.Do(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Node.Inventory.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	m.hasNewHealth()
	for name, change := range map[string][2]func(){
		"quarantine": {func() { put(vf.PhaseQuarantined) }, func() { put(vf.PhaseFree) }},
		"driver":     {func() { do(step.Unbind{VF: records[1].PCI}) }, func() { do(step.Bind{VF: records[1].PCI}) }},
	} {
		for i, f := range change {
			if f(); !m.hasNewHealth() {
				t.Errorf("%s, change %d: it waits for writeInterval", name, i)
			}
			if m.hasNewHealth() {
				t.Errorf("%s, change %d: it is news twice", name, i)
			}
		}
	}
	put(vf.PhaseQuarantined)
	m.hasNewHealth()
	for _, phase := range []vf.Phase{vf.PhaseReleasing, vf.PhaseQuarantined} { // a retry
		put(phase)
		vfs := []api.VF{{Name: "enp1s0#0", Phase: string(phase), Attempts: records[0].Attempts}}
		if len(findTroubles(api.NodeStatus{VFs: vfs}, nil)) != 1 {
			t.Errorf("%s: the event of a retry says that the VF is well", phase)
		}
		if m.hasNewHealth() {
			t.Errorf("%s: a retry is news", phase)
		}
	}
}

// PFs of a pool that do not hear each other are one event of the Node, and another one when they do.
func TestSegmentsAreEvents(t *testing.T) {
	m, c := joined(t)
	var problems []api.Problem
	m.Segments = func() []api.Problem { return problems }
	m.look(t)
	for _, s := range []struct {
		problems []api.Problem
		want     []string
	}{
		{[]api.Problem{{Object: "pool x/fast", Reason: "silence"}}, []string{"Warning PFsDoNotHearEachOther pool x/fast: silence"}},
		{nil, []string{"Normal PFsHearEachOther pool x/fast: that is over: silence"}},
	} {
		c.events, problems = nil, s.problems
		m.look(t)
		m.look(t)
		if !slices.Equal(c.events, s.want) {
			t.Errorf("%q, want %q", c.events, s.want)
		}
	}
}
