// Package daemon puts a node together: kernel, ledger, inventory, reconcile
// and attach make a Node; a Server is a Node with culvertd's socket in front.
// cmd/culvertd runs a Server, the scenarios drive a Node on the fake kernel and
// on Linux.
package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/attach"
	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/inventory"
	"github.com/culvert-net/culvert/ipam/blocks"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/reconcile"
	"github.com/culvert-net/culvert/vf"
)

// Kernel is kernel.Kernel, or a fake of it.
type Kernel interface {
	reader
	Do(context.Context, step.Step) error
	Watch(context.Context) (<-chan struct{}, error)
}

type reader interface {
	PFs(context.Context) ([]vf.PF, error)
	VF(ctx context.Context, pci vf.PCIAddr, netns string) (vf.State, error)
	Probe(ctx context.Context, pf vf.PCIAddr, index int) (vf.Abilities, error)
	Users(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error)
}

// Ledger is journal.Ledger, or one that fails on purpose.
type Ledger interface {
	Update(func(*journal.Tx) error) error
	View(func(*journal.Tx) error) error
	Changed() <-chan struct{}
}

// NodeConfig is what a Node is made of.
type NodeConfig struct {
	Kernel Kernel
	Ledger Ledger
	BootID string
	Blocks *blocks.Book     // nil: no cluster says which addresses are this node's
	Now    func() time.Time // nil: time.Now
	Log    *slog.Logger     // nil: discard
}

// Node is everything of a node but its socket.
type Node struct {
	Ledger     Ledger
	Inventory  *inventory.Inventory
	Engine     *attach.Engine
	Reconciler *reconcile.Reconciler

	spec atomic.Pointer[wish]
}

// wish is what is wanted of the host, until something else is.
type wish struct {
	spec desired.Spec
	over chan struct{}
}

// NewNode puts a node together. Nothing is touched until Start.
func NewNode(c NodeConfig) *Node {
	n := &Node{Ledger: c.Ledger, Inventory: inventory.New(c.Kernel)}
	n.spec.Store(&wish{over: make(chan struct{})})
	engine := attach.Config{Kernel: c.Kernel, Ledger: c.Ledger, Hardware: n.Inventory, Spec: n.Spec, Now: c.Now, Log: c.Log}
	if c.Blocks != nil {
		engine.Blocks = c.Blocks
	}
	n.Engine = attach.New(engine)
	n.Reconciler = reconcile.New(reconcile.Config{
		Kernel: c.Kernel, Ledger: c.Ledger, Hardware: n.Inventory, Keeper: n.Engine, Spec: n.Spec, BootID: c.BootID, Log: c.Log,
	})
	return n
}

// Spec is what is wanted of the host at the moment.
func (n *Node) Spec() desired.Spec { return n.spec.Load().spec }

// WatchSpec returns it with a channel that is closed when something else is
// wanted.
func (n *Node) WatchSpec() (desired.Spec, <-chan struct{}) {
	w := n.spec.Load()
	return w.spec, w.over
}

// SetSpec changes what is wanted; the next pass follows it.
func (n *Node) SetSpec(s desired.Spec) {
	old := n.spec.Swap(&wish{spec: s, over: make(chan struct{})})
	close(old.over)
}

// Start settles what an earlier run left behind. It comes before anything is
// attached and before the Reconciler's first pass.
func (n *Node) Start(ctx context.Context) error {
	if err := n.Reconciler.Start(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return nil
}

// problems are what could not be done of what is wanted of the host.
func (n *Node) problems() (out []api.Problem) {
	for _, p := range n.Reconciler.Problems() {
		out = append(out, api.Problem{Object: p.Object, Reason: p.Reason, Next: "culvertd tries again on its own"})
	}
	return out
}

func (n *Node) records() ([]journal.Record, error) { return journal.ReadRecords(n.Ledger) }
