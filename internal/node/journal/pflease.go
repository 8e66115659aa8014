package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// PFLease says that a guest has a PF as a whole, by PCI passthrough. Culvert makes no VFs of it until
// the lease ends. ID, Name and Driver are those of the PF while the host had it, since the host sees
// none of them while the guest has it. They may be empty.
type PFLease struct {
	PCI    vf.PCIAddr
	Owner  vf.Owner // a guest
	ID     vf.PFID
	Name   string
	Driver string
	Since  time.Time // in whole seconds
}

// NewPFLease returns a lease of a PF, as it was last read, for a guest.
func NewPFLease(pf vf.PF, guest vf.Owner) PFLease {
	guest.Kind, guest.Interface = vf.OwnerGuest, ""
	return PFLease{PCI: pf.PCI, Owner: guest, ID: pf.ID, Name: pf.Name, Driver: pf.Driver}
}

// Refused returns the error of work on the PF, which the lease forbids. It wraps vf.ErrHeld.
func (l PFLease) Refused() error {
	return fmt.Errorf("guest %s has it as a whole: %w, so Culvert makes no VFs of it until that guest ends: take the PF out of the guest's definition, or out of host.yaml", l.Owner.Name, vf.ErrHeld)
}

// IdentifyPFs returns the PFs with the identities that leased ones had before their guests took them,
// so that the entries of host.yaml that name them still match them.
func IdentifyPFs(pfs []vf.PF, leases []PFLease) []vf.PF {
	if len(leases) == 0 {
		return pfs
	}
	out := slices.Clone(pfs)
	for i := range out {
		for _, l := range leases {
			if l.PCI == out[i].PCI && out[i].Err != "" {
				out[i].Name, out[i].ID, out[i].Driver = cmp.Or(out[i].Name, l.Name), cmp.Or(out[i].ID, l.ID), cmp.Or(l.Driver, out[i].Driver)
			}
		}
	}
	return out
}

// pfLeasePrefix begins the keys of PF leases, which have all that a lease says. They are in the bucket
// of addresses given out lately, with a list of no address as value. An earlier version of culvertd
// would refuse a file with a bucket that it does not know. It reads this one, and forgets none of
// these entries: their keys are before those of grants.
const pfLeasePrefix = "\x00function\x00"

func (l PFLease) entryKey() []byte {
	id := ""
	if !l.ID.IsZero() {
		id = l.ID.String()
	}
	return []byte(pfLeasePrefix + strings.Join([]string{l.PCI.String(), l.Owner.UID, l.Owner.Name, id, l.Name, l.Driver, strconv.FormatInt(l.Since.Unix(), 10)}, "\x00"))
}

// PFLeases returns the leases of PFs, ordered by PCI address.
func (t *Tx) PFLeases() []PFLease {
	all, _ := decodePFLeases(t.entriesUnder(bucketLast, []byte(pfLeasePrefix)))
	return all
}

// PFLeaseOf returns the lease of the PF at an address; false if no guest has that PF.
func (t *Tx) PFLeaseOf(pci vf.PCIAddr) (PFLease, bool) {
	for _, l := range t.PFLeases() {
		if l.PCI == pci {
			return l, true
		}
	}
	return PFLease{}, false
}

// LeasePF writes a lease, which begins now, in place of an earlier one of the same PF.
func (t *Tx) LeasePF(l PFLease) error {
	if l.PCI.IsZero() || l.Owner.UID == "" || strings.Contains(l.Owner.UID+l.Owner.Name+l.Name+l.Driver, "\x00") {
		return fmt.Errorf("ledger: lease of PF %s for %s: %w: want a PF and a guest", l.PCI, l.Owner, vf.ErrInvalid)
	}
	l.Since = t.now
	return errors.Join(t.EndPFLease(l.PCI), t.storeEntry(bucketLast, l.entryKey(), []byte("[]")))
}

// EndPFLease forgets the lease of the PF at an address.
func (t *Tx) EndPFLease(pci vf.PCIAddr) error {
	return t.deleteUnder(bucketLast, []byte(pfLeasePrefix+pci.String()+"\x00"))
}

// deleteUnder deletes the entries of a bucket whose keys have a prefix.
func (t *Tx) deleteUnder(bucket, prefix []byte) error {
	var keys [][]byte // a deletion would move the cursor past the next entry
	for key := range t.entriesUnder(bucket, prefix) {
		keys = append(keys, bytes.Clone(key))
	}
	var errs []error
	for _, key := range keys {
		errs = append(errs, t.deleteEntry(bucket, key))
	}
	return errors.Join(errs...)
}

// decodePFLeases returns the leases of PFs among the entries of their bucket. It trusts the keys,
// which the total covers.
func decodePFLeases(all entries) (out []PFLease, damaged []Problem) {
	for key, stored := range all {
		rest, is := strings.CutPrefix(string(key), pfLeasePrefix)
		if !is {
			continue
		}
		l, err := parsePFLease(rest)
		if err == nil {
			out = append(out, l)
			_, err = openEntry[[]netip.Addr](bucketLast, key, stored)
		}
		if err != nil {
			damaged = append(damaged, newDamage("culvertd may make VFs of a PF that a guest has, unless libvirt reports the guest",
				fmt.Sprintf("lease of a PF %q", rest), "its entry is damaged: %v", err))
		}
	}
	return out, damaged
}

// parsePFLease reads what follows the prefix of a key.
func parsePFLease(text string) (l PFLease, err error) {
	part := strings.Split(text, "\x00")
	if len(part) != 7 {
		return l, fmt.Errorf("it has %d parts, not 7", len(part))
	}
	if l.PCI, err = vf.ParsePCIAddr(part[0]); err != nil {
		return l, err
	}
	since, err := strconv.ParseInt(part[6], 10, 64)
	if err != nil {
		return l, err
	}
	if part[3] != "" {
		if l.ID, err = vf.ParsePFID(part[3]); err != nil {
			return l, err
		}
	}
	l.Owner = vf.Owner{Kind: vf.OwnerGuest, UID: part[1], Name: part[2]}
	l.Name, l.Driver, l.Since = part[4], part[5], time.Unix(since, 0)
	return l, nil
}
