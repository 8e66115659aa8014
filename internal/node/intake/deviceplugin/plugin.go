// Package deviceplugin serves the kubelet's device plugin API v1beta1: each pool of the host is
// a resource, each VF in it a device whose ID is its PCI address. The kubelet chooses devices
// for pods by this package's list; the VFs themselves are attached by the pods' networks
// (intake/cni, intake/pod).
//
// The hardware as inventory saw it last, the ledger and the host's Spec enter; the plugin waits
// until one of them changes and looks at all three. culvertd runs one Plugin when it is on a
// node of Kubernetes.
package deviceplugin

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/kubelet/socket"
	"github.com/culvert-net/culvert/internal/vf"
)

// DefaultDir has the sockets of a kubelet with the root folder /var/lib/kubelet and of its device
// plugins.
const DefaultDir = "/var/lib/kubelet/device-plugins"

// hardware is inventory.Inventory.
type hardware interface {
	PFs() []vf.PF
	Listed() time.Time
	Changed() <-chan struct{}
}

// ledger is the part of journal.Ledger that the plugin needs.
type ledger interface {
	Update(func(*journal.Tx) error) error
	View(func(*journal.Tx) error) error
	Changed() <-chan struct{}
}

// kubelet is kubelet.PodResources.
type kubelet interface {
	Given(context.Context) (map[vf.PCIAddr]string, error)
}

// Config has the parts of a Plugin. All fields but Bond, IsDark, IsDoubtful, HostUse, Now and Log are needed.
type Config struct {
	Dir     string // the kubelet's folder of device plugins
	InfoDir string // for device-info files
	CDIDir  string // for CDI specifications

	Hardware hardware
	Ledger   ledger
	Kubelet  kubelet
	// Spec returns the wanted Spec of the host, and a channel that is closed when the Spec changes.
	Spec func() (desired.Spec, <-chan struct{})
	// Bond returns a bond that a network of a pool has; nil if no network of the pool has one. The
	// function is nil where the node knows no networks.
	Bond func(pool string) *vf.Bond
	// IsDark reports whether the VF of a lease has had no carrier for long although its PF has a link;
	// nil: none has.
	IsDark func(journal.Record) bool
	// IsDoubtful is alloc.IsDoubtful; nil: no PF is.
	IsDoubtful func(vf.PF, []journal.Record) bool
	// HostUse describes how the host uses a free VF, "" if it does not; nil: it uses none.
	HostUse func(journal.Record) string
	// Watch wakes after each change in a folder, see kernel/dirwatch.
	Watch func(ctx context.Context, dir string) (<-chan struct{}, error)
	// Now is the clock that measures for how long a PF cannot be read; nil stands for time.Now.
	Now func() time.Time
	Log *slog.Logger // nil discards
}

// Bounds and rhythms.
const (
	calm       = 50 * time.Millisecond // an attach is several commits
	askBound   = 300 * time.Millisecond
	askAgain   = 5 * time.Second
	freeBound  = 5 * time.Second  // for a VF that its last pod is giving back
	promiseFor = 30 * time.Second // until the kubelet lists the VF as given
)

// lease is one lease of one VF for all time.
type lease struct {
	id         vf.ID
	generation uint64
}

// Plugin serves all pools of a host.
type Plugin struct {
	Config
	folder socket.Folder // Dir

	mu sync.Mutex // guards all below
	// promised has the time at which each VF was promised to the kubelet for a pod.
	promised map[vf.PCIAddr]time.Time
	// known has, for each lease of a pod, whether the kubelet gave the VF to that pod.
	known    map[lease]bool
	states   map[vf.ID]state        // nil before the first look
	whole    map[vf.PCIAddr]wholePF // as they were when they could be read
	given    map[vf.PCIAddr]string  // pods by their VFs, as the kubelet last said
	serving  map[string]*endpoint   // by full name of the pool
	problems []api.Problem
}

// New returns a Plugin; nothing is touched until Run.
func New(c Config) *Plugin {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Plugin{
		Config: c, folder: socket.Folder{Dir: c.Dir, Watch: c.Watch, Log: c.Log},
		promised: map[vf.PCIAddr]time.Time{}, whole: map[vf.PCIAddr]wholePF{}, known: map[lease]bool{}, serving: map[string]*endpoint{},
	}
}

// Run serves until ctx ends, and then removes the sockets. It waits for a kubelet that is not
// there. It returns an error only if it cannot go on at all.
func (p *Plugin) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { p.folder.Follow(ctx); return nil })
	g.Go(func() error { return p.followHost(ctx, &g, TakeOver(listFile, p.InfoDir, p.CDIDir)) })
	return g.Wait()
}

// followHost updates the served pools whenever the hardware, the ledger or the Spec changes.
func (p *Plugin) followHost(ctx context.Context, g *errgroup.Group, written *Files) error {
	for {
		hw, led := p.Hardware.Changed(), p.Ledger.Changed()
		spec, changed := p.Spec()
		again, err := p.updateOnce(ctx, g, spec, written)
		if err != nil {
			p.Log.Error("device plugin", "err", err)
		}
		var later <-chan time.Time
		if again {
			later = time.After(askAgain)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-hw:
		case <-led:
		case <-changed:
		case <-later:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(calm):
		}
	}
}

