package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/trouble"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

// pageOfEvents is how many events culvertd has in memory at once while it streams them.
const pageOfEvents = 256

// streamEvents sends the events after a number, page by page. If the request says so, it then sends
// further events as they come.
func (s *Server) streamEvents(ctx context.Context, raw json.RawMessage, send func(any) error) error {
	req, err := parseParams[api.EventsRequest](raw)
	if err != nil {
		return err
	}
	for {
		changed := s.node.Ledger.Changed()
		for isLast := false; !isLast; {
			var events []journal.Event
			err := s.node.Ledger.View(func(tx *journal.Tx) error {
				events = tx.EventPage(req.After, pageOfEvents)
				return nil
			})
			if err != nil {
				return err
			}
			for _, e := range events {
				if err := send(api.Event(e)); err != nil {
					return err
				}
				req.After = e.Seq
			}
			isLast = len(events) < pageOfEvents
		}
		if !req.Follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// command is what culvertd records of an administrator's command.
type command struct {
	line string                  // as culvert takes it
	vfs  map[vf.PCIAddr]vf.Owner // that it was about, with the owners that had them before
}

// recordCommand serves a method by answer, and writes an event about the administrator's command.
// describe returns the command for the history, nil if it has changed nothing. A command whose event
// cannot be written succeeds all the same.
func (s *Server) recordCommand(answer rpc.Handler, describe func(params json.RawMessage, result any) *command) rpc.ClientHandler {
	return func(ctx context.Context, params json.RawMessage, client *net.UnixConn) (any, error) {
		result, err := answer(ctx, params)
		if err != nil {
			return result, err
		}
		if c := describe(params, result); c != nil {
			if err := s.writeCommand(*c, s.nameUser(client)); err != nil {
				s.Log.Warn("record a command", "command", c.line, "err", err)
			}
		}
		return result, nil
	}
}

func (s *Server) nameUser(client *net.UnixConn) string {
	peer, err := kernel.PeerCredentials(client)
	if err != nil {
		return "an unknown user"
	}
	return peer.NameUser(s.ProcRoot)
}

// writeCommand writes an event for each VF that the command was about, or one about the host.
func (s *Server) writeCommand(c command, by string) error {
	text := fmt.Sprintf("%s ran culvert %s", by, c.line)
	return s.node.Ledger.Update(func(tx *journal.Tx) error {
		events := []journal.Event{{Type: journal.Normal, Reason: reasons.CommandRun, Object: "host", Text: text}}
		if len(c.vfs) > 0 {
			events = makeEvents(tx, c.vfs, text)
		}
		var errs []error
		for _, e := range events {
			e.By = by
			errs = append(errs, tx.Event(e))
		}
		return errors.Join(errs...)
	})
}

// makeEvents returns an event for each of the VFs that has a record.
func makeEvents(tx *journal.Tx, vfs map[vf.PCIAddr]vf.Owner, text string) (out []journal.Event) {
	for _, r := range tx.Records() {
		owner, isOne := vfs[r.PCI]
		if !isOne {
			continue
		}
		e := r.MakeEvent(journal.Normal, reasons.CommandRun, text)
		if e.Owner.IsZero() {
			e.Owner = owner
		}
		out = append(out, e)
	}
	return out
}

// describeApply describes culvert host apply, which may have refused the file.
func describeApply(_ json.RawMessage, result any) *command {
	if r, ok := result.(api.ApplyResult); ok && !r.Applied {
		return nil
	}
	return &command{line: "host apply"}
}

// describeTry describes culvert host apply --confirm.
func describeTry(params json.RawMessage, result any) *command {
	req, err := parseParams[api.HostTryRequest](params)
	c := describeApply(params, result)
	if c == nil || err != nil {
		return c
	}
	c.line += fmt.Sprintf(" --confirm %s", time.Duration(req.Seconds)*time.Second)
	return c
}

// describeRebase describes culvert vf rebase, which only shows the differences first.
func describeRebase(params json.RawMessage, _ any) *command {
	req, err := parseParams[api.RebaseRequest](params)
	if err != nil || req.Accept == nil {
		return nil
	}
	return &command{"vf rebase " + req.VF.String(), map[vf.PCIAddr]vf.Owner{req.VF: {}}}
}

// describeGuestXML describes culvert vm attach and culvert vm xml, by which a guest gets a VF.
func describeGuestXML(params json.RawMessage, result any) *command {
	req, err := parseParams[api.GuestXMLRequest](params)
	out, ok := result.(api.GuestXML)
	if err != nil || !ok || out.VF.IsZero() {
		return nil
	}
	return &command{fmt.Sprintf("vm attach %s --device %s", out.Guest.Name, req.Device), map[vf.PCIAddr]vf.Owner{out.VF: {}}}
}

// describeGuestDetach describes culvert vm detach.
func describeGuestDetach(params json.RawMessage, result any) *command {
	req, err := parseParams[api.GuestDetachRequest](params)
	out, ok := result.(api.GuestDetached)
	if err != nil || !ok || len(out.VFs) == 0 {
		return nil
	}
	c := &command{strings.TrimSpace("vm detach " + req.Guest + " " + req.Device), map[vf.PCIAddr]vf.Owner{}}
	for _, v := range out.VFs {
		c.vfs[v.VF] = v.Guest
	}
	return c
}

// pfTroubles writes the troubles of PFs into the ledger.
type pfTroubles struct {
	known   map[vf.PFID]trouble.Set
	dampers map[vf.PFID]*trouble.Damper
}

// followTroubles looks at the links and errors of the PFs each second until ctx ends.
func (s *Server) followTroubles(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	seen := pfTroubles{known: map[vf.PFID]trouble.Set{}, dampers: map[vf.PFID]*trouble.Damper{}}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if s.ready.Load() { // until then, VFs and PFs are still being set up
				s.writeTroubles(&seen, now)
			}
		}
	}
}

