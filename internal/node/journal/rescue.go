package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/durable"
	"github.com/culvert-net/culvert/internal/node/journal/pages"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// lostMark begins the reason of a record that a repair marked as lost.
const lostMark = "lost, and marked so by culvert ledger repair: "

// Rescue is a sound ledger that was made from the readable parts of a damaged one.
type Rescue struct {
	Content
	// Did describes the repairs, entry by entry, for people.
	Did []string
	// By is the user who repairs the ledger.
	By string
}

// Mend makes a sound ledger from the content that was read. It invents nothing: a VF whose record
// is lost stays Damaged, so no request gets it until the kernel shows that it is unused and
// culvertd takes it over. An address that may be in use stays held until then. boot is the ID of
// this boot, for a ledger that has lost the boot ID. made has the existing VFs that Culvert made,
// as their MACs show, for a ledger that may have lost records.
func Mend(c Content, boot string, made map[vf.ID]vf.PCIAddr) Rescue {
	r := Rescue{Content: Content{Format: format, Boot: c.Boot, Last: c.Last, Events: c.Events, Fresh: c.Fresh, digest: c.digest}}
	if c.Boot == "" {
		r.Boot = boot
		r.noteRepair("the ledger does not tell its boot: it is taken for one of this boot, so no lease is forgotten")
	} else if c.Boot != boot {
		r.noteRepair("the ledger is of an earlier boot: culvertd forgets all leases in it when it starts")
	}
	lost := r.rescueRecords(c, made)
	r.rescueAddresses(c, lost)
	r.rescueSandboxes(c)
	return r
}

func (r *Rescue) noteRepair(format string, args ...any) {
	r.Did = append(r.Did, fmt.Sprintf(format, args...))
}

// rescueRecords keeps the records that can be read and marks the others as lost: damaged records,
// and records that are missing although an address names their VF. If part of the file may be
// missing, it also marks free records, and missing records of VFs that an earlier version of a
// page or made names. It returns the last known content of the lost records.
func (r *Rescue) rescueRecords(c Content, made map[vf.ID]vf.PCIAddr) map[vf.ID]Record {
	kept := map[vf.ID]bool{}
	stale := len(c.Faults) > 0 // the last change may be missing
	records, doubtful := withoutTwins(c.Records)
	for _, rec := range records {
		if rec.Phase != vf.PhaseDamaged && (rec.Phase != vf.PhaseFree || !stale) {
			kept[rec.ID] = true
			r.Records = append(r.Records, rec)
		}
	}
	hints := maps.Clone(c.hints)
	if hints == nil {
		hints = map[vf.ID]Record{}
	}
	lost := map[vf.ID]Record{}
	lose := func(id vf.ID, why string) {
		if _, known := lost[id]; known || kept[id] || id == (vf.ID{}) {
			return
		}
		hint := hints[id]
		if at, ok := made[id]; ok {
			hint.PCI = at
		}
		lost[id] = hint
		last := "nothing is known of who had it"
		if hint.Phase != "" {
			last = fmt.Sprintf("an earlier version of it says %s, %s, generation %d", hint.Phase, hint.Holder(), hint.Generation)
		}
		r.Records = append(r.Records, Record{ID: id, PCI: hint.PCI, Generation: hint.Generation, Phase: vf.PhaseDamaged, Reason: lostMark + why + "; " + last})
		r.noteRepair("VF %s is marked as lost: %s; %s", id, why, last)
	}
	for _, rec := range doubtful {
		hints[rec.ID] = rec
		lose(rec.ID, "it has two records, which are not the same")
	}
	for _, rec := range records {
		if rec.Phase == vf.PhaseDamaged {
			lose(rec.ID, strings.TrimPrefix(rec.Reason, lostMark))
		} else if !kept[rec.ID] {
			hints[rec.ID] = rec
			lose(rec.ID, "it was free, but the last change of the ledger may be missing")
		}
	}
	for _, a := range c.Addresses {
		lose(a.VF, "an address is held by it, and it has no record")
	}
	if stale {
		for _, id := range slices.SortedFunc(maps.Keys(hints), vf.ID.Compare) {
			lose(id, "it had a record earlier, and none can be read now")
		}
		for _, id := range slices.SortedFunc(maps.Keys(made), vf.ID.Compare) {
			lose(id, "it is there with the MAC address that Culvert gives it, and has no record that can be read")
		}
	}
	r.noteRepair("%d records are kept", len(kept))
	return lost
}

