package journal

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// entries are the keys and stored values of one bucket.
type entries = iter.Seq2[[]byte, []byte]

func newDamage(means, object string, format string, args ...any) Problem {
	return Problem{Object: object, What: fmt.Sprintf(format, args...), Means: means}
}

// decodeRecords returns the records, ordered by PF and index. A record that cannot be read or
// trusted does not hide the others (I7): it is returned as Damaged, with the VF that its key
// names. The keys themselves can be trusted, since the total covers them. The problems are about
// entries whose key names no VF. count is about how many entries there are; 0: not known.
func decodeRecords(all entries, count int, decode func(key, stored []byte) (Record, error)) ([]Record, []Problem) {
	var (
		out   = slices.Grow([]Record(nil), count)
		wrong []Problem
	)
	for key, stored := range all {
		rec, err := decode(key, stored)
		if err == nil {
			out = append(out, rec)
			continue
		}
		id, keyErr := vf.ParseID(string(key))
		if keyErr != nil {
			wrong = append(wrong, newDamage("some VF has no record: culvertd gives it out only when the kernel shows that it is unused",
				fmt.Sprintf("entry %q", key), "it names no VF: %s", err))
			continue
		}
		out = append(out, damagedRecord(id, rec, err))
	}
	slices.SortFunc(out, func(a, b Record) int { return a.ID.Compare(b.ID) })
	return out, wrong
}

// damagedRecord replaces a record that cannot be trusted. It keeps the PCI address of a record
// that culvert ledger repair marked as lost.
func damagedRecord(id vf.ID, rec Record, err error) Record {
	out := Record{ID: id, Phase: vf.PhaseDamaged, Reason: err.Error()}
	if rec.Phase == vf.PhaseDamaged {
		out.PCI, out.Generation = rec.PCI, rec.Generation
	}
	return out
}

// decodeRecord returns a record that can be trusted, or an error that says why it cannot.
func decodeRecord(key, stored []byte) (Record, error) {
	rec, err := openEntry[Record](bucketRecords, key, stored)
	return checkRecord(key, rec, err)
}

// checkRecord returns a record that was decoded, with an error if it cannot be trusted.
func checkRecord(key []byte, rec Record, err error) (Record, error) {
	if rec.Phase == reserved {
		rec.Phase = vf.PhaseConfiguring
	}
	switch {
	case err != nil:
	case rec.ID.String() != string(key):
		err = fmt.Errorf("it says that it is about VF %s", rec.ID)
	case rec.Phase == vf.PhaseDamaged: // culvert ledger repair says so
		err = errors.New(rec.Reason)
	case !rec.Phase.IsKnown():
		err = fmt.Errorf("its phase is %q, which this culvertd does not know", rec.Phase)
	default:
		err = checkClaim(rec)
	}
	return rec, err
}

// checkClaim returns an error if the claim of a record cannot be trusted: Unprepare would not find the
// VF, or the VF would be given out although a claim has it.
func checkClaim(rec Record) error {
	switch c := rec.Claim; {
	case c == nil && rec.Phase == vf.PhasePrepared:
		return errors.New("it is prepared, and names no claim")
	case c == nil:
	case c.UID == "" || c.Name == "" || c.Namespace == "":
		return fmt.Errorf("its claim is %q in namespace %q with the UID %q, and each of them is needed", c.Name, c.Namespace, c.UID)
	case rec.Phase == vf.PhaseFree || rec.Phase == vf.PhaseMaking:
		return fmt.Errorf("it is %s, and yet %s has it", rec.Phase, c)
	}
	return nil
}

// decodeAddresses returns the addresses. An address whose entry cannot be trusted stays held
// (I4): it is returned with Damage, which has the reason why its holder is unknown. The problems
// are about entries whose key names no address. count is about how many entries there are; 0: not
// known.
func decodeAddresses(all entries, count int, decode func(key, stored []byte) (Address, error)) ([]Address, []Problem) {
	var (
		out   = slices.Grow([]Address(nil), count)
		wrong []Problem
	)
	for key, stored := range all {
		a, err := decode(key, stored)
		if err == nil {
			out = append(out, a)
			continue
		}
		network, text, _ := strings.Cut(string(key), "\x00")
		text, _, _ = strings.Cut(text, "\x00") // the key of a shared address has its VF behind the NUL
		addr, keyErr := netip.ParseAddr(text)
		if keyErr != nil {
			wrong = append(wrong, newDamage("an address of some network may be given out while it has an owner",
				fmt.Sprintf("entry %q", key), "it names no address: %s", err))
			continue
		}
		out = append(out, Address{Network: network, Addr: addr, Damage: err.Error()})
	}
	return out, wrong
}

// decodeAddress returns an address that can be trusted, or an error that says why it cannot.
func decodeAddress(key, stored []byte) (Address, error) {
	a, err := openEntry[Address](bucketAddresses, key, stored)
	return checkAddress(key, a, err)
}

// checkAddress returns an address that was decoded, with an error if it cannot be trusted.
func checkAddress(key []byte, a Address, err error) (Address, error) {
	if err == nil && string(a.entryKey()) != string(key) {
		err = fmt.Errorf("it says that it is about address %s of network %s", a.Addr, a.Network)
	}
	return a, err
}

// decodeEvents returns the events, oldest first. It replaces an event that cannot be read by an
// event that reports the damage.
func decodeEvents(all entries) ([]Event, []Problem) {
	var (
		out   []Event
		wrong []Problem
	)
	for key, stored := range all {
		e, err := openEntry[Event](bucketEvents, key, stored)
		if err != nil {
			wrong = append(wrong, reportDamagedEvent(key, err))
			e = Event{Seq: seqOf(key), Type: Warning, Reason: reasons.Damaged, Object: "ledger", Text: "this event cannot be read: " + err.Error()}
		}
		out = append(out, e)
	}
	return out, wrong
}

// checkEvents finds the events that are not as they were written, and keeps none of them in memory.
func checkEvents(all entries) (_ []Event, wrong []Problem) {
	for key, stored := range all {
		if _, err := unsealEntry(bucketEvents, key, stored); err != nil {
			wrong = append(wrong, reportDamagedEvent(key, err))
		}
	}
	return nil, wrong
}

// skipEvents does not read the events.
func skipEvents(entries) ([]Event, []Problem) { return nil, nil }

func reportDamagedEvent(key []byte, err error) Problem {
	return newDamage("what happened then is not known any more", fmt.Sprintf("event %d", seqOf(key)), "it is damaged: %s", err)
}

// decodeLast returns the addresses that were given out lately. A damaged entry affects only the
// order in which addresses are given out.
func decodeLast(all entries) (map[string][]netip.Addr, []Problem) {
	out := map[string][]netip.Addr{}
	var wrong []Problem
	for key, stored := range all {
		if strings.HasPrefix(string(key), grantPrefix) || strings.HasPrefix(string(key), pfLeasePrefix) {
			continue
		}
		network := strings.TrimSuffix(string(key), "\x00")
		last, err := openLast(key, stored)
		if err != nil {
			wrong = append(wrong, newDamage("an address that was given back a moment ago may be given out again",
				"network "+network, "the list of its last addresses is damaged: %s", err))
			continue
		}
		out[network] = last
	}
	return out, wrong
}

// openLast decodes the addresses of an entry of bucketLast: those of a network that were given out
// lately, or the ends of a grant's runs.
func openLast(key, stored []byte) ([]netip.Addr, error) {
	return openEntry[[]netip.Addr](bucketLast, key, stored)
}
