package attach

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/culvert-net/culvert/alloc"
	"github.com/culvert-net/culvert/ipam"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// blocks is the part of ipam/blocks.Book that attach needs.
type blocks interface {
	// Of returns the addresses that the node may hand out of a pool to an attachment.
	Of(pool string, owner vf.Owner) ipam.Own
	// Need asks for addresses until done is called.
	Need(pool string, c ipam.Config, named []netip.Addr, owner vf.Owner) (done func())
	// Changed is closed when Of may say something else.
	Changed() <-chan struct{}
	// Why says why nothing came of a need.
	Why(pool string, named []netip.Addr) error
}

// shared reports whether the addresses of the request are the whole cluster's.
func (e *Engine) shared(req Request) bool {
	return e.Blocks != nil && !req.IPAM.IsZero() && !req.IPAM.IsUniqueOnNode()
}

// reserveWithAddresses is reserve that waits a while for the cluster to give
// this node addresses of the network, where it has none left. What was got is in
// the ledger before the need ends, so it is never in neither (I4).
func (e *Engine) reserveWithAddresses(ctx context.Context, req Request) (reservation, error) {
	if !e.shared(req) {
		return e.reserve(ctx, req)
	}
	changed := e.Blocks.Changed()
	got, err := e.reserve(ctx, req)
	if !errors.Is(err, ipam.ErrNoBlock) {
		return got, err
	}
	named := req.IPAM.Named(req.Addresses)
	if why := e.Blocks.Why(req.addressPool(), named); errors.Is(why, vf.ErrHeld) {
		return reservation{}, why
	}
	defer e.Blocks.Need(req.addressPool(), req.IPAM, named, req.Owner)()
	late := time.NewTimer(blockBound)
	defer late.Stop()
	for {
		select {
		case <-changed:
		case <-late.C:
			why := e.Blocks.Why(req.addressPool(), named)
			if errors.Is(why, vf.ErrNothingFree) {
				return reservation{}, why
			}
			return reservation{}, fmt.Errorf("%w; waited %s: %w", why, blockBound, err)
		case <-ctx.Done():
			return reservation{}, fmt.Errorf("%w: %w", e.Blocks.Why(req.addressPool(), named), context.Cause(ctx))
		}
		changed = e.Blocks.Changed()
		if got, err = e.reserve(ctx, req); !errors.Is(err, ipam.ErrNoBlock) {
			return got, err
		}
		if why := e.Blocks.Why(req.addressPool(), named); errors.Is(why, vf.ErrHeld) || errors.Is(why, vf.ErrNothingFree) {
			return reservation{}, why
		}
	}
}

// addresses holds the addresses of a lease in the same transaction (I4). None of them is
// in use on the VF's segment and VLAN (I9).
func (e *Engine) addresses(tx *journal.Tx, choice alloc.Choice, rec *journal.Record, req Request) error {
	if req.IPAM.IsZero() {
		return nil
	}
	pool := req.addressPool()
	taken := tx.AddressesOf(pool)
	if former := req.IPAM.FormerPool; former != "" {
		taken = append(taken, tx.AddressesOf(former)...)
	}
	inUse := tx.AddressesOf("")
	if req.IPAM.Shared {
		taken, inUse = withoutShared(taken, pool), withoutShared(inUse, pool)
	}
	held := e.neighbours(tx, choice, req).addresses(inUse)
	for _, a := range taken {
		held[a.Addr] = a.Owner
	}
	last := tx.LastAddresses(pool)
	config, own := req.IPAM, ipam.Own{}
	if e.shared(req) {
		own = e.Blocks.Of(pool, req.Owner)
		config = config.Within(own)
	}
	got, err := config.Allocate(func(a netip.Addr) (vf.Owner, bool) { o, ok := held[a]; return o, ok }, last, req.Addresses)
	if err != nil {
		return fmt.Errorf("network %s: %w", req.Network, err)
	}
	rec.Lease.Wanted.Addresses, rec.Lease.Wanted.Routes = got.Addresses, append(rec.Lease.Wanted.Routes, got.Routes...)
	for _, a := range got.Addresses {
		err := tx.HoldAddress(journal.Address{
			Network: pool, Addr: a.Prefix.Addr(), VF: rec.ID, Owner: req.Owner,
			Claim: own.Claims[a.Prefix.Addr()], Local: req.IPAM.IsUniqueOnNode(), Shared: req.IPAM.Shared,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// withoutShared leaves out the addresses of a pool that attachments hold as shared ones.
func withoutShared(all []journal.Address, pool string) []journal.Address {
	return slices.DeleteFunc(slices.Clone(all), func(a journal.Address) bool { return a.Shared && a.Network == pool })
}
