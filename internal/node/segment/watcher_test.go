package segment

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// host is a Watcher on a fake kernel with two PFs and a pool over both.
type host struct {
	t *testing.T
	*Watcher
	kernel  *fake.Kernel
	changed int
	spec    desired.Spec
	opened  int
	log     strings.Builder
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, kernel: fake.New(fake.IGB, 2)}
	for _, pf := range h.pfs() {
		if err := h.kernel.Do(t.Context(), step.SetPFUp{PF: pf.PCI}); err != nil {
			t.Fatal(err)
		}
		h.spec.PFs = append(h.spec.PFs, desired.PFRule{PCI: pf.PCI, Want: desired.PFSpec{VFs: 2}})
	}
	h.spec.Pools = []desired.Pool{{Name: "fast", Prefix: "x"}}
	h.Watcher = New(Config{
		Node: NewNodeID("here"), PFs: h.pfs, Spec: func() desired.Spec { return h.spec }, Changed: func() { h.changed++ },
		Open: func(name string) (Port, error) { h.opened++; return h.kernel.OpenBeacon(name) },
		Log:  slog.New(slog.NewTextHandler(&h.log, nil)),
	})
	return h
}

func (h *host) pfs() []vf.PF {
	pfs, err := h.kernel.PFs(context.Background())
	if err != nil {
		h.t.Error(err)
	}
	return pfs
}

// turns carries out n rounds.
func (h *host) turns(n int) {
	for range n {
		h.turn()
	}
}

func (h *host) reasons() string {
	var out []string
	for _, p := range h.Problems() {
		out = append(out, p.Object+": "+p.Reason)
	}
	return strings.Join(out, "\n")
}

// Two PFs on one wire cause no warning, and on two wires one warning that stays as it is. The
// warning ends when they are on one again.
func TestWatcherOnTwoWires(t *testing.T) {
	h := newHost(t)
	h.turns(100)
	if got := h.reasons(); got != "" || h.changed != 0 {
		t.Fatalf("one wire: %q, %d changes", got, h.changed)
	}
	h.kernel.Wire(h.pfs()[1].PCI, "other")
	h.turns(100)
	if got := h.reasons(); !strings.HasPrefix(got, "pool x/fast: it has VFs of PFs that do not hear each other: ") || h.changed != 1 {
		t.Fatalf("two wires: %q, %d changes", got, h.changed)
	}
	first := h.Problems()[0].Since
	h.turns(50)
	if h.changed != 1 || !h.Problems()[0].Since.Equal(first) {
		t.Errorf("the warning changed: %d changes", h.changed)
	}
	h.kernel.Wire(h.pfs()[1].PCI, "")
	h.turns(3)
	if got := h.reasons(); got != "" || h.changed != 2 {
		t.Errorf("one wire again: %q, %d changes", got, h.changed)
	}
}

// A name for the segment of the PFs ends the warning. The Watcher then opens no more sockets on
// them.
func TestWatcherLeavesNamedPFsAlone(t *testing.T) {
	h := newHost(t)
	h.kernel.Wire(h.pfs()[1].PCI, "other")
	h.turns(100)
	if h.reasons() == "" {
		t.Fatal("no warning")
	}
	h.spec.PFs = []desired.PFRule{{Want: desired.PFSpec{VFs: 2, Segment: "storage"}}}
	h.turns(2)
	opened := h.opened
	h.turns(10)
	if got := h.reasons(); got != "" || h.opened != opened {
		t.Errorf("%q, %d sockets", got, h.opened-opened)
	}
}

// PFs on two wires cause a warning where each hears as many stations as a Table remembers, and PFs on
// one wire cause none.
func TestWatcherAmongManyStations(t *testing.T) {
	for _, n := range []int{100, mostStations} {
		h := newHost(t)
		rounds := func(wires ...string) {
			for range 100 {
				for w, wire := range wires {
					for i := range n {
						h.kernel.SendFrame(wire, Station{Node: NewNodeID(wire + "x"), PF: vf.MAC{2, 0, 0, byte(w), byte(i >> 8), byte(i)}}.Encode())
					}
				}
				h.turns(1)
			}
		}
		rounds("")
		if got := h.reasons(); got != "" {
			t.Errorf("%d stations, one wire: %q", n, got)
		}
		h.kernel.Wire(h.pfs()[1].PCI, "other")
		rounds("", "other")
		if h.reasons() == "" {
			t.Errorf("%d stations on each of two wires: no warning", n)
		}
	}
}

