package journal

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/vf"
)

// entries are the keys and stored values of one bucket.
type entries = iter.Seq2[[]byte, []byte]

func damage(means, object string, format string, args ...any) Problem {
	return Problem{Object: object, What: fmt.Sprintf(format, args...), Means: means}
}

// decodeRecords returns the records, ordered by PF and index. One that cannot
// be read, or not be trusted, does not hide the others (I7): it comes back as
// Damaged, under the VF that its key names. Keys are as they were written, or
// the total would say otherwise. The problems are those of entries that name no
// VF.
func decodeRecords(all entries, decode func(key, stored []byte) (Record, error)) ([]Record, []Problem) {
	var (
		out   []Record
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
			wrong = append(wrong, damage("some VF has no record: it is given out only when the kernel shows that nobody uses it",
				fmt.Sprintf("entry %q", key), "it names no VF: %s", err))
			continue
		}
		out = append(out, damagedRecord(id, rec, err))
	}
	slices.SortFunc(out, func(a, b Record) int { return a.ID.Compare(b.ID) })
	return out, wrong
}

// damagedRecord is what stands for a record that cannot be trusted. Of one that
// culvert ledger repair marked as lost the place is known.
func damagedRecord(id vf.ID, rec Record, err error) Record {
	out := Record{ID: id, Phase: Damaged, Reason: err.Error()}
	if rec.Phase == Damaged {
		out.PCI, out.Generation = rec.PCI, rec.Generation
	}
	return out
}

// decodeRecord returns a record that can be trusted, or why not.
func decodeRecord(key, stored []byte) (Record, error) {
	rec, err := open[Record](bucketRecords, key, stored)
	if rec.Phase == reserved {
		rec.Phase = Configuring
	}
	switch {
	case err != nil:
	case rec.ID.String() != string(key):
		err = fmt.Errorf("it says that it is about VF %s", rec.ID)
	case rec.Phase == Damaged: // culvert ledger repair says so
		err = errors.New(rec.Reason)
	case !rec.Phase.known():
		err = fmt.Errorf("its phase is %q, which this culvertd does not know", rec.Phase)
	}
	return rec, err
}

// decodeAddresses returns the addresses. One whose entry cannot be trusted is
// still held (I4): it comes back with Damage, which says why nobody knows who
// has it. The problems are those of entries that name no address.
func decodeAddresses(all entries, decode func(key, stored []byte) (Address, error)) ([]Address, []Problem) {
	var (
		out   []Address
		wrong []Problem
	)
	for key, stored := range all {
		a, err := decode(key, stored)
		if err == nil {
			out = append(out, a)
			continue
		}
		network, text, _ := strings.Cut(string(key), "\x00")
		text, _, _ = strings.Cut(text, "\x00") // of a shared one
		addr, keyErr := netip.ParseAddr(text)
		if keyErr != nil {
			wrong = append(wrong, damage("an address of some network may be given out while somebody has it",
				fmt.Sprintf("entry %q", key), "it names no address: %s", err))
			continue
		}
		out = append(out, Address{Network: network, Addr: addr, Damage: err.Error()})
	}
	return out, wrong
}

// decodeAddress returns an address that can be trusted, or why not.
func decodeAddress(key, stored []byte) (Address, error) {
	a, err := open[Address](bucketAddresses, key, stored)
	if err == nil && string(a.key()) != string(key) {
		err = fmt.Errorf("it says that it is about address %s of network %s", a.Addr, a.Network)
	}
	return a, err
}

// decodeEvents returns the events, oldest first. For one that cannot be read
// there is one that says so.
func decodeEvents(all entries) ([]Event, []Problem) {
	var (
		out   []Event
		wrong []Problem
	)
	for key, stored := range all {
		e, err := open[Event](bucketEvents, key, stored)
		if err != nil {
			e.Seq = seqOf(key)
			wrong = append(wrong, damage("what happened then is not known any more", fmt.Sprintf("event %d", e.Seq), "it is damaged: %s", err))
			e = Event{Seq: e.Seq, Type: Warning, Reason: "Damaged", Object: "ledger", Text: "this event cannot be read: " + err.Error()}
		}
		out = append(out, e)
	}
	return out, wrong
}

// decodeLast returns what was given out lately. Damage costs nothing but the
// order in which addresses are given out.
func decodeLast(all entries) (map[string][]netip.Addr, []Problem) {
	out := map[string][]netip.Addr{}
	var wrong []Problem
	for key, stored := range all {
		network := strings.TrimSuffix(string(key), "\x00")
		last, err := open[[]netip.Addr](bucketLast, key, stored)
		if err != nil {
			wrong = append(wrong, damage("an address that was given back a moment ago may be given out again",
				"network "+network, "the list of its last addresses is damaged: %s", err))
			continue
		}
		out[network] = last
	}
	return out, wrong
}
