// Package agent has the kernel of a node balance its pods' connections to Services over VF
// networks. Events of the cluster and of the ledger wake it. Each pass lists everything, computes
// the table of backends (service/table) for each mechanism, and gives it to the mechanism. Of the
// mechanisms that can balance a protocol, the first one does it. Until the caches of the cluster
// are complete, the kernel keeps its present tables. daemon makes an Agent and runs it.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/node/service/table"
)

// cluster is kube.Client.
type cluster interface {
	Services() (in table.Input, known bool)
	ServicesChanged() <-chan struct{}
	WhyNoServices() error
	pods
}

// Mechanism is a way to balance in the kernel.
type Mechanism struct {
	Name string // as status shows it
	// Supports reports whether it balances a protocol.
	Supports func(balance.Protocol) bool
	// Limit bounds its tables.
	Limit balance.Limit
	// Open returns a Balancer, or an error that names what the host lacks for it. The Agent calls
	// it when the first Service is served over a VF network.
	Open func() (Balancer, error)
	// Left reports whether an earlier culvertd left tables of this mechanism in the kernel.
	Left func() bool
}

// Balancer makes the kernel balance by a table. The Agent calls Apply with each new table, each
// minute, and about a second later while Pending is true.
type Balancer interface {
	Apply(balance.Table) error
	Pending() bool
	// Before names programs of other projects that the kernel runs before its own.
	Before() []string
}

// Config has the parts of an Agent.
type Config struct {
	Cluster    cluster
	Ledger     ledger
	Mechanisms []Mechanism // the better ones first
	Log        *slog.Logger
}

// Agent balances for the pods of a node. Its methods may be called concurrently.
type Agent struct {
	Config
	opened  []opened // nil until there is something to balance
	clients clientFinder
	// retry is the time until the next pass after a first failure, pause while a Balancer has
	// something pending. Each further failure in a row doubles retry, up to lastRetry.
	retry, lastRetry, pause time.Duration
	look                    time.Duration // the longest time between two passes
	failures                int           // in a row
	lost                    string        // the last logged text about Services that are left out

	mu       sync.Mutex // guards the rest
	status   *api.ServiceBalancing
	problems []api.Problem
}

// opened is a Mechanism that was tried.
type opened struct {
	Mechanism
	balancer Balancer
	err      error       // why it cannot be used
	maker    table.Maker // of the protocols that no better mechanism balances
}

// New returns an Agent. It changes nothing in the kernel before Run.
func New(c Config) *Agent {
	return &Agent{Config: c, clients: newClientFinder(c.Ledger, c.Cluster), retry: 5 * time.Second, lastRetry: time.Minute, pause: 1100 * time.Millisecond, look: time.Minute}
}