// withoutTwins returns each record once, and of each VF with different records the latest one apart. A
// page whose number is wrong in another one may be read in place of a later version of it, or besides.
func withoutTwins(all []Record) (single, doubtful []Record) {
	of := map[vf.ID][]Record{}
	for _, r := range all {
		of[r.ID] = append(of[r.ID], r)
	}
	for _, id := range slices.SortedFunc(maps.Keys(of), vf.ID.Compare) {
		first := of[id][0]
		if containsOnly(of[id], func(r Record) bool { return reflect.DeepEqual(r, first) }) {
			single = append(single, first)
			continue
		}
		doubtful = append(doubtful, slices.MaxFunc(of[id], func(a, b Record) int {
			return cmp.Or(cmp.Compare(a.Generation, b.Generation), a.Since.Compare(b.Since))
		}))
	}
	return single, doubtful
}

// rescueAddresses keeps the addresses of the leases that are kept. If a record is lost, it also
// keeps every other address, as held by a lost VF.
func (r *Rescue) rescueAddresses(c Content, lost map[vf.ID]Record) {
	held := map[string]bool{} // by entryKey
	hold := func(a Address) bool {
		a.Addr = a.Addr.Unmap()
		k := string(a.entryKey())
		if held[k] || a.Network == "" {
			return false
		}
		held[k], a.Damage = true, ""
		r.Addresses = append(r.Addresses, a)
		return true
	}
	for _, rec := range leasesFirst(r.Records) {
		for _, w := range rec.Lease.Wanted.Addresses {
			if !isLease(rec) && !mayHold(c, rec, w.Prefix.Addr()) {
				continue
			}
			i := slices.IndexFunc(c.Addresses, func(a Address) bool {
				return a.Damage == "" && a.VF == rec.ID && a.Owner == rec.Lease.Owner && a.Network == rec.Lease.AddressPoolName() && a.Addr.Unmap() == w.Prefix.Addr().Unmap()
			})
			if i >= 0 { // the entry has more than the lease
				hold(c.Addresses[i])
				continue
			}
			hold(Address{
				Network: rec.Lease.AddressPoolName(), Addr: w.Prefix.Addr(), VF: rec.ID, Owner: rec.Lease.Owner, Since: rec.Since,
				Shared: slices.ContainsFunc(c.Addresses, func(a Address) bool {
					return a.Shared && a.Network == rec.Lease.AddressPoolName() && a.Addr.Unmap() == w.Prefix.Addr().Unmap()
				}),
			})
		}
	}
	wrong := map[string]bool{}
	for _, p := range Verify(r.Records, c.Addresses) {
		wrong[p.Object] = true
	}
	var one vf.ID // a lost VF, which holds the addresses whose holder is unknown
	if len(lost) > 0 {
		one = slices.MinFunc(slices.Collect(maps.Keys(lost)), vf.ID.Compare)
	}
	for _, a := range c.Addresses {
		_, lostVF := lost[a.VF]
		switch {
		case !wrong[addressObject(a)] || lostVF:
			hold(a)
		case len(lost) == 0:
			if !held[string(a.entryKey())] {
				r.noteRepair("address %s of network %s is given back: no VF has it", a.Addr, a.Network)
			}
		default:
			a.VF, a.Owner = one, vf.Owner{}
			if hold(a) {
				r.noteRepair("address %s of network %s stays held until VF %s is taken over: an attachment may have it", a.Addr, a.Network, one)
			}
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(lost), vf.ID.Compare) {
		hint := lost[id]
		for _, w := range hint.Lease.Wanted.Addresses {
			if hold(Address{Network: hint.Lease.AddressPoolName(), Addr: w.Prefix.Addr(), VF: id, Owner: hint.Lease.Owner, Since: hint.Since}) {
				r.noteRepair("address %s of network %s is held until VF %s is taken over: it had it earlier", w.Prefix.Addr(), hint.Lease.AddressPoolName(), id)
			}
		}
	}
}

// isLease reports whether each address of a record's lease is held.
func isLease(r Record) bool { return r.Phase == vf.PhaseConfiguring || r.Phase == vf.PhaseAttached }

// leasesFirst returns the records with an owner, or a last owner: those that are set aside or given
// back come last.
func leasesFirst(all []Record) (out []Record) {
	for _, r := range all {
		if isLease(r) {
			out = append(out, r)
		}
	}
	for _, r := range all {
		if r.Phase == vf.PhaseQuarantined || r.Phase == vf.PhaseReleasing {
			out = append(out, r)
		}
	}
	return out
}

// mayHold reports whether a VF that is set aside or given back may still hold an address of its last
// lease: the entry of the address cannot be read, or may be missing.
func mayHold(c Content, r Record, addr netip.Addr) bool {
	return len(c.Faults) > 0 || slices.ContainsFunc(c.Addresses, func(a Address) bool {
		return a.Network == r.Lease.AddressPoolName() && a.Addr.Unmap() == addr.Unmap() && (a.Damage != "" || a.VF == r.ID)
	})
}

// Write replaces the damaged file by the rescued ledger, as a whole or not at all, and durably.
// The damaged file stays beside it, unchanged, under the name that Write returns. Write locks the
// damaged file until it is replaced. It returns ErrChanged if the file is not as Inspect read it,
// and ErrBusy if another process has it open (TestRepairRefusesALedgerThatHasChanged).
func (r Rescue) Write(path string, now time.Time) (backup string, err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	damaged, err := lockFile(path)
	if err != nil {
		return "", err
	}
	defer damaged.Close() // which ends the lock
	source, err := sourceOf(damaged)
	if err != nil {
		return "", err
	}
	if digestFile(source) != r.digest {
		return "", ErrChanged
	}
	fresh := path + ".repaired"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	defer func() { os.Remove(fresh) }()
	if err := r.writeLedger(fresh, source, now); err != nil {
		return "", fmt.Errorf("write %s: %w", fresh, err)
	}
	c, err := Inspect(fresh)
	if err != nil {
		return "", fmt.Errorf("read back: %w", err)
	}
	if len(c.Faults) > 0 || len(c.Records) != len(r.Records) || len(c.Addresses) != len(r.Addresses) || len(c.Sandboxes) != len(r.Sandboxes) {
		return "", fmt.Errorf("%s was read back otherwise than it was written (%v): the disk is broken", fresh, c.Faults)
	}
	backup = path + ".damaged-" + now.UTC().Format("20060102T150405Z")
	if err := os.Link(path, backup); err != nil {
		return "", err
	}
	if err := durable.Rename(fresh, path); err != nil {
		return "", err
	}
	return backup, nil
}

// writeLedger writes the ledger at path. It copies the sandboxes from the damaged file.
func (r Rescue) writeLedger(path string, damaged pages.Source, now time.Time) error {
	db, err := makeDB(path, Options{})
	if err != nil {
		return err
	}
	l := &Ledger{db: db, path: path, now: func() time.Time { return now }, memos: newMemos(), keepEvents: MostEvents}
	err = db.Update(prepareBuckets)
	if err == nil {
		err = l.Update(r.fillEntries)
	}
	if err == nil {
		err = copySandboxes(l, damaged)
	}
	return errors.Join(err, db.Close())
}

func (r Rescue) fillEntries(tx *Tx) error {
	errs := []error{tx.SetBoot(r.Boot)}
	for pf, admin := range r.Fresh {
		errs = append(errs, tx.putJSON(bucketMeta, []byte(freshPrefix+pf), admin))
	}
	for _, rec := range r.Records {
		errs = append(errs, tx.putJSON(bucketRecords, []byte(rec.ID.String()), rec))
	}
	for _, a := range r.Addresses {
		errs = append(errs, tx.putJSON(bucketAddresses, a.entryKey(), a))
	}
	for network, last := range r.Last {
		errs = append(errs, tx.putJSON(bucketLast, networkKey(network), last))
	}
	for _, l := range r.PFLeases {
		errs = append(errs, tx.LeasePF(l))
	}
	for _, e := range r.Events {
		errs = append(errs, tx.putJSON(bucketEvents, seqKey(e.Seq), e))
	}
	errs = append(errs, tx.Event(Event{Type: Warning, Reason: reasons.LedgerRepaired, Object: "ledger", Text: fmt.Sprintf("%d VFs, %d addresses", len(r.Records), len(r.Addresses)), By: r.By}))
	return errors.Join(errs...)
}

// Content returns the content of the open ledger, as Inspect does for a file. It leaves the events
// alone: culvertd reads the content often, and their pages would stay in its memory.
func (t *Tx) Content() Content {
	c := Content{Format: format, Boot: t.Boot(), Fresh: map[string]vf.Admin{}}
	c.decodeEntries(func(bucket []byte) entries { return t.entriesFrom(bucket, nil) }, decoders{t.memos.records.decodeEntry, t.memos.addresses.decodeEntry, decodeSandbox, skipEvents})
	return c
}

// CheckContent returns the content of the open ledger, with the damage of the events too.
func (t *Tx) CheckContent() Content {
	c := t.Content()
	_, damaged := checkEvents(t.entriesFrom(bucketEvents, nil))
	c.Damage = append(c.Damage, damaged...)
	return c
}
