package journal

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/vf"
)

// Problem is a contradiction in a ledger, which culvertd never writes.
type Problem struct {
	// Invariant is the invariant that would be broken (I1, I4 ...). It is empty if the entry is
	// wrong but does not affect a VF or an address yet.
	Invariant string `json:"invariant,omitempty"`
	Object    string `json:"object"` // "VF 02:00:00:00:00:01#3 (0000:01:10.6)", "address 10.0.0.5 of network blue"
	What      string `json:"what"`   // the contradictory content
	Means     string `json:"means"`  // what may follow from it
}

func (p Problem) String() string {
	s := p.Object + ": " + p.What + ": " + p.Means
	if p.Invariant != "" {
		s += " (" + p.Invariant + ")"
	}
	return s
}

// Verify lists the contradictions in a ledger's records and addresses. A sound ledger has none
// between two transactions, even after a crash. Verify is pure: tests of the ledger's writers call
// it after every step, and culvert ledger check calls it for a file.
//
// A record: its phase is known, its generation is at least 1, its VF has no other record, and it
// has a baseline unless it is Making. Free, Prepared and Making have no lease; Configuring and Attached
// have an owner with a UID. Quarantined and Releasing may have an owner or none (a free VF that
// is taken back to its baseline). Prepared has a claim, Free and Making have none.
//
// All records: no two VFs of one PF, and no two that are held, are at one PCI address (I1). No
// attachment, which is an owner's UID and the interface, has two VFs as Configuring or Attached
// (I1); Releasing does not count, since the record of a VF that is retried after a quarantine
// still names its last owner.
//
// An address: it is held once in its network, and by a VF that is held or quarantined, for the
// owner that the VF's lease names (I4). Every address of a Configuring or Attached lease is
// held by it (I4).
func Verify(records []Record, addresses []Address) []Problem {
	v := verifier{records: map[vf.ID]Record{}}
	for _, r := range records {
		v.verifyRecord(r)
	}
	v.verifyPlaces(records)
	v.verifyAttachments(records)
	for _, a := range addresses {
		v.verifyAddress(a)
	}
	v.findTwice(addresses)
	v.findUnheld(records, addresses)
	return v.problems
}

// Verify verifies the transaction's records and addresses.
func (t *Tx) Verify() []Problem { return Verify(t.Records(), t.AddressesOf("")) }

type verifier struct {
	records  map[vf.ID]Record
	problems []Problem
}

func (v *verifier) addProblem(invariant, object, means, format string, args ...any) {
	v.problems = append(v.problems, Problem{Invariant: invariant, Object: object, What: fmt.Sprintf(format, args...), Means: means})
}

func objectOf(r Record) string {
	if r.PCI.IsZero() {
		return "VF " + r.ID.String()
	}
	return fmt.Sprintf("VF %s (%s)", r.ID, r.PCI)
}

func (v *verifier) verifyRecord(r Record) {
	object := objectOf(r)
	if _, twice := v.records[r.ID]; twice {
		v.addProblem("I1", object, "one of them is not true, and the VF could be given out twice", "it has two records")
	}
	v.records[r.ID] = r
	if r.Phase == vf.PhaseDamaged {
		v.addProblem("", object, "its owner is unknown: no other owner gets it, and its PF's VFs stay", "its record is damaged: %s", r.Reason)
		return
	}
	if !r.Phase.IsKnown() {
		v.addProblem("", object, "culvertd does not know what to do with it, and leaves it alone", "its phase is %q", r.Phase)
	}
	if r.Generation == 0 {
		v.addProblem("I8", object, "a late detach could hit the next owner", "its generation is 0")
	}
	if r.Phase != vf.PhaseMaking && r.Baseline.Admin.MAC.IsZero() {
		v.addProblem("I2", object, "it cannot be reset: its clean state is unknown", "it is %s without a baseline", r.Phase)
	}
	if r.Phase != vf.PhaseMaking && r.PCI.IsZero() {
		v.addProblem("", object, "it cannot be found on the bus", "it is %s without a PCI address", r.Phase)
	}
	v.verifyLease(r, object)
}

func (v *verifier) verifyLease(r Record, object string) {
	owner := r.Lease.Owner
	switch r.Phase {
	case vf.PhaseFree, vf.PhaseMaking, vf.PhasePrepared:
		if !owner.IsZero() {
			v.addProblem("I1", object, "it could be given out while that owner has it", "it is %s, and yet %s has it", r.Phase, owner)
		}
	case vf.PhaseConfiguring, vf.PhaseAttached:
		if owner.UID == "" {
			v.addProblem("I8", object, "no detach can find it", "it is %s for an owner without UID (%q)", r.Phase, owner)
		}
	}
	if err := checkClaim(r); err != nil {
		v.addProblem("I1", object, "it could be given out although a claim has it, or no Unprepare can find it", "%s", err)
	}
}