// updateOnce reads the hardware, the ledger and the kubelet's pods, and updates the served pools
// and the files. again is true if one of these failed or a PF has lately become unreadable.
func (p *Plugin) updateOnce(ctx context.Context, g *errgroup.Group, spec desired.Spec, written *Files) (again bool, err error) {
	h, err := p.readHost(spec)
	if err != nil {
		return true, err // the last state stays
	}
	p.noteStates(h.records)
	again = p.learnPods(ctx, h.records, h.mayServePods()) != nil || len(h.lately) > 0
	p.mu.Lock()
	h.given = p.given
	p.mu.Unlock()
	devices := h.devicesByPool(p.isOurs)
	pools := slices.DeleteFunc(slices.Clone(spec.Pools), func(pool desired.Pool) bool { return pool.Unserved != "" })
	p.servePools(ctx, g, pools, devices)
	err = written.Keep(p.fileContents(pools, devices))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = nil
	if err != nil {
		p.problems = []api.Problem{{Object: "device plugin", Reason: err.Error(), Next: "culvertd tries again on its own"}}
	}
	return again || err != nil, err
}

func (p *Plugin) readHost(spec desired.Spec) (host, error) {
	// In this order: the hardware is no older than listed, the ledger no older than
	// the hardware.
	listed := p.Hardware.Listed()
	h := host{spec: spec, pfs: p.Hardware.PFs(), listed: listed, isDark: p.IsDark, isDoubtful: p.IsDoubtful, hostUse: p.HostUse}
	h.newer = func(r journal.Record, listed time.Time) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		s, ok := p.states[r.ID]
		return ok && s.matchesRecord(r) && listed.After(s.since)
	}
	p.mu.Lock()
	h.unread, h.lately = findUnread(h.pfs, listed, p.whole, p.Now())
	h.given = p.given
	p.mu.Unlock()
	var err error
	h.records, err = journal.ReadRecords(p.Ledger)
	return h, err
}

// state is the state of a record at the last reading, and the latest time at which it can have
// begun. That time is by the monotonic clock, unlike Record.Since.
type state struct {
	phase      vf.Phase
	generation uint64
	since      time.Time
}

func (s state) matchesRecord(r journal.Record) bool {
	return s.phase == r.Phase && s.generation == r.Generation
}

// noteStates keeps the states of the records. A state that the first call finds counts as an old
// one.
func (p *Plugin) noteStates(records []journal.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var now time.Time
	if p.states != nil {
		now = time.Now()
	}
	states := make(map[vf.ID]state, len(records))
	for _, r := range records {
		s, ok := p.states[r.ID]
		if !ok || !s.matchesRecord(r) {
			s = state{r.Phase, r.Generation, now}
		}
		states[r.ID] = s
	}
	p.states = states
}

// fileContents returns the content of the device-info files and of the CDI file, by path.
func (p *Plugin) fileContents(pools []desired.Pool, devices map[string][]device) map[string]string {
	out := map[string]string{}
	for _, pool := range pools {
		for _, d := range devices[pool.FullName()] {
			if text, err := infoOf(d); err == nil {
				out[filepath.Join(p.InfoDir, infoFile(pool.FullName(), d))] = string(text)
			}
		}
	}
	if text, err := cdiSpec(pools, devices); err == nil && text != nil {
		out[filepath.Join(p.CDIDir, cdiFile)] = string(text)
	}
	return out
}

// servePools starts, updates and stops the endpoints of the pools. A pool without VFs is served,
// too, so that the node reports 0 of it.
func (p *Plugin) servePools(ctx context.Context, g *errgroup.Group, pools []desired.Pool, devices map[string][]device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, e := range p.serving {
		if !slices.ContainsFunc(pools, func(pool desired.Pool) bool { return pool.FullName() == name }) {
			e.stop()
			delete(p.serving, name)
		}
	}
	for _, pool := range pools {
		e := p.serving[pool.FullName()]
		if e == nil {
			own, stop := context.WithCancel(ctx)
			e = newEndpoint(p, pool.FullName(), stop)
			p.serving[e.name] = e
			e.setDevices(pool, devices[e.name])
			g.Go(func() error {
				e.socket.Run(own)
				return nil
			})
			continue
		}
		e.setDevices(pool, devices[e.name])
	}
}

// Problems returns the problems that keep pools from pods.
func (p *Plugin) Problems() []api.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Clone(p.problems)
	for _, e := range p.serving {
		if reason := e.socket.Problem(); reason != "" {
			out = append(out, api.Problem{Object: "pool " + e.name, Reason: reason, Next: "culvertd tries again on its own"})
		}
	}
	slices.SortFunc(out, func(a, b api.Problem) int { return cmp.Compare(a.Object, b.Object) })
	return out
}

// refusal is the reason why a VF cannot be given to a pod.
type refusal struct {
	pool string
	pci  vf.PCIAddr
	why  string
	soon bool
}

func (r refusal) Error() string {
	return fmt.Sprintf("pool %s: VF %s cannot be given to a pod: %s", r.pool, r.pci, r.why)
}
