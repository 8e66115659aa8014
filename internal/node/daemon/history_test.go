package daemon

import (
	"encoding/json"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/trouble"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/rpcserver"
)

// eventsWith returns the events of a ledger with a reason.
func eventsWith(t *testing.T, s *Server, reason string) (out []journal.Event) {
	t.Helper()
	err := s.node.Ledger.View(func(tx *journal.Tx) error {
		for _, e := range tx.Events(0) {
			if e.Reason == reason {
				out = append(out, e)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A command that changes something is in the history, with the user who ran it. One that shows
// something, or that culvertd refuses, is not.
func TestCommandsAreRecorded(t *testing.T) {
	s := served(t, t.TempDir())
	s.ProcRoot = "/proc"
	socket := rpcserver.Socket(t)
	rpcserver.Serve(t, socket, func(srv *rpc.Server) { s.registerMethods(t.Context(), srv) })
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	apply := api.HostRequest{File: "host.yaml", Content: "pfs: [{name: '*', vfs: 2}]\n"}
	for _, call := range []struct {
		method string
		params any
		want   string
	}{
		{api.MethodHostPlan, apply, ""},
		{api.MethodHostApply, apply, "host apply"},
		{api.MethodHostApply, api.HostRequest{File: "host.yaml", Content: "pfs: [{name: '*', vfs: 1000}]\n"}, ""},
		{api.MethodHostTry, api.HostTryRequest{File: "host.yaml", Content: apply.Content, Seconds: 90}, "host apply --confirm 1m30s"},
		{api.MethodHostConfirm, nil, "host confirm"},
		{api.MethodHostRevert, nil, ""}, // there is no trial
	} {
		before := eventsWith(t, s, reasons.CommandRun)
		callErr := rpc.Call(t.Context(), socket, call.method, call.params, nil)
		now := eventsWith(t, s, reasons.CommandRun)[len(before):]
		switch {
		case call.want == "" && len(now) > 0:
			t.Errorf("%s (%v) is recorded: %+v", call.method, callErr, now)
		case call.want == "":
		case len(now) != 1 || !strings.HasPrefix(now[0].By, me.Username) || now[0].Text != now[0].By+" ran culvert "+call.want || now[0].Object != "host":
			t.Errorf("%s (%v): %+v", call.method, callErr, now)
		}
	}
	if _, err := s.node.Inventory.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	records, err := s.node.Records()
	if err != nil || len(records) == 0 {
		t.Fatal(records, err)
	}
	params := api.RebaseRequest{VF: records[0].PCI}
	if err := rpc.Call(t.Context(), socket, api.MethodRebase, params, nil); err != nil {
		t.Fatal(err)
	}
	params.Accept = []vf.Difference{{Attribute: "rings"}}
	if err := rpc.Call(t.Context(), socket, api.MethodRebase, params, nil); err != nil {
		t.Fatal(err)
	}
	all := eventsWith(t, s, reasons.CommandRun)
	if last := all[len(all)-1]; len(all) != 4 || last.VF != records[0].ID || !strings.HasSuffix(last.Text, " ran culvert vf rebase "+records[0].PCI.String()) {
		t.Errorf("%d commands, the last is %+v", len(all), last)
	}
}

// A command whose event cannot be written has succeeded all the same.
func TestCommandSucceedsWithoutItsEvent(t *testing.T) {
	dir := t.TempDir()
	s := served(t, dir)
	closed, err := journal.Open(filepath.Join(dir, "other.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	socket := rpcserver.Socket(t)
	rpcserver.Serve(t, socket, func(srv *rpc.Server) {
		srv.HandleClient("x", s.recordCommand(s.answerStatus, func(json.RawMessage, any) *command {
			s.node.Ledger = closed
			return &command{line: "x"}
		}))
	})
	open := s.node.Ledger
	defer func() { s.node.Ledger = open }()
	if err := rpc.Call(t.Context(), socket, "x", nil, nil); err != nil {
		t.Error(err)
	}
}

// culvertd streams all events in order, though it has only a page of them in memory.
func TestEventsAreStreamedInPages(t *testing.T) {
	s := served(t, t.TempDir())
	const events = 2*pageOfEvents + 7
	err := s.node.Ledger.Update(func(tx *journal.Tx) error {
		for range events {
			if err := tx.Event(journal.Event{Reason: "X"}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []uint64
	err = s.streamEvents(t.Context(), nil, func(v any) error {
		got = append(got, v.(api.Event).Seq)
		return nil
	})
	if err != nil || len(got) < events {
		t.Fatal(len(got), err)
	}
	for i, seq := range got {
		if seq != uint64(i+1) {
			t.Fatalf("event %d comes after %d others", seq, i)
		}
	}
}

// The loss of a PF's link, and errors of a PF and its VFs, are in the history once each, with their
// end. A link that comes and goes without end writes few events.
func TestTroublesOfPFsAreRecorded(t *testing.T) {
	k := fake.New(fake.IGB, 1)
	s := servedOn(t, t.TempDir(), k)
	apply := asParams(t, api.HostRequest{File: "host.yaml", Content: "pfs: [{name: '*', vfs: 2}]\n"})
	if _, err := s.hostApply(t.Context(), apply); err != nil {
		t.Fatal(err)
	}
	pf := s.node.Inventory.PFs()[0]
	setCable := func(in bool) {
		t.Helper()
		k.Cable(pf.PCI, in)
		if _, err := s.node.Inventory.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	seen := pfTroubles{known: map[vf.PFID]trouble.Set{}, dampers: map[vf.PFID]*trouble.Damper{}}
	now := time.Now()
	look := func() {
		now = now.Add(time.Second)
		s.writeTroubles(&seen, now)
	}
	look()
	setCable(false)
	look()
	look()
	setCable(true)
	look()
	down, up := eventsWith(t, s, reasons.LinkDown), eventsWith(t, s, reasons.LinkUp)
	if len(down) != 1 || len(up) != 1 || down[0].PF != pf.ID || down[0].Object != "PF "+pf.Label() || !strings.Contains(down[0].Text, "no carrier") {
		t.Errorf("down %+v, up %+v", down, up)
	}
	now = now.Add(2 * time.Hour)
	s.faults.Add(s.node.Inventory.PFs(), map[vf.PCIAddr]vf.ErrorCounts{pf.PCI: {}, pf.VFs[1].PCI: {}})
	s.faults.Add(s.node.Inventory.PFs(), map[vf.PCIAddr]vf.ErrorCounts{pf.VFs[1].PCI: {Fatal: 1}})
	look()
	look()
	errs := eventsWith(t, s, reasons.DeviceErrors)
	if len(errs) != 1 || errs[0].PF != pf.ID || !strings.Contains(errs[0].Text, pf.VFs[1].PCI.String()) {
		t.Errorf("errors %+v", errs)
	}
	for range 500 {
		setCable(false)
		look()
		setCable(true)
		look()
	}
	all := len(eventsWith(t, s, reasons.LinkDown)) + len(eventsWith(t, s, reasons.LinkUp)) + len(eventsWith(t, s, reasons.LinkFlapping))
	if all > 12 {
		t.Errorf("%d events of a link that flaps", all)
	}
}