// verifyPlaces reports each PCI address that two VFs have.
func (v *verifier) verifyPlaces(records []Record) {
	at := map[vf.PCIAddr][]Record{}
	for _, r := range records {
		if r.PCI.IsZero() || r.Phase == vf.PhaseDamaged {
			continue
		}
		for _, o := range at[r.PCI] {
			switch {
			case o.ID == r.ID: // reported already
			case o.ID.PF == r.ID.PF:
				v.addProblem("I1", objectOf(r), "one VF could be given out as two", "VF %s is at the same PCI address", o.ID)
			case o.Held() && r.Held(): // a free record may be of a card that was in that slot before
				v.addProblem("I1", objectOf(r), "one VF has two owners, or one card has gone", "%s has it, and %s has VF %s at the same PCI address",
					r.Holder(), o.Holder(), o.ID)
			}
		}
		at[r.PCI] = append(at[r.PCI], r)
	}
}

// verifyAttachments reports attachments that have two VFs.
func (v *verifier) verifyAttachments(records []Record) {
	type attachment struct{ uid, iface string }
	first := map[attachment]Record{}
	for _, r := range records {
		if r.Phase != vf.PhaseConfiguring && r.Phase != vf.PhaseAttached {
			continue
		}
		key := attachment{r.Lease.Owner.UID, r.Lease.Owner.Interface}
		if o, twice := first[key]; twice && r.IsMemberWith(o) {
			continue
		} else if twice {
			v.addProblem("I1", objectOf(r), "a detach gives back one of the two, and the other is lost",
				"%s has it as %s, and VF %s as well", r.Lease.Owner, key.iface, o.ID)
			continue
		}
		first[key] = r
	}
}

func addressObject(a Address) string {
	return fmt.Sprintf("address %s of network %s", a.Addr, a.Network)
}

func (v *verifier) verifyAddress(a Address) {
	object := addressObject(a)
	const lost = "no attachment gives it back, so the network has one less"
	r, ok := v.records[a.VF]
	switch {
	case a.Damage != "":
		v.addProblem("", object, "its owner is unknown, so it stays held", "its entry is damaged: %s", a.Damage)
	case !a.Addr.IsValid() || a.Network == "":
		v.addProblem("I4", object, "it could be given out while it has an owner", "it is no address of a network")
	case !ok:
		v.addProblem("I4", object, lost, "VF %s holds it for %s, and has no record", a.VF, a.Owner)
	case r.Phase == vf.PhaseDamaged:
		// The record of its VF is damaged, so its holder is unknown and the address stays held.
	case r.IsIdle() || r.Phase == vf.PhaseMaking:
		v.addProblem("I4", object, lost, "VF %s holds it for %s, and is %s", a.VF, a.Owner, r.Phase)
	case r.Lease.Owner != a.Owner:
		v.addProblem("I4", object, "one of the two has an address that the other will give back", "it is %s's, but %s has its VF %s", a.Owner, r.Holder(), a.VF)
	}
}

func (v *verifier) findTwice(addresses []Address) {
	type key struct {
		network string
		addr    netip.Addr
	}
	first := map[key]Address{}
	for _, a := range addresses {
		k := key{a.Network, a.Addr.Unmap()}
		if o, twice := first[k]; twice && !(a.Shared && o.Shared) {
			v.addProblem("I4", addressObject(a), "two have one address", "%s holds it, and %s does", a.Owner, o.Owner)
			continue
		}
		first[k] = a
	}
}

// findUnheld reports addresses that a lease has but does not hold in the ledger.
func (v *verifier) findUnheld(records []Record, addresses []Address) {
	for _, r := range records {
		if r.Phase != vf.PhaseConfiguring && r.Phase != vf.PhaseAttached {
			continue
		}
		for _, want := range r.Lease.Wanted.Addresses {
			held := slices.ContainsFunc(addresses, func(a Address) bool {
				return a.VF == r.ID && a.Network == r.Lease.AddressPoolName() && a.Addr == want.Prefix.Addr()
			})
			if !held {
				v.addProblem("I4", objectOf(r), "it could be given to another", "%s has address %s of network %s, which no entry of the ledger holds",
					r.Lease.Owner, want.Prefix.Addr(), r.Lease.AddressPoolName())
			}
		}
	}
}