// Status returns how connections are balanced; nil while no Service is served over a VF
// network.
func (a *Agent) Status() *api.ServiceBalancing {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// Problems returns the problems of the last pass.
func (a *Agent) Problems() []api.Problem {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.problems
}

// Run follows the cluster and the ledger until ctx ends. The kernel then keeps its tables. No event
// says that another program detached Culvert's programs, so there is a pass each minute, too.
func (a *Agent) Run(ctx context.Context) {
	for {
		changed := a.Ledger.Changed()
		timer := time.NewTimer(cmp.Or(a.pass(), a.look))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-a.Cluster.ServicesChanged():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Clear removes all tables from the kernel. The daemon calls it after Run, when Culvert is
// uninstalled.
func (a *Agent) Clear() error {
	return errors.Join(a.apply(func(*opened) balance.Table { return balance.Table{} })...)
}

// pass brings the kernel to the wanted state. It returns the longest time until the next pass; 0
// means that only an event or the next look makes one necessary.
func (a *Agent) pass() time.Duration {
	in, known := a.Cluster.Services()
	if !known {
		if err := a.Cluster.WhyNoServices(); err != nil {
			a.report(nil, []api.Problem{{Object: object, Reason: err.Error(), Next: "connections are balanced as they were; give culvertd's ClusterRole the right to list them, as Culvert's manifest does"}})
		}
		return a.retry
	}
	if a.opened == nil && !a.isNeeded(in) {
		return 0
	}
	a.open()
	var problems []api.Problem
	fail := func(err error, next string) {
		a.Log.Warn("balance connections to Services", "err", err)
		problems = append(problems, api.Problem{Object: object, Reason: err.Error(), Next: next})
	}
	clients, err := a.clients.find()
	if err != nil {
		fail(err, "culvertd tries again on its own; connections are balanced as they were")
		a.report(a.statusOf(table.Input{}), problems)
		return a.waitAfterFailure()
	}
	in.Clients = clients
	for _, err := range a.apply(func(o *opened) balance.Table { return o.maker.Make(in) }) {
		fail(err, "culvertd tries again on its own")
	}
	failed := len(problems) > 0
	if err := a.unserved(in); err != nil {
		problems = append(problems, api.Problem{Object: object, Reason: err.Error(), Next: "connections of pods to them go where the pods' default network takes them; docs/services.md has what a host needs"})
	}
	problems = append(problems, a.lostServices()...)
	a.clients.reportVFIO(in)
	a.report(a.statusOf(in), problems)
	if !failed && a.isPending() {
		a.failures = 0
		return a.pause
	}
	if len(problems) > 0 {
		return a.waitAfterFailure()
	}
	a.failures = 0
	return 0
}

// waitAfterFailure counts a failed pass and returns the time until the next one, unless an event
// wakes Run before.
func (a *Agent) waitAfterFailure() time.Duration {
	wait := min(a.retry<<min(a.failures, 10), a.lastRetry)
	a.failures++
	return wait
}

// object is the name under which status shows the problems.
const object = "Services over VF networks"

// isNeeded reports whether there are Services to balance, or tables of an earlier culvertd to
// clear away.
func (a *Agent) isNeeded(in table.Input) bool {
	for _, m := range a.Mechanisms {
		if m.Left() {
			return true
		}
	}
	return len(in.Slices) > 0
}

// open opens the mechanisms that are not open yet. It tries a failed one again only while none is
// open.
func (a *Agent) open() {
	if a.opened == nil {
		for _, m := range a.Mechanisms {
			a.opened = append(a.opened, opened{Mechanism: m})
		}
	}
	for i := range a.opened {
		o := &a.opened[i]
		if o.balancer != nil || o.err != nil && a.canBalance() {
			continue
		}
		if o.balancer, o.err = o.Open(); o.err != nil {
			o.balancer = nil
			a.Log.Info("this host cannot balance connections to Services so", "mechanism", o.Name, "err", o.err)
		}
		o.maker = table.Maker{Limit: o.Limit, Takes: func(p balance.Protocol) bool { return a.mechanismFor(p) == i }}
	}
}

func (a *Agent) canBalance() bool {
	for _, o := range a.opened {
		if o.balancer != nil {
			return true
		}
	}
	return false
}

// apply hands each mechanism its table.
func (a *Agent) apply(tableFor func(*opened) balance.Table) (errs []error) {
	for i := range a.opened {
		o := &a.opened[i]
		if o.balancer == nil {
			continue
		}
		if err := o.balancer.Apply(tableFor(o)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.Name, err))
		}
	}
	return errs
}

// mechanismFor returns the index of the mechanism that balances a protocol, or -1.
func (a *Agent) mechanismFor(p balance.Protocol) int {
	for i, o := range a.opened {
		if o.balancer != nil && o.Supports(p) {
			return i
		}
	}
	return -1
}

func (a *Agent) isPending() bool {
	for _, o := range a.opened {
		if o.balancer != nil && o.balancer.Pending() {
			return true
		}
	}
	return false
}

func (a *Agent) report(status *api.ServiceBalancing, problems []api.Problem) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if status != nil {
		a.status = status
	}
	a.problems = problems
}