// writeTroubles writes an event for each trouble of a PF with VFs that began or ended since the last
// call: it has no link, its link flaps, or it or a VF of it had errors. A PF that is not on the bus
// keeps the trouble that it had.
func (s *Server) writeTroubles(seen *pfTroubles, now time.Time) {
	faults := s.faults.Problems()
	var events []journal.Event
	for _, pf := range s.node.Inventory.PFs() {
		damper := seen.dampers[pf.ID]
		if damper == nil {
			damper = &trouble.Damper{}
			seen.dampers[pf.ID] = damper
		}
		found := findTroubles(pf, faults)
		trouble.Emit(seen.known[pf.ID], found, func(kind, reason, text string) {
			e := journal.Event{Type: kind, Reason: reason, Object: "PF " + pf.Label(), Text: text, PF: pf.ID}
			if damper.NoteChange(e, now) {
				events = append(events, e)
			}
		})
		seen.known[pf.ID] = found
		if e, isDue := damper.TakeDue(now, "changes"); isDue {
			events = append(events, e)
		}
	}
	if len(events) == 0 {
		return
	}
	err := s.node.Ledger.Update(func(tx *journal.Tx) error {
		var errs []error
		for _, e := range events {
			errs = append(errs, tx.Event(e))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		s.Log.Warn("record the troubles of PFs", "first", events[0].Text, "events", len(events), "err", err)
	}
}

// findTroubles returns the troubles of a PF: of its link if it has VFs, and of its errors.
func findTroubles(pf vf.PF, faults []api.Problem) trouble.Set {
	out := trouble.Set{}
	if t, is := trouble.JudgeLink(pf.Up, pf.Carrier, pf.Flapping); is && len(pf.VFs) > 0 {
		out.Add("link", t)
	}
	for _, p := range faults {
		if what, of := strings.CutSuffix(p.Object, " of PF "+pf.Label()); of {
			out.Add(what, trouble.Trouble{Begins: reasons.DeviceErrors, Ends: reasons.NoDeviceErrors, Text: p.Reason})
		}
	}
	return out
}
