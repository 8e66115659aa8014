// Package gather reads everything that a node's status is made of: the hardware as it is
// now, the ledger, the VFs in their owners' network namespaces, the processes that have
// VFs open, the pods that the kubelet gave VFs to, and other network managers' files.
// Package status makes the picture. culvertd calls it for the CLI and for the NodeState.
package gather

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/claims"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/vf"
)

// kernel is kernel.Kernel.
type kernel interface {
	VF(ctx context.Context, pci vf.PCIAddr, netns string) (vf.State, error)
	Guard(ctx context.Context, pci vf.PCIAddr, netns string) (vf.Guard, error)
	Users(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error)
	Uses(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error)
	VFTraffic(ctx context.Context, pf vf.PCIAddr) (map[int]vf.Traffic, error)
}

// Gatherer gathers the status of a node.
type Gatherer struct {
	Version string
	Node    *node.Node
	Kernel  kernel
	Claims  *claims.Reader // of other network managers' files
	// Ready reports whether the VFs of the node are made.
	Ready func() bool
	// Problems returns what culvertd's parts report as wrong.
	Problems func() []api.Problem
	// Trial returns the host.yaml on trial, nil for none; nil: there are no trials.
	Trial func() *api.HostTrial
	// Errors returns how many errors a PF and its VFs have had since culvertd started; nil: unknown.
	Errors func(vf.PCIAddr) vf.ErrorCounts
	// Services returns how connections to Services are balanced; nil outside a cluster.
	Services func() *api.ServiceBalancing
	// Addresses counts the addresses in the node's blocks; nil outside a cluster.
	Addresses func([]journal.Grant, []journal.Address) []api.AddressUse
	// LedgerFile returns the size of the ledger's file and the free bytes of its file system; nil: they
	// are not known.
	LedgerFile func() (size, free uint64, err error)
	// Given returns the VFs that the kubelet gave to pods; nil where there is no kubelet.
	Given func(context.Context) (map[vf.PCIAddr]string, error)
	Log   *slog.Logger
}

// kubeletTimeout is how long Status waits for the kubelet.
const kubeletTimeout = time.Second

// Status lists the NICs and returns the node's status. It returns an error if the NICs or the
// ledger cannot be read. Other facts that cannot be read are left out and logged.
func (g *Gatherer) Status(ctx context.Context) (api.NodeStatus, error) {
	before, err := journal.ReadRecords(g.Node.Ledger)
	if err != nil {
		return api.NodeStatus{}, err
	}
	pfs, err := g.Node.Inventory.Refresh(ctx)
	if err != nil {
		return api.NodeStatus{}, fmt.Errorf("list the NICs: %w", err)
	}
	var c journal.Content
	err = g.Node.Ledger.View(func(tx *journal.Tx) error { c = tx.Content(); return nil })
	if err != nil {
		return api.NodeStatus{}, err
	}
	given, unknown := g.readGiven(ctx)
	st := status.Assemble(status.Input{
		Node: hostName(), Version: g.Version, Now: time.Now(), Ready: g.Ready(), Spec: g.Node.Spec(), PFs: pfs,
		Records: c.Records, Addresses: c.Addresses, PFLeases: c.PFLeases, Changed: findChanged(before, c.Records),
		Seen: g.readAttached(ctx, c.Records), Given: given, GivenUnknown: unknown, Users: g.readUsers(ctx, c.Records), Uses: g.readUses(ctx, c.Records, pfs), Dark: g.findDark(c.Records),
		Conditions: slices.Concat(g.Problems(), g.readClaims(pfs), status.LedgerConditions(c)),
	})
	addWarnings(st.VFs, c.Records)
	g.addTraffic(ctx, st)
	for i := range st.PFs {
		if g.Errors != nil {
			st.PFs[i].Errors = g.Errors(st.PFs[i].PCI)
		}
	}
	if g.Trial != nil {
		st.Trial = g.Trial()
	}
	if g.Services != nil {
		st.Services = g.Services()
	}
	if g.Addresses != nil {
		st.Addresses = g.Addresses(c.Grants, c.Addresses)
	}
	st.Ledger = g.readLedgerFile(c)
	return st, nil
}

// readLedgerFile looks at the ledger's file. It returns nil if that fails.
func (g *Gatherer) readLedgerFile(c journal.Content) *api.LedgerFile {
	if g.LedgerFile == nil {
		return nil
	}
	size, free, err := g.LedgerFile()
	if err != nil {
		g.Log.Warn("look at the ledger's file", "err", err)
		return nil
	}
	return &api.LedgerFile{Bytes: size, Free: free, Findings: len(c.Problems())}
}

