package journal

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/vf"
)

// Problem is one thing that cannot be true of a ledger that culvertd wrote.
type Problem struct {
	// Invariant is the one that would be broken (I1, I4 ...); empty when what
	// is written is wrong, and no VF and no address is the worse for it yet.
	Invariant string `json:"invariant,omitempty"`
	Object    string `json:"object"` // "VF 02:00:00:00:00:01#3 (0000:01:10.6)", "address 10.0.0.5 of network blue"
	What      string `json:"what"`   // what is written there
	Means     string `json:"means"`  // what may follow from it
}

func (p Problem) String() string {
	s := p.Object + ": " + p.What + ": " + p.Means
	if p.Invariant != "" {
		s += " (" + p.Invariant + ")"
	}
	return s
}

// Verify lists what of a ledger's records and addresses cannot be true, at any
// instant between two transactions, crashes included; none for a sound one. It
// is pure: tests of whatever writes the ledger call it after every step, and
// culvert ledger check on a file.
//
// Of a record: its phase is known, its generation counts from 1, its VF has one
// record, and one with a baseline unless it is Making. Free and Making have no
// lease; Configuring and Attached have an owner with a UID.
// Quarantined and Releasing may have an owner or none (a free VF that is
// taken back to its baseline).
//
// Of all of them: no two VFs of one PF, and no two that are held, are at one
// PCI address (I1). No attachment, which is an owner's UID and the interface,
// has two VFs as Configuring or Attached (I1); Releasing does not
// count, since a VF that is retried after a quarantine still names the owner
// that it had.
//
// Of an address: it is held once in its network, and by a VF that is held or
// quarantined, for the owner that the VF's lease names (I4). Every address of a
// Configuring or Attached lease is held by it (I4).
func Verify(records []Record, addresses []Address) []Problem {
	v := verifier{records: map[vf.ID]Record{}}
	for _, r := range records {
		v.record(r)
	}
	v.places(records)
	v.attachments(records)
	for _, a := range addresses {
		v.address(a)
	}
	v.twice(addresses)
	v.unheld(records, addresses)
	return v.problems
}

// Verify is Verify of the transaction's records and addresses.
func (t *Tx) Verify() []Problem { return Verify(t.Records(), t.AddressesOf("")) }

type verifier struct {
	records  map[vf.ID]Record
	problems []Problem
}

func (v *verifier) add(invariant, object, means, format string, args ...any) {
	v.problems = append(v.problems, Problem{Invariant: invariant, Object: object, What: fmt.Sprintf(format, args...), Means: means})
}

func objectOf(r Record) string {
	if r.PCI.IsZero() {
		return "VF " + r.ID.String()
	}
	return fmt.Sprintf("VF %s (%s)", r.ID, r.PCI)
}

func (v *verifier) record(r Record) {
	object := objectOf(r)
	if _, twice := v.records[r.ID]; twice {
		v.add("I1", object, "one of them is not true, and the VF could be given out twice", "it has two records")
	}
	v.records[r.ID] = r
	if r.Phase == Damaged {
		v.add("", object, "nobody knows who has it: nobody gets it, and its PF's VFs stay", "its record is damaged: %s", r.Reason)
		return
	}
	if !r.Phase.known() {
		v.add("", object, "culvertd does not know what to do with it, and leaves it alone", "its phase is %q", r.Phase)
	}
	if r.Generation == 0 {
		v.add("I8", object, "a late detach could hit the next owner", "its generation is 0")
	}
	if r.Phase != Making && r.Baseline.Admin.MAC.IsZero() {
		v.add("I2", object, "it cannot be reset: nobody knows what it was like when it was clean", "it is %s without a baseline", r.Phase)
	}
	if r.Phase != Making && r.PCI.IsZero() {
		v.add("", object, "it cannot be found on the bus", "it is %s without a PCI address", r.Phase)
	}
	v.lease(r, object)
}

