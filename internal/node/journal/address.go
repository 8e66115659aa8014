package journal

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// keepLast is how many addresses of a network the ledger remembers as given out lately: enough for
// the last one of each range set.
const keepLast = 16

// keepPools is how many pools whose last addresses the ledger remembers, if fewer have an address
// that is held. Tenants choose the names of pools, so their number needs a bound.
const keepPools = 256

func addressKey(network string, addr netip.Addr) []byte {
	return append(networkKey(network), addr.String()...)
}

// entryKey returns the ledger's key of an address. The key of a shared address also has the VF of
// its holder.
func (a Address) entryKey() []byte {
	k := addressKey(a.Network, a.Addr)
	if a.Shared {
		k = append(append(k, 0), a.VF.String()...)
	}
	return k
}

func networkKey(network string) []byte { return []byte(network + "\x00") }

// AddressesOf returns the addresses that are held in a network; all networks
// when it is empty.
func (t *Tx) AddressesOf(network string) []Address {
	var prefix []byte
	count := t.memos.addresses.count()
	if network != "" {
		prefix, count = networkKey(network), 0
	}
	all, _ := decodeAddresses(t.entriesUnder(bucketAddresses, prefix), count, t.memos.addresses.decodeEntry)
	return all
}

// HoldersOf returns the entries of an address in all networks. There are several if networks have
// the same subnet, or if attachments share the address. It reads only these entries, since a busy
// node has many others.
func (t *Tx) HoldersOf(a netip.Addr) []Address {
	found := func(yield func([]byte, []byte) bool) {
		c := t.tx.Bucket(bucketAddresses).Cursor()
		for first, _ := c.First(); first != nil; {
			network, _, _ := strings.Cut(string(first), "\x00")
			key := string(addressKey(network, a))
			k, stored := c.Seek([]byte(key))
			for ; string(k) == key || strings.HasPrefix(string(k), key+"\x00"); k, stored = c.Next() {
				if !yield(k, stored) {
					return
				}
			}
			first, _ = c.Seek([]byte(network + "\x01")) // the next network
		}
	}
	all, _ := decodeAddresses(found, 0, t.memos.addresses.decodeEntry)
	return all
}

// UnreadAddresses returns how many entries of addresses cannot be read, including those whose key
// is no address.
func (t *Tx) UnreadAddresses() int {
	all, unnamed := decodeAddresses(t.entriesUnder(bucketAddresses, nil), t.memos.addresses.count(), t.memos.addresses.decodeEntry)
	n := len(unnamed)
	for _, a := range all {
		if a.Damage != "" {
			n++
		}
	}
	return n
}

// HoldAddress records that an attachment has an address. The error wraps vf.ErrHeld and names the
// owner if another attachment has the address (I4). Holders of a shared address do not exclude
// each other.
func (t *Tx) HoldAddress(a Address) error {
	key := a.entryKey()
	if stored := t.tx.Bucket(bucketAddresses).Get(key); stored != nil {
		old, err := t.memos.addresses.decodeEntry(key, stored)
		if err != nil {
			return fmt.Errorf("address %s of network %s: %w by an unknown owner, since its entry in the ledger is damaged (%w): culvert ledger check says more",
				a.Addr, a.Network, vf.ErrHeld, err)
		}
		if old.Owner != a.Owner {
			return fmt.Errorf("address %s of network %s: %w by %s", a.Addr, a.Network, vf.ErrHeld, old.Owner)
		}
	}
	a.Since = t.now
	return errors.Join(t.putJSON(bucketAddresses, key, a), t.rememberAddress(a))
}

// LastAddresses returns the addresses of a network that were given out lately, the latest last.
// They may be free again. There are none if their entry is damaged, which affects only the order in
// which addresses are given out. The caller must not change them.
func (t *Tx) LastAddresses(network string) []netip.Addr {
	key := networkKey(network)
	stored := t.tx.Bucket(bucketLast).Get(key)
	if stored == nil {
		return nil
	}
	last, err := t.memos.last.decodeEntry(key, stored)
	if err != nil {
		return nil
	}
	return last
}

// rememberAddress records an address as the latest of its network. It first makes room if the
// network is new in the ledger.
func (t *Tx) rememberAddress(a Address) error {
	last := make([]netip.Addr, 0, keepLast+1)
	for _, o := range t.LastAddresses(a.Network) {
		if o != a.Addr {
			last = append(last, o)
		}
	}
	last = append(last, a.Addr)
	last = last[max(0, len(last)-keepLast):]
	key := networkKey(a.Network)
	if t.tx.Bucket(bucketLast).Get(key) == nil {
		if err := t.forgetIdlePools(); err != nil {
			return err
		}
	}
	if err := t.putJSON(bucketLast, key, last); err != nil {
		return err
	}
	t.memos.last.keepDecoded(key, t.tx.Bucket(bucketLast).Get(key), last) // the next allocation reads it
	return nil
}

// forgetIdlePools deletes the last addresses of pools in which no address is held, if the ledger has
// those of keepPools pools or more. These pools lose only the order in which their addresses rest:
// the next allocation may give out an address that was freed a moment ago. Grants stay. A call reads
// the keys of pools with a held address and of at most 2*keepPools others, so a ledger that an
// earlier culvertd filled gets small in several calls.
func (t *Tx) forgetIdlePools() error {
	held := t.tx.Bucket(bucketAddresses).Cursor()
	pools := 0
	var idle [][]byte // a deletion would move the cursor past the next entry
	for key := range t.entriesFrom(bucketLast, grantsEnd) {
		pools++
		if at, _ := held.Seek(key); !bytes.HasPrefix(at, key) {
			idle = append(idle, bytes.Clone(key))
		}
		if len(idle) == 2*keepPools {
			break
		}
	}
	if pools < keepPools {
		return nil
	}
	var errs []error
	for _, key := range idle {
		errs = append(errs, t.deleteEntry(bucketLast, key))
	}
	return errors.Join(errs...)
}

// FreeAddresses frees every address of one VF's attachment. It leaves out entries that cannot be
// read, since their holder is not known. A repair gives such entries, without an owner, to one of the
// VFs whose record is lost. While others of these are there, it is passed on to one of them.
func (t *Tx) FreeAddresses(id vf.ID) error {
	var keys [][]byte // a deletion would move the cursor past the next entry
	var unknown []Address
	for key, stored := range t.entriesFrom(bucketAddresses, nil) {
		if a, err := t.memos.addresses.decodeEntry(key, stored); err == nil && a.VF == id {
			keys = append(keys, bytes.Clone(key))
			if a.Owner.IsZero() {
				unknown = append(unknown, a)
			}
		}
	}
	var errs []error
	for _, key := range keys {
		errs = append(errs, t.deleteEntry(bucketAddresses, key))
	}
	if len(unknown) == 0 {
		return errors.Join(errs...)
	}
	all := t.Records()
	i := slices.IndexFunc(all, func(r Record) bool { return r.Phase == vf.PhaseDamaged && r.ID != id })
	for _, a := range unknown {
		if i >= 0 {
			a.VF = all[i].ID
			errs = append(errs, t.putJSON(bucketAddresses, a.entryKey(), a))
		}
	}
	return errors.Join(errs...)
}