// findChanged returns the VFs whose records have another lease or another phase than before.
func findChanged(before, after []journal.Record) map[vf.ID]bool {
	type moment struct {
		generation uint64
		phase      vf.Phase
	}
	was, out := map[vf.ID]moment{}, map[vf.ID]bool{}
	for _, r := range before {
		was[r.ID] = moment{r.Generation, r.Phase}
	}
	for _, r := range after {
		if was[r.ID] != (moment{r.Generation, r.Phase}) {
			out[r.ID] = true
		}
	}
	return out
}

// Ledger returns what is in the ledger besides the events, with all problems.
func (g *Gatherer) Ledger() (c journal.Content, err error) {
	err = g.Node.Ledger.View(func(tx *journal.Tx) error {
		c = tx.CheckContent()
		return nil
	})
	return c, err
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "this host"
	}
	return name
}

// readGiven returns the VFs that the kubelet gave to pods. They are unknown if the kubelet does not
// answer in time; the status then has only the leases of the ledger.
func (g *Gatherer) readGiven(ctx context.Context) (given map[vf.PCIAddr]string, unknown bool) {
	if g.Given == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, kubeletTimeout)
	defer cancel()
	given, err := g.Given(ctx)
	if err != nil {
		g.Log.Debug("which pods have VFs without a network is not known", "err", err)
	}
	return given, err != nil
}

// readUsers returns the processes that have VFs open, of the VFs that user space may drive.
func (g *Gatherer) readUsers(ctx context.Context, records []journal.Record) map[vf.PCIAddr][]vf.Process {
	var handed []vf.PCIAddr
	for _, r := range records {
		if r.Phase == vf.PhaseAttached && r.Lease.Wanted.Driver == vf.DriverVFIO || r.Phase == vf.PhaseQuarantined {
			handed = append(handed, r.PCI)
		}
	}
	if len(handed) == 0 {
		return nil
	}
	out, err := g.Kernel.Users(ctx, handed...)
	if err != nil {
		g.Log.Warn("read which processes have VFs open", "err", err)
	}
	return out
}

// readUses returns how VFs without an owner are used outside Culvert. It reads those that are not
// as Culvert left them, those that the ledger does not know, and all of PFs whose number of VFs is
// to change.
func (g *Gatherer) readUses(ctx context.Context, records []journal.Record, pfs []vf.PF) map[vf.PCIAddr]vf.Use {
	known := map[vf.ID]journal.Record{}
	for _, r := range records {
		known[r.ID] = r
	}
	var ask []vf.PCIAddr
	spec := g.Node.Spec()
	for _, pf := range pfs {
		want, managed := spec.ForPF(pf)
		for _, v := range pf.VFs {
			r, isKnown := known[v.ID]
			if managed && want.VFs != pf.NumVFs || !isKnown || r.Lease.Owner.IsZero() && len(r.Baseline.Diff(v)) > 0 {
				ask = append(ask, v.PCI)
			}
		}
	}
	if len(ask) == 0 {
		return nil
	}
	out, err := g.Kernel.Uses(ctx, ask...)
	if err != nil {
		g.Log.Warn("read who uses VFs without a lease", "err", err)
	}
	return out
}

// findDark returns the attached VFs that have had no carrier for long although their PF has a link.
func (g *Gatherer) findDark(records []journal.Record) map[vf.ID]bool {
	out := map[vf.ID]bool{}
	for _, r := range records {
		if g.Node.VFs.IsDark(r) {
			out[r.ID] = true
		}
	}
	return out
}

// readers is how many VFs readAttached reads at a time.
const readers = 8

// readAttached reads the attached VFs in their owners' network namespaces. It leaves out VFs that
// cannot be read. No more than the few that are being read are in memory as a whole.
func (g *Gatherer) readAttached(ctx context.Context, records []journal.Record) map[vf.ID]status.Seen {
	var mu sync.Mutex
	out := map[vf.ID]status.Seen{}
	var group errgroup.Group
	group.SetLimit(readers)
	for _, r := range records {
		if r.Phase != vf.PhaseAttached {
			continue
		}
		group.Go(func() error {
			st, err := g.Kernel.VF(ctx, r.PCI, r.Lease.Netns)
			if err != nil {
				return nil // the status then has what the listing shows
			}
			st.Can = g.Node.VFs.AbilitiesOf(r.ID.PF)
			seen := status.See(r, g.withGuard(ctx, r, st))
			mu.Lock()
			defer mu.Unlock()
			out[r.ID] = seen
			return nil
		})
	}
	_ = group.Wait() // it returns nil
	return out
}

// withGuard adds the guard of a VF whose lease has one, if it can be read.
func (g *Gatherer) withGuard(ctx context.Context, r journal.Record, st vf.State) vf.State {
	if r.Lease.Wanted.Guard == "" || st.Link == nil || st.Link.Netns == "" {
		return st
	}
	if seen, err := g.Kernel.Guard(ctx, r.PCI, st.Link.Netns); err == nil {
		st.Link.Guard = &seen
	}
	return st
}
