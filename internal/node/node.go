// Package node makes a node of its parts: kernel, ledger, inventory, attach and reconcile.
// culvertd adds a socket and the intake packages; the scenarios drive a node on the fake kernel
// and on Linux.
package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/loan"
	"github.com/culvert-net/culvert/internal/node/attach/reset"
	"github.com/culvert-net/culvert/internal/node/attach/upkeep"
	"github.com/culvert-net/culvert/internal/node/inventory"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/node/sources"
	"github.com/culvert-net/culvert/internal/vf"
)

// Kernel is kernel.Kernel, or a fake of it.
type Kernel interface {
	reader
	users
	guards
	steps
	Watch(context.Context) (<-chan struct{}, error)
}

type steps interface {
	Do(context.Context, step.Step) error
	Hung() []step.Step
}

type guards interface {
	Guard(ctx context.Context, pci vf.PCIAddr, netns string) (vf.Guard, error)
}

type reader interface {
	PFs(context.Context) ([]vf.PF, error)
	VF(ctx context.Context, pci vf.PCIAddr, netns string) (vf.State, error)
	Probe(ctx context.Context, pf vf.PCIAddr, index int) (vf.Abilities, error)
}

type users interface {
	Users(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error)
	Uses(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error)
}

// Ledger is journal.Ledger, or a ledger that fails on purpose, for tests.
type Ledger interface {
	Update(func(*journal.Tx) error) error
	View(func(*journal.Tx) error) error
	ViewLatest(func(*journal.Tx) error) error
	Changed() <-chan struct{}
}

// Config has the parts of a Node.
type Config struct {
	Kernel Kernel
	Ledger Ledger
	BootID string
	Blocks *blocks.Book     // nil: the node gives out addresses alone
	Now    func() time.Time // nil: time.Now
	Log    *slog.Logger     // nil: discard
}

// Node is a node without its socket. Spec, WatchSpec and SetSpec are the methods of its wanted
// Spec.
type Node struct {
	*sources.Current
	Ledger     Ledger
	Inventory  *inventory.Inventory
	VFs        *hold.VFs
	Engine     *attach.Engine
	Claims     *attach.Claims
	Resets     *reset.Resetter
	Loans      *loan.Lender
	Upkeep     *upkeep.Keeper
	Reconciler *reconcile.Reconciler
}

// New returns a Node, which touches nothing until Start.
func New(c Config) *Node {
	n := &Node{Current: &sources.Current{}, Ledger: c.Ledger, Inventory: inventory.New(c.Kernel, c.Now)}
	n.VFs = hold.New(hold.Config{Kernel: c.Kernel, Ledger: c.Ledger, Hardware: n.Inventory, Spec: n.Spec, Now: c.Now, Log: c.Log})
	engine := attach.Config{}
	if c.Blocks != nil {
		engine.Blocks = c.Blocks
	}
	n.Resets, n.Loans = reset.New(n.VFs), loan.New(n.VFs)
	n.Engine = attach.New(n.VFs, n.Resets, engine)
	n.Claims = attach.NewClaims(n.Engine)
	n.Upkeep = upkeep.New(n.VFs, n.Resets, n.Loans, n.Engine, upkeep.Config{})
	n.Reconciler = reconcile.New(reconcile.Config{
		Kernel: c.Kernel, Ledger: c.Ledger, Hardware: n.Inventory, VFs: n.VFs, Resets: n.Resets, Upkeep: n.Upkeep, Spec: n.Spec, BootID: c.BootID, Log: c.Log,
	})
	return n
}

// Start settles the work that an earlier run left. Call it before the first attach and before the
// Reconciler's first pass.
func (n *Node) Start(ctx context.Context) error {
	if err := n.Reconciler.Start(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return nil
}

// Problems returns the problems of the reconciler with the wanted Spec.
func (n *Node) Problems() (out []api.Problem) {
	for _, p := range n.Reconciler.Problems() {
		out = append(out, api.Problem{Object: p.Object, Reason: p.Reason, Next: "culvertd tries again on its own"})
	}
	return out
}

// Records returns the ledger's records of all VFs.
func (n *Node) Records() ([]journal.Record, error) { return journal.ReadRecords(n.Ledger) }