func (v *verifier) lease(r Record, object string) {
	owner := r.Lease.Owner
	switch r.Phase {
	case Free, Making:
		if !owner.IsZero() {
			v.add("I1", object, "it could be given out while that owner has it", "it is %s, and yet %s has it", r.Phase, owner)
		}
	case Configuring, Attached:
		if owner.UID == "" {
			v.add("I8", object, "no detach can find it", "it is %s for an owner without UID (%q)", r.Phase, owner)
		}
	}
}

// places wants every PCI address once.
func (v *verifier) places(records []Record) {
	at := map[vf.PCIAddr][]Record{}
	for _, r := range records {
		if r.PCI.IsZero() || r.Phase == Damaged {
			continue
		}
		for _, o := range at[r.PCI] {
			switch {
			case o.ID == r.ID: // told already
			case o.ID.PF == r.ID.PF:
				v.add("I1", objectOf(r), "one VF could be given out as two", "VF %s is at the same PCI address", o.ID)
			case o.Held() && r.Held(): // free, it may be of a card that was in that slot before
				v.add("I1", objectOf(r), "one VF has two owners, or one card has gone", "%s has it, and %s has VF %s at the same PCI address",
					r.Lease.Owner, o.Lease.Owner, o.ID)
			}
		}
		at[r.PCI] = append(at[r.PCI], r)
	}
}

// attachments wants every attachment to have one VF.
func (v *verifier) attachments(records []Record) {
	type attachment struct{ uid, iface string }
	first := map[attachment]Record{}
	for _, r := range records {
		if r.Phase != Configuring && r.Phase != Attached {
			continue
		}
		key := attachment{r.Lease.Owner.UID, r.Lease.Owner.Interface}
		if o, twice := first[key]; twice {
			v.add("I1", objectOf(r), "a detach gives back one of the two, and the other is lost",
				"%s has it as %s, and VF %s as well", r.Lease.Owner, key.iface, o.ID)
			continue
		}
		first[key] = r
	}
}

func addressObject(a Address) string {
	return fmt.Sprintf("address %s of network %s", a.Addr, a.Network)
}

func (v *verifier) address(a Address) {
	object := addressObject(a)
	const lost = "nobody gives it back, so the network has one less"
	r, ok := v.records[a.VF]
	switch {
	case a.Damage != "":
		v.add("", object, "nobody knows who has it, so it stays held", "its entry is damaged: %s", a.Damage)
	case !a.Addr.IsValid() || a.Network == "":
		v.add("I4", object, "it could be given out while somebody has it", "it is no address of a network")
	case !ok:
		v.add("I4", object, lost, "VF %s holds it for %s, and has no record", a.VF, a.Owner)
	case r.Phase == Damaged:
		// Whether it is held nobody knows; it stays held.
	case !r.Held() && r.Phase != Quarantined:
		v.add("I4", object, lost, "VF %s holds it for %s, and is %s", a.VF, a.Owner, r.Phase)
	case r.Lease.Owner != a.Owner:
		v.add("I4", object, "one of the two has an address that the other will give back", "it is %s's, but %s has its VF %s", a.Owner, r.Holder(), a.VF)
	}
}

func (v *verifier) twice(addresses []Address) {
	type key struct {
		network string
		addr    netip.Addr
	}
	first := map[key]Address{}
	for _, a := range addresses {
		k := key{a.Network, a.Addr.Unmap()}
		if o, twice := first[k]; twice {
			v.add("I4", addressObject(a), "two have one address", "%s holds it, and %s does", a.Owner, o.Owner)
			continue
		}
		first[k] = a
	}
}

// unheld wants the addresses of a lease to be held for it.
func (v *verifier) unheld(records []Record, addresses []Address) {
	for _, r := range records {
		if r.Phase != Configuring && r.Phase != Attached {
			continue
		}
		for _, want := range r.Lease.Wanted.Addresses {
			held := slices.ContainsFunc(addresses, func(a Address) bool {
				return a.VF == r.ID && a.Network == r.Lease.AddressPoolName() && a.Addr == want.Prefix.Addr()
			})
			if !held {
				v.add("I4", objectOf(r), "it could be given to another", "%s has address %s of network %s, which nobody holds",
					r.Lease.Owner, want.Prefix.Addr(), r.Lease.AddressPoolName())
			}
		}
	}
}
