package journal

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/vf"
)

// keepLast is how many addresses of a network are remembered as given out
// lately: enough for one of each range set that anybody declares.
const keepLast = 16

func addressKey(network string, addr netip.Addr) []byte {
	return append(networkKey(network), addr.String()...)
}

// key is where the ledger has an address: that of a shared one names its holder's VF.
func (a Address) key() []byte {
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
	if network != "" {
		prefix = networkKey(network)
	}
	all, _ := decodeAddresses(t.under(bucketAddresses, prefix), t.memos.addresses.of)
	return all
}

// UnreadAddresses returns how many entries of addresses cannot be read, those that name
// no address included.
func (t *Tx) UnreadAddresses() int {
	all, unnamed := decodeAddresses(t.under(bucketAddresses, nil), t.memos.addresses.of)
	n := len(unnamed)
	for _, a := range all {
		if a.Damage != "" {
			n++
		}
	}
	return n
}

// HoldAddress records that an attachment has an address. vf.ErrHeld names the
// owner when somebody else does (I4); holders of a shared address are no hindrance to
// each other.
func (t *Tx) HoldAddress(a Address) error {
	key := a.key()
	if stored := t.tx.Bucket(bucketAddresses).Get(key); stored != nil {
		old, err := t.memos.addresses.of(key, stored)
		if err != nil {
			return fmt.Errorf("address %s of network %s: %w by somebody unknown, since its entry in the ledger is damaged (%w): culvert ledger check says more",
				a.Addr, a.Network, vf.ErrHeld, err)
		}
		if old.Owner != a.Owner {
			return fmt.Errorf("address %s of network %s: %w by %s", a.Addr, a.Network, vf.ErrHeld, old.Owner)
		}
	}
	a.Since = t.now
	return errors.Join(t.put(bucketAddresses, key, a), t.remember(a))
}

// LastAddresses returns the addresses of a network that were given out lately,
// the latest at the end, whether or not they are still held.
func (t *Tx) LastAddresses(network string) []netip.Addr {
	all, _ := decodeLast(t.under(bucketLast, networkKey(network)))
	return all[network]
}

func (t *Tx) remember(a Address) error {
	last := t.LastAddresses(a.Network)
	last = append(slices.DeleteFunc(last, func(o netip.Addr) bool { return o == a.Addr }), a.Addr)
	return t.put(bucketLast, networkKey(a.Network), last[max(0, len(last)-keepLast):])
}

// FreeAddresses lets go of every address of one VF's attachment.
func (t *Tx) FreeAddresses(id vf.ID) error {
	var errs []error
	for _, a := range t.AddressesOf("") {
		if a.VF == id && a.Damage == "" {
			errs = append(errs, t.del(bucketAddresses, a.key()))
		}
	}
	return errors.Join(errs...)
}
