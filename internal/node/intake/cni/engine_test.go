package cni

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// memory is an engine without a kernel: it gives out the VFs of one PF, keeps
// leases and addresses, and breaks where a test says so.
type memory struct {
	vfs    int  // how many there are
	vfio   bool // they go to vfio-pci
	broken error
	unread error // of the ledger

	mu     sync.Mutex // guards leases
	leases map[string]journal.Record
	rdma   []vf.PCIAddr // those with an RDMA device
}

func newMemory(vfs int) *memory { return &memory{vfs: vfs, leases: map[string]journal.Record{}} }

func key(o vf.Owner) string { return o.UID + "/" + o.Interface }

func (m *memory) held(a netip.Addr) (vf.Owner, bool) {
	for _, rec := range m.leases {
		for _, has := range rec.Lease.Wanted.Addresses {
			if has.Prefix.Addr() == a {
				return rec.Lease.Owner, true
			}
		}
	}
	return vf.Owner{}, false
}

func (m *memory) free(wanted vf.PCIAddr) (int, error) {
	taken := map[int]vf.Owner{}
	for _, rec := range m.leases {
		taken[rec.ID.Index] = rec.Lease.Owner
	}
	for i := range m.vfs {
		pci := vf.PCIAddr{Bus: 1, Device: 0x10, Function: uint8(i)}
		if !wanted.IsZero() && pci != wanted {
			continue
		}
		owner, is := taken[i]
		if is && !wanted.IsZero() {
			return 0, fmt.Errorf("VF %s: %w by %s", pci, vf.ErrHeld, owner)
		}
		if !is {
			return i, nil
		}
	}
	if !wanted.IsZero() {
		return 0, fmt.Errorf("VF %s: %w", wanted, vf.ErrNotFound)
	}
	return 0, fmt.Errorf("pool test: %d of %d VFs are held: %w", len(taken), m.vfs, vf.ErrNothingFree)
}

func (m *memory) Attach(ctx context.Context, req attach.Request) (journal.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(m.broken, ctx.Err()); err != nil {
		return journal.Record{}, err
	}
	if _, twice := m.leases[key(req.Owner)]; twice {
		return journal.Record{}, fmt.Errorf("%s has a VF as %s already: %w", req.Owner, req.Owner.Interface, vf.ErrHeld)
	}
	i, err := m.free(req.VF)
	if err != nil {
		return journal.Record{}, err
	}
	got, err := req.IPAM.Allocate(m.held, nil, req.Addresses)
	if err != nil {
		return journal.Record{}, err
	}
	spec := req.Spec
	spec.Addresses, spec.Routes = got.Addresses, got.Routes
	mac := vf.MAC{2, 0, 0, 0, 0, byte(i)}
	if spec.MAC != nil {
		mac = *spec.MAC
	}
	rec := journal.Record{
		ID: vf.ID{Index: i}, PCI: vf.PCIAddr{Bus: 1, Device: 0x10, Function: uint8(i)}, Phase: vf.PhaseAttached,
		Lease: journal.Lease{Owner: req.Owner, Network: req.Network, Pool: req.Pool, Netns: req.Netns, LinkMAC: mac, MTU: 1500, Request: req.Raw},
	}
	if m.vfio {
		spec.Driver = vf.DriverVFIO
		rec.Lease.LinkMAC, rec.Lease.Effective = vf.MAC{}, vf.Admin{MAC: mac}
	}
	rec.Lease.Wanted = spec
	m.leases[key(req.Owner)] = rec
	return rec, nil
}

// AttachBond gives out one VF, and returns copies of it as the other members.
func (m *memory) AttachBond(ctx context.Context, req attach.Request) (attach.Bonded, error) {
	rec, err := m.Attach(ctx, req)
	if err != nil {
		return attach.Bonded{}, err
	}
	b := attach.Bonded{MAC: rec.Lease.LinkMAC, MTU: rec.Lease.MTU}
	for i := range req.Bond.Links {
		rec.Lease.Bond, rec.Lease.Wanted.Interface = req.Bond, vf.MemberName(req.Owner.Interface, i)
		b.Members = append(b.Members, rec)
	}
	return b, nil
}

func (m *memory) Detach(_ context.Context, o vf.Owner) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.leases, key(o))
	return m.broken
}

func (m *memory) Check(_ context.Context, o vf.Owner, req attach.Request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec, ok := m.leases[key(o)]
	if !ok {
		return fmt.Errorf("%s has no VF as %s: %w", o, o.Interface, vf.ErrNotFound)
	}
	if req.LinkMAC != nil && *req.LinkMAC != rec.Lease.LinkMAC {
		return fmt.Errorf("link mac is %s, not %s", rec.Lease.LinkMAC, *req.LinkMAC)
	}
	if fmt.Sprint(rec.Lease.Wanted.Addresses) != fmt.Sprint(req.Spec.Addresses) {
		return fmt.Errorf("addresses are %v, not %v", rec.Lease.Wanted.Addresses, req.Spec.Addresses)
	}
	return m.broken
}

func (m *memory) Collect(_ context.Context, network string, valid []vf.Owner) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	keep := map[string]bool{}
	for _, o := range valid {
		keep[key(o)] = true
	}
	for k, rec := range m.leases {
		if rec.Lease.Network == network && !keep[k] {
			delete(m.leases, k)
		}
	}
	return m.broken
}

func (m *memory) Delegations() (held, owed []journal.Delegation, err error) { return nil, nil, nil }

func (m *memory) YoungOwners(string) ([]vf.Owner, error) { return nil, m.unread }

func (m *memory) Undone(journal.Delegation) error { return nil }

func (m *memory) Ready(context.Context, attach.Request) error { return m.broken }

func (m *memory) HasRDMA(vfs ...journal.Record) bool {
	return slices.ContainsFunc(vfs, func(r journal.Record) bool { return slices.Contains(m.rdma, r.PCI) })
}

// String lists who holds what.
func (m *memory) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := ""
	for i := range m.vfs {
		for _, rec := range m.leases {
			if rec.ID.Index == i {
				s += fmt.Sprintf("%s %s: %s %s\n", rec.PCI, rec.Lease.Network, rec.Lease.Owner, rec.Lease.Owner.Interface)
			}
		}
	}
	return s
}
