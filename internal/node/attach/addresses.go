package attach

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// blocks is the part of ipam/blocks.NodeBlocks that attach needs.
type blocks interface {
	// Of returns the addresses of a pool that the node may give to an attachment, by the grants
	// that the ledger has for the pool.
	Of(pool string, owner vf.Owner, grants []ipam.Grant) ipam.Own
	// Need asks for addresses until done is called.
	Need(pool string, c ipam.Config, named []netip.Addr, owner vf.Owner) (done func())
	// Changed returns a channel that is closed when Of may return other addresses.
	Changed() <-chan struct{}
	// Why returns the reason why a need got no address.
	Why(pool string, named []netip.Addr, owner vf.Owner) error
	// Admits returns an error if the owner of a pool does not let the networks of a namespace
	// use it.
	Admits(pool, namespace string) error
}

// blockBound is how long a request waits for the cluster to give this node addresses.
const blockBound = 10 * time.Second

// addresses gives leases their addresses: those of the network's ranges that this node may give out,
// without those that are in use or set aside.
type addresses struct {
	config *Config // of the Engine
	vfs    *hold.VFs
	aside  setAside
}

// isClusterWide reports whether the request's addresses must be unique in the whole cluster.
func (p *addresses) isClusterWide(req Request) bool {
	return p.config.Blocks != nil && !req.IPAM.IsZero() && !req.IPAM.IsUniqueOnNode()
}

// reserveWithAddresses reserves a VF like reserveVF. If this node has no address of the network
// left, it waits up to blockBound for the cluster to grant some. The ledger holds the lease's
// addresses before the need ends, so the node's requests name each address at any time (I4).
func (e *Engine) reserveWithAddresses(ctx context.Context, req Request) (reservation, error) {
	if !e.addresses.isClusterWide(req) {
		return e.reserveVF(ctx, req)
	}
	if kept := e.addresses.keptAddresses(req); len(kept) > 0 {
		named := req
		named.Addresses = kept
		got, err := e.reserveShared(ctx, named)
		if !errors.Is(err, vf.ErrHeld) && !errors.Is(err, vf.ErrInvalid) || isUntouchable(err) {
			return got, err
		}
		// Another attachment got the address, or the network's ranges no longer contain it.
	}
	return e.reserveShared(ctx, req)
}

