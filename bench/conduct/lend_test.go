package conduct

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/evidence"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

// culvertdVariable is the socket of culvertd for this test's program as an agent.
const culvertdVariable = "CULVERT_TEST_CULVERTD"

// lender is a fake culvertd that pretends to lend rates.
type lender struct {
	mu     sync.Mutex // guards what follows
	did    []string
	refuse error
	owner  vf.Owner // of its one VF
}

func (l *lender) say(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.did = append(l.did, what)
}

// begin gives the VF an owner, and forgets what was done.
func (l *lender) begin(owner vf.Owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner, l.did = owner, nil
}

func (l *lender) done() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.did)
}

func (l *lender) lendRate(ctx context.Context, raw json.RawMessage, ask rpc.Ask) (any, error) {
	if l.refuse != nil {
		return nil, l.refuse
	}
	var r api.LendRateRequest
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, err
	}
	line, _ := json.Marshal(r.MaxTxRate)
	l.say(r.VF.String() + " " + string(line))
	err := ask(ctx, api.MethodRateIsLent, api.LentRate{MaxTxRate: r.MaxTxRate - 1}, nil)
	l.say("back")
	return nil, err
}

// serve makes the agents of the test reach the fake culvertd, until the test ends. It has one VF, of a
// PF of 10 Gb/s.
func (l *lender) serve(t *testing.T, pci vf.PCIAddr) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := rpc.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := rpc.NewServer(func(*net.UnixConn) error { return nil }, slog.New(slog.DiscardHandler))
	srv.HandleDialog(api.MethodLendRate, l.lendRate)
	srv.Handle(api.MethodStatus, func(context.Context, json.RawMessage) (any, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		owner := l.owner
		return api.NodeStatus{
			PFs: []api.PF{{PF: vf.PF{Name: "enp1s0", Driver: "ixgbe", SpeedMbps: 10000}}}, VFs: []api.VF{{PCI: pci, PF: "enp1s0", Owner: &owner}},
		}, nil
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var g errgroup.Group
	g.Go(func() error { return srv.Serve(ctx, listener) })
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv(culvertdVariable, socket)
}

func parsePCI(t *testing.T, text string) vf.PCIAddr {
	t.Helper()
	pci, err := vf.ParsePCIAddr(text)
	if err != nil {
		t.Fatal(err)
	}
	return pci
}

// A guest shows the MAC address or the PCI address of another guest's VF. Its host lends that VF no
// rate, only the guest's own.
func TestRateOfAnotherGuestsVF(t *testing.T) {
	pci := parsePCI(t, "0000:01:10.2")
	l := &lender{}
	l.serve(t, pci)
	w := newWorld(t)
	guest := w.stations[0]
	name := guest.Name
	guest.Host = &Station{Site: guest.Site, Agent: guest.Agent}
	a := &w.exchange.Arms[0]
	a.Workload.Engine, a.Workload.Seconds, a.Workload.RateLimit = "culvert", 1, 100
	for attack, claim := range map[string]func(){
		"MAC address": func() {
			guest.macs[a.Path.From.Interface] = "02:00:00:00:00:02"
			guest.guestOf(guest.Machine.Name, []evidence.VF{{MAC: "02:00:00:00:00:02", PF: "enp1s0", Index: 2, PCI: pci.String()}})
		},
		"PCI address": func() {
			i := slices.IndexFunc(guest.Machine.Interfaces, func(i bench.Interface) bool { return i.Name == a.Path.From.Interface })
			guest.Machine.Interfaces[i].PCI = pci.String()
		},
	} {
		guest.passed = nil
		claim()
		for owner, mayLend := range map[vf.Owner]bool{
			{Kind: vf.OwnerGuest, UID: "u", Name: "victim"}: false, {Kind: vf.OwnerPod, UID: "u", Name: name}: false, {Kind: vf.OwnerGuest, UID: "u", Name: name}: true,
		} {
			l.begin(owner)
			_, _, err := (&Session{Stations: w.stations}).Rates(t.Context(), a.Path)
			if (err == nil) != mayLend || !mayLend && !strings.Contains(err.Error(), "belongs to "+owner.String()) {
				t.Errorf("%s of a VF of %s: the rates that can be lent: %v", attack, owner, err)
			}
			_, err = guest.nearPF().Agent.Lend(t.Context(), guest.pciAddress(a.Path.From), guest.ownerOfVF(), 100, 5)
			if back := guest.nearPF().Agent.GiveBack(t.Context()); (err == nil) != mayLend || back != nil {
				t.Errorf("%s of a VF of %s: a rate is lent: %v, %v", attack, owner, err, back)
			}
			if did := l.done(); len(did) > 0 != mayLend {
				t.Errorf("%s of a VF of %s: culvertd did %q", attack, owner, did)
			}
		}
	}
	l.begin(vf.Owner{Kind: vf.OwnerGuest, UID: "u", Name: "victim"})
	if run, err := w.runOnce(t, 0); err != nil || !strings.Contains(run.Void, "belongs to vm victim") || len(l.done()) > 0 {
		t.Errorf("a run: %v, %q; culvertd did %q", err, run.Void, l.done())
	}
}

// The VF that sends has the lent rate during the run, and its own again after it. The result has
// the rate that the hardware applies.
func TestRateIsLentForARun(t *testing.T) {
	pci := parsePCI(t, "0000:01:10.2")
	l := &lender{owner: vf.Owner{UID: "c"}}
	l.serve(t, pci)
	w := newWorld(t)
	a := &w.exchange.Arms[0]
	a.Workload.Engine, a.Workload.Seconds, a.Workload.RateLimit = "culvert", 1, 100
	if run, err := w.runOnce(t, 0); err != nil || !strings.Contains(run.Void, "PCI") {
		t.Errorf("of what is no VF: %v, %q", err, run.Void)
	}
	i := slices.IndexFunc(w.stations[0].Machine.Interfaces, func(i bench.Interface) bool { return i.Name == a.Path.From.Interface })
	w.stations[0].Machine.Interfaces[i].PCI = pci.String()
	if lowest, highest, err := (&Session{Stations: w.stations}).Rates(t.Context(), a.Path); lowest != 11 || highest != 10000 || err != nil {
		t.Errorf("%d to %d, %v", lowest, highest, err)
	}
	w.goodRun(t, 0)
	if a.RateMbps != 99 || len(l.did) < 2 || l.did[0] != "0000:01:10.2 100" || l.did[len(l.did)-1] != "back" {
		t.Errorf("%d Mb/s, %q", a.RateMbps, l.did)
	}
	l.refuse = errors.New("the PF has no link")
	if run, err := w.runOnce(t, 0); err != nil || !strings.Contains(run.Void, "the PF has no link") {
		t.Errorf("refused: %v, %q", err, run.Void)
	}
}

func TestSetAgainstMeasured(t *testing.T) {
	r := bench.Result{
		Arms: []bench.Arm{{Name: "100 Mb/s", Bounds: bench.Bounds{RateMbps: 100}, Workload: bench.Workload{Kind: bench.Stream, RateLimit: 100}}, {Name: "VF", Workload: bench.Workload{Kind: bench.Stream}}},
		Runs: []bench.Run{{Gbps: 0.094}, {Arm: 1, Gbps: 9}},
	}
	want := []string{"100 Mb/s: max_tx_rate 100 Mb/s (100 by the PF's word), measured 94 Mb/s of payload, 100 % of the 94.1 Mb/s that fit into it"}
	if diff := cmp.Diff(want, noteRates(r)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r.Runs[0].Gbps = 0.9 // as on an emulated NIC
	if notes := noteRates(r); len(notes) != 1 || !strings.HasSuffix(notes[0], ": the NIC does not enforce it") {
		t.Errorf("a rate that nothing enforces: %q", notes)
	}
}
