package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/vf"
)

// past is an API server, its controllers, and machines with the books of package blocks. It
// simulates the same as TestI4AcrossNodes of that package, with objects in place of values: the
// controllers see stale reads, lost writes and UIDs.
type past struct {
	t        *rapid.T
	network  string // whose pool it is
	config   ipam.Config
	other    *otherStack // nil: there is none
	server   *pastServer
	now      time.Time
	workers  [2]*leader // one leads, the other has not noticed
	nodes    map[string]*machine
	earlier  []*machine // run on after another one has got their name
	uids     int
	pods     int
	backup   objects
	revision int // of the backup
	restored int // the version that the last restore made
}

// leader is a controller.
type leader struct {
	cached, live *apiClient
	addresses    *Addresses
	states       *States
}

// machine is a node: its ledger outlives its culvertd.
type machine struct {
	name, uid string
	up        bool
	book      *blocks.NodeBlocks
	view      int // the version of the pool that it has seen
	ledger    map[netip.Addr]blocks.Held
	unread    map[netip.Addr]bool // of the ledger, by damage
	kept      []blocks.Kept
	waits     []*waiter
}

type waiter struct {
	owner vf.Owner
	named []netip.Prefix
	done  func()
}

// addresses returns the addresses in the ledger, sorted.
func (m *machine) addresses() []netip.Addr {
	return slices.SortedFunc(maps.Keys(m.ledger), netip.Addr.Compare)
}

const nodeNames = "ab"

func small() ipam.Config {
	c, err := ipam.Parse([]byte(`{"type":"host-local","subnet":"10.0.0.0/28"}`))
	if err != nil {
		panic(err) // a constant that is wrong
	}
	return c
}

func newPast(t *rapid.T, network string, config ipam.Config, other *otherStack) *past {
	p := &past{t: t, network: network, config: config, other: other, server: &pastServer{versions: []objects{{}}}, now: time.Unix(1e9, 0), nodes: map[string]*machine{}}
	for i := range p.workers {
		p.workers[i] = &leader{}
		p.startController(i)
	}
	for _, name := range nodeNames {
		p.boot(&machine{name: string(name)})
	}
	p.save()
	return p
}

// startController starts a controller with empty memory and a clock of its own.
func (p *past) startController(i int) {
	skew := time.Duration(i) * time.Hour
	clock := func() time.Time { return p.now.Add(skew) }
	w := p.workers[i]
	w.cached = &apiClient{t: p.t, server: p.server, seen: map[string]int{"pool": p.restored, "state": p.restored, "node": p.restored}, beforeWrite: p.meanwhile}
	w.live = &apiClient{t: p.t, server: p.server, live: true}
	w.addresses = &Addresses{Client: w.cached, Live: w.live, Now: clock, Log: slog.New(slog.DiscardHandler)}
	if p.other != nil {
		w.addresses.Foreign = (&foreignAddresses{live: w.live, now: clock}).ofPool
	}
	w.states = &States{Client: w.cached, Live: w.live, Now: clock}
}

// meanwhile sometimes lets a node act between the reads and the write of a controller.
func (p *past) meanwhile() {
	if m := p.draw(); m.up && rapid.IntRange(0, 3).Draw(p.t, "meanwhile") == 0 {
		p.goOn(m)
		p.del(m)
		p.publish(m)
	}
}

func (p *past) draw() *machine {
	return p.nodes[string(rapid.SampledFrom([]rune(nodeNames)).Draw(p.t, "node"))]
}

func (p *past) save() { p.backup, p.revision = p.server.last(), p.server.revision }

// restore starts the API server from its backup: revisions and generations go on from there.
// Kubelets register machines that are missing, and culvertd writes a NodeState that is not there. A
// controller that runs on has seen the last version of the pool, and lists the objects before
// another controller writes them.
func (p *past) restore() {
	before := len(p.server.versions) - 1
	p.server.versions, p.server.revision = append(p.server.versions, p.backup), p.revision
	p.restored, p.earlier = len(p.server.versions)-1, nil
	p.other.restore(p.server.last())
	for _, name := range nodeNames {
		m := p.nodes[string(name)]
		clear(m.unread) // docs/failures.md: a restore while a ledger is damaged is not covered
		if m.up {
			p.register(m)
			if p.server.last()["state/"+m.name] == nil {
				p.publish(m)
			}
		}
	}
	p.restored = len(p.server.versions) - 1 // docs/failures.md: machines that the backup lacks are not covered
	for i, w := range p.workers {
		if rapid.Bool().Draw(p.t, "controller starts anew") {
			p.startController(i)
			continue
		}
		for kind := range w.cached.seen {
			w.cached.seen[kind] = p.restored
		}
		for _, version := range []int{before, p.restored} {
			p.hears(w, version)
		}
	}
}