// keptAddresses returns the addresses that the cluster has kept for the request's pod, without
// those that are set aside. There are none when the request names its addresses.
func (p *addresses) keptAddresses(req Request) (out []netip.Prefix) {
	if req.KeepAddress == 0 || len(req.Addresses) > 0 {
		return nil
	}
	aside := p.aside.inPool(req.addressPool(), p.vfs.Now())
	for _, a := range p.config.Blocks.Of(req.addressPool(), req.Owner, nil).Kept {
		if !aside[a] {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return out
}

// reserveShared reserves like reserveWithAddresses, for a network that the cluster shares.
func (e *Engine) reserveShared(ctx context.Context, req Request) (reservation, error) {
	changed := e.Blocks.Changed()
	got, err := e.reserveVF(ctx, req)
	if !errors.Is(err, ipam.ErrNoBlock) {
		return got, err
	}
	named := req.IPAM.Named(req.Addresses)
	if why := e.Blocks.Why(req.addressPool(), named, req.Owner); errors.Is(why, vf.ErrHeld) {
		return reservation{}, why
	}
	defer e.Blocks.Need(req.addressPool(), req.IPAM, named, req.Owner)()
	late := time.NewTimer(blockBound)
	defer late.Stop()
	for {
		select {
		case <-changed:
		case <-late.C:
			why := e.Blocks.Why(req.addressPool(), named, req.Owner)
			if errors.Is(why, vf.ErrNothingFree) {
				return reservation{}, why
			}
			return reservation{}, fmt.Errorf("%w; waited %s: %w", why, blockBound, err)
		case <-ctx.Done():
			return reservation{}, fmt.Errorf("%w: %w", e.Blocks.Why(req.addressPool(), named, req.Owner), context.Cause(ctx))
		}
		changed = e.Blocks.Changed()
		if got, err = e.reserveVF(ctx, req); !errors.Is(err, ipam.ErrNoBlock) {
			return got, err
		}
		if why := e.Blocks.Why(req.addressPool(), named, req.Owner); errors.Is(why, vf.ErrHeld) || errors.Is(why, vf.ErrNothingFree) {
			return reservation{}, why
		}
	}
}

// leaseAddresses holds the addresses of a lease in the same transaction (I4). None of them is
// in use on the VF's segment and VLAN (I9).
func (p *addresses) leaseAddresses(tx *journal.Tx, choice alloc.Choice, rec *journal.Record, req Request) error {
	if req.IPAM.IsZero() {
		return nil
	}
	pool := req.addressPool()
	held := p.holdersOf(tx, choice, req)
	config, own := req.IPAM, ipam.Own{}
	if p.isClusterWide(req) {
		if err := p.config.Blocks.Admits(pool, req.NetworkNamespace); err != nil {
			return fmt.Errorf("network %s: %w", req.Network, err)
		}
		own = p.config.Blocks.Of(pool, req.Owner, grantsOf(tx, pool))
		config = config.Within(own)
	}
	got, err := config.Allocate(held.find, tx.LastAddresses(pool), req.Addresses)
	if err != nil {
		return fmt.Errorf("network %s: %w", req.Network, err)
	}
	rec.Lease.Wanted.Addresses, rec.Lease.Wanted.Routes = got.Addresses, append(rec.Lease.Wanted.Routes, got.Routes...)
	for _, a := range got.Addresses {
		err := tx.HoldAddress(journal.Address{
			Network: pool, Addr: a.Prefix.Addr(), VF: rec.ID, Owner: req.Owner,
			Claim: own.Claims[a.Prefix.Addr()], Local: req.IPAM.IsUniqueOnNode(), Shared: req.IPAM.Shared, Keep: req.KeepAddress,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// grantsOf returns the grants of a pool.
func grantsOf(tx *journal.Tx, pool string) []ipam.Grant {
	var out []ipam.Grant
	for _, g := range tx.Grants(pool) {
		one := ipam.Grant{ID: g.ID}
		for _, r := range g.Runs {
			one.Runs = append(one.Runs, ipam.Run(r))
		}
		out = append(out, one)
	}
	return out
}

// fewLooks is how many addresses holders looks up one by one before it reads all of them. A node
// holds hundreds of addresses, but mostly the first candidate is free.
const fewLooks = 16

// holders finds the holders of addresses for a request.
type holders struct {
	neighbours *neighbours
	pool       string
	shared     bool                // as ipam.Config.Shared
	aside      map[netip.Addr]bool // not to be chosen
	named      []netip.Addr
	looks      int
	all        map[netip.Addr]vf.Owner // nil for the first fewLooks
}

func (p *addresses) holdersOf(tx *journal.Tx, choice alloc.Choice, req Request) *holders {
	pool := req.addressPool()
	return &holders{
		neighbours: p.neighboursOf(tx, choice, req), pool: pool, shared: req.IPAM.Shared,
		aside: p.aside.inPool(pool, p.vfs.Now()), named: req.IPAM.Named(req.Addresses),
	}
}

// find returns the holder of an address, as ipam.Config.Allocate wants it: the owner that holds it
// in the request's pool, or one that uses it on the VF's segment and VLAN. An address that is set
// aside has a holder too, unless the request names it.
func (h *holders) find(a netip.Addr) (vf.Owner, bool) {
	if h.aside[a] && !slices.Contains(h.named, a) {
		return vf.Owner{Name: "another machine on the segment"}, true
	}
	if name := h.neighbours.linkLocalHolder(a); name != "" {
		return vf.Owner{Name: name}, true
	}
	if h.looks++; h.looks > fewLooks && h.all == nil {
		h.all = h.among(h.neighbours.tx.AddressesOf(""))
	}
	known := h.all
	if known == nil {
		known = h.among(h.neighbours.tx.HoldersOf(a))
	}
	o, ok := known[a]
	return o, ok
}

// among returns the holders of addresses, given all entries of these in the ledger.
func (h *holders) among(entries []journal.Address) map[netip.Addr]vf.Owner {
	if h.shared {
		entries = slices.DeleteFunc(entries, func(a journal.Address) bool { return a.Shared && a.Network == h.pool })
	}
	held := h.neighbours.heldAddresses(entries)
	for _, a := range entries {
		if a.Network == h.pool {
			held[a.Addr] = a.Owner
		}
	}
	return held
}