// A PF in a bridge of the host hears no frame, nor does one in a bond that is in a bridge, so that
// their silence says nothing. A warning from before ends. A member of a bond listens, and its silence
// counts.
func TestWatcherOnMembers(t *testing.T) {
	for name, tt := range map[string]struct {
		kind   string
		nested bool
		warned bool
	}{
		"a bridge":           {vf.MasterBridge, false, false},
		"Open vSwitch":       {"openvswitch", false, false},
		"a bond":             {vf.MasterBond, false, true},
		"a team":             {vf.MasterTeam, false, true},
		"a bond in a bridge": {vf.MasterBond, true, false},
	} {
		h := newHost(t)
		h.PFs = func() []vf.PF {
			pfs := h.pfs()
			for _, pf := range pfs {
				if pf.Master != nil {
					pf.Master.IsMember = tt.nested
				}
			}
			return pfs
		}
		member := h.pfs()[1].PCI
		h.kernel.Wire(member, "other")
		h.turns(100)
		if h.reasons() == "" {
			t.Fatalf("%s: no warning before", name)
		}
		err := errors.Join(h.kernel.DownPF(member), h.kernel.AddMaster("m0", tt.kind, ""), h.kernel.JoinMaster(member, "m0"),
			h.kernel.Do(t.Context(), step.SetPFUp{PF: member}))
		if err != nil {
			t.Fatal(err)
		}
		h.turns(100)
		if got := h.reasons(); (got != "") != tt.warned {
			t.Errorf("%s, on two wires: %q", name, got)
		}
		h.kernel.Wire(member, "")
		h.turns(100)
		if got := h.reasons(); got != "" {
			t.Errorf("%s, on one wire: %q", name, got)
		}
	}
}

// A flood of frames on one wire is read in part, logs nothing, and makes no warning. Neither does a
// PF without carrier.
func TestWatcherUnderAFlood(t *testing.T) {
	h := newHost(t)
	h.kernel.Wire(h.pfs()[1].PCI, "other")
	for i := range 100 {
		for j := range 1000 {
			h.kernel.SendFrame("other", Station{Node: NewNodeID("forged"), PF: vf.MAC{2, 0, 0, byte(i), byte(j >> 8), byte(j)}}.Encode())
		}
		h.turns(1)
	}
	if got := h.reasons(); got != "" || h.log.Len() != 0 {
		t.Errorf("%q, log %q", got, h.log.String())
	}
	h.kernel.Cable(h.pfs()[1].PCI, false)
	h.turns(100)
	if got := h.reasons(); got != "" {
		t.Errorf("without a cable: %q", got)
	}
}

// A netdevice on which no socket can be opened is reported once, and tried again.
func TestWatcherWithoutASocket(t *testing.T) {
	h := newHost(t)
	works := h.Open
	h.Open = func(string) (Port, error) { return nil, errors.New("no socket") }
	h.turns(50)
	if got := strings.Count(h.log.String(), "no socket"); got != 2 {
		t.Errorf("%d lines in the log:\n%s", got, h.log.String())
	}
	h.Open = works
	h.turns(2)
	if h.opened != 2 {
		t.Errorf("%d sockets", h.opened)
	}
}

// Run has a round at each tick until its context ends, and closes the sockets.
func TestWatcherRuns(t *testing.T) {
	h := newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	ticks, done := make(chan time.Time), make(chan struct{})
	go func() { h.Run(ctx, ticks); close(done) }()
	for range 3 {
		ticks <- time.Time{}
	}
	cancel()
	<-done
	if h.opened != 2 || len(h.ports) != 0 {
		t.Errorf("%d sockets opened, %d left", h.opened, len(h.ports))
	}
}
