package status

import (
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Ledger returns a ledger's content for people and programs. Of an open ledger the content has no
// events.
func Ledger(file string, c journal.Content) api.Ledger {
	out := api.Ledger{
		File: file, Format: c.Format, Boot: c.Boot, Refused: len(c.Faults) > 0,
		Records: []api.LedgerRecord{}, Addresses: []api.LedgerAddress{}, Events: []api.Event{}, Problems: []api.LedgerProblem{},
	}
	for _, r := range c.Records {
		out.Records = append(out.Records, ledgerRecord(r))
	}
	for _, a := range c.Addresses {
		held := api.LedgerAddress{Network: a.Network, Address: a.Addr.String(), Since: a.Since, Damage: a.Damage}
		if a.Damage == "" {
			held.VF, held.Owner = a.VF.String(), &a.Owner
		}
		out.Addresses = append(out.Addresses, held)
	}
	for _, s := range c.Sandboxes {
		out.Sandboxes = append(out.Sandboxes, ledgerSandbox(s))
	}
	for _, e := range c.Events {
		out.Events = append(out.Events, api.Event(e))
	}
	for _, p := range c.Problems() {
		out.Problems = append(out.Problems, api.LedgerProblem(p))
	}
	return out
}

// LedgerAnswer is a Ledger that is written entry by entry: as one text, the ledger of a node under attack
// would need megabytes (rpc.PartsWriter).
type LedgerAnswer api.Ledger

// WriteParts writes the JSON of the Ledger.
func (l LedgerAnswer) WriteParts(w io.Writer) error {
	head, err := json.Marshal(map[string]any{"file": l.File, "format": l.Format, "boot": l.Boot, "refused": l.Refused})
	if err != nil {
		return err
	}
	_, err = w.Write(head[:len(head)-1]) // the lists follow
	return errors.Join(err, writeList(w, "records", l.Records), writeList(w, "addresses", l.Addresses), writeList(w, "events", l.Events),
		writeList(w, "sandboxes", l.Sandboxes), writeList(w, "problems", l.Problems), writeText(w, "}"))
}

// writeList writes a further member of an object, whose value is a list.
func writeList[T any](w io.Writer, name string, list []T) error {
	if err := writeText(w, `,"`+name+`":[`); err != nil {
		return err
	}
	encoder := json.NewEncoder(w)
	for i := range list {
		if i > 0 {
			if err := writeText(w, ","); err != nil {
				return err
			}
		}
		if err := encoder.Encode(&list[i]); err != nil {
			return err
		}
	}
	return writeText(w, "]")
}

func writeText(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

func ledgerSandbox(s journal.Sandbox) api.LedgerSandbox {
	out := api.LedgerSandbox{ID: s.ID, Pod: s.PodName(), UID: s.UID, Netns: s.Netns, Phase: string(s.Phase), Since: s.Since, Damage: s.Damage, Omitted: s.Omitted, Networks: []api.LedgerSandboxNetwork{}}
	if s.Pod == "" {
		out.Pod = ""
	}
	if s.Damage != "" {
		out.Phase = string(vf.PhaseDamaged)
	}
	for _, n := range s.Networks {
		network := api.LedgerSandboxNetwork{Name: n.Name, Interface: n.Interface, Result: n.Result}
		for _, p := range n.Plugins {
			network.Plugins = append(network.Plugins, p.Raw)
		}
		out.Networks = append(out.Networks, network)
	}
	return out
}

func damagedRecords(records []journal.Record) []journal.Record {
	return slices.DeleteFunc(slices.Clone(records), func(r journal.Record) bool { return r.Phase != vf.PhaseDamaged })
}

// shownBaseline returns a baseline without the attributes that only serve comparisons, so that
// answers about many VFs stay small.
func shownBaseline(r journal.Record) *vf.Baseline {
	b := r.Baseline
	b.Attributes = ""
	return &b
}

func ledgerRecord(r journal.Record) api.LedgerRecord {
	out := api.LedgerRecord{
		VF: r.ID, PCI: r.PCI, Phase: string(r.Phase), Generation: r.Generation, Since: r.Since, Released: r.Released,
		Reason: r.Reason, Attempts: r.Attempts, NextRetry: r.NextRetry,
		Network: r.Lease.Network, Pool: r.Lease.Pool, Netns: r.Lease.Netns, Bond: r.Lease.Bond,
	}
	if r.Phase != vf.PhaseMaking && r.Phase != vf.PhaseDamaged {
		out.Baseline = shownBaseline(r)
	}
	if r.Claim != nil {
		out.Claim = shownClaim(*r.Claim)
	}
	if !r.Lease.Owner.IsZero() {
		out.Owner, out.Wanted, out.Given = &r.Lease.Owner, &r.Lease.Wanted, &r.Lease.Effective
	}
	return out
}

// LedgerConditions returns the problems of the ledger itself. VFs with damaged records are not
// among them, since the picture has their problems.
func LedgerConditions(c journal.Content) []api.Problem {
	var out []api.Problem
	known := map[string]bool{}
	for _, p := range journal.Verify(damagedRecords(c.Records), nil) {
		known[p.Object] = true
	}
	for _, p := range c.Problems() {
		if known[p.Object] {
			continue
		}
		out = append(out, api.Problem{Object: "ledger", Reason: p.String(), Next: "culvert ledger check shows all of it, and docs/ledger.md says what it means"})
	}
	return out
}