// hears has a controller read a version of the pool.
func (p *past) hears(w *leader, version int) {
	var of blocks.Version // none where there is no pool
	if o := p.server.versions[version][p.key()]; o != nil {
		of = blocks.Version{UID: string(o.GetUID()), Number: o.GetGeneration()}
	}
	w.addresses.roll.Decide(blocks.RollCallState{Pool: p.pool(version), Version: of}, w.addresses.Now())
}

// knows reports whether the pool has the addresses of a machine again after a restore. Before that,
// the machine's Node object must not be deleted: the controller would not wait for the machine.
func (p *past) knows(m *machine) bool {
	pool := p.pool(len(p.server.versions) - 1)
	for a := range m.ledger {
		if !slices.ContainsFunc(pool.Blocks, func(b blocks.Block) bool { return b.Contains(a) }) {
			return false
		}
	}
	return m.view >= p.restored
}

// boot switches a machine on, with an empty ledger.
func (p *past) boot(m *machine) {
	p.nodes[m.name] = m
	m.up, m.ledger, m.unread = true, map[netip.Addr]blocks.Held{}, map[netip.Addr]bool{}
	p.register(m)
	p.start(m, len(p.server.versions)-1)
}

// register makes the Node object of a machine where there is none.
func (p *past) register(m *machine) {
	if p.server.uidOf(m.name) == "" {
		p.uids++
		p.server.setNode(m.name, fmt.Sprint(p.uids))
	}
	m.uid = p.server.uidOf(m.name)
	if m.book != nil {
		m.book.SetNode(m.uid)
	}
}

// replace gives the name of a machine to another one. The earlier one runs on, and its
// credential does not work any more.
func (p *past) replace(m *machine) {
	p.earlier = append(p.earlier, m)
	p.server.setNode(m.name, "")
	p.boot(&machine{name: m.name})
}

// start starts culvertd on a machine, which sees the given version of the pool.
func (p *past) start(m *machine, view int) {
	m.book = blocks.NewBook(m.name, func() {})
	m.book.SetNode(m.uid)
	if p.other == nil { // culvertd requests no blocks of a whereabouts pool before a pod needs one
		m.book.SetNetworks(map[string]ipam.Config{p.network: p.config})
	}
	m.waits = nil
	p.see(m, view)
}

func (p *past) see(m *machine, view int) {
	m.view = view
	m.book.SetPools([]blocks.View{{Pool: p.pool(view), ClusterNodes: len(nodeNames)}})
}

// key is the key of the pool's object.
func (p *past) key() string { return "pool/" + v1alpha1.AddressPoolName(p.network) }

func (p *past) pool(version int) blocks.Pool {
	o, ok := p.server.versions[version][p.key()].(*v1alpha1.AddressPool)
	if !ok {
		return blocks.Pool{Network: p.network}
	}
	pool, err := blocks.FromObject(o)
	if err != nil {
		p.t.Fatal(err)
	}
	return pool
}

// look runs one Reconcile of Addresses.
func (p *past) look(w *leader) {
	if _, err := w.addresses.Reconcile(p.t.Context(), named([]string{p.network})[0]); err != nil {
		p.t.Fatal(err)
	}
}

// lookAtState runs one Reconcile of States for a node.
func (p *past) lookAtState(w *leader, name string) {
	_, err := w.states.Reconcile(p.t.Context(), named([]string{name})[0])
	if conflict := new(apierrors.StatusError); err != nil && !(errors.As(err, &conflict) && apierrors.IsConflict(conflict)) {
		p.t.Fatal(err)
	}
}

// pass lets minutes go by. In that time every machine and controller sees the newest objects, and a
// controller that waits for nodes looks every second. An earlier machine of a name ends before
// other nodes get its blocks.
func (p *past) pass() {
	p.earlier = nil
	p.hear()
	for _, w := range p.workers {
		p.look(w)
	}
	p.now = p.now.Add(time.Duration(rapid.IntRange(-10, 400).Draw(p.t, "seconds")) * time.Second)
	p.hear()
}

// hear shows every machine that runs and every controller the newest objects, and lets the machines
// publish their NodeStates.
func (p *past) hear() {
	for _, name := range nodeNames {
		if m := p.nodes[string(name)]; m.up {
			p.register(m)
			p.see(m, len(p.server.versions)-1)
			p.publish(m)
		}
	}
	for _, w := range p.workers {
		for kind := range w.cached.seen {
			w.cached.seen[kind] = len(p.server.versions) - 1
		}
	}
}

// check fails if an address is held on two nodes (I4).
func (p *past) check() {
	has := p.other.holders()
	for _, m := range append(slices.Collect(maps.Values(p.nodes)), p.earlier...) {
		if !m.up {
			continue
		}
		for a := range m.ledger {
			if has[a] != "" {
				p.t.Fatalf("I4: %s is held on %s and on %s %s; pool %v", a, has[a], m.name, m.uid, p.pool(len(p.server.versions)-1))
			}
			has[a] = m.name + " " + m.uid
		}
	}
}
