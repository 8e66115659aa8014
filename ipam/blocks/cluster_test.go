package blocks

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/ipam"
	"github.com/culvert-net/culvert/vf"
)

// cluster is an API server with its history, and those who read and write it.
// Everybody may see any earlier version, except where the code asks the server
// itself.
type cluster struct {
	t      *rapid.T
	now    time.Time
	pools  []Pool  // all versions of the one pool
	grown  []int64 // the generation of each version: a restored server counts on from the backup
	backup backup
	// restored is the version that the last restore made.
	restored int
	nodes    map[string]*machine
	objects  map[string]string // UIDs of the Node objects
	uids     int
	earlier  []*machine // those that run on after another one has got their name
	workers  [2]*worker // two controllers: one is the leader, the other has not noticed
	pods     int
}

// machine is a node: its ledger outlives its culvertd.
type machine struct {
	name   string
	uid    string
	up     bool
	ledger map[netip.Addr]Held
	book   *Book
	view   int
	states []state // all versions of its NodeState
	waits  []*pending
}

// state is a NodeState.
type state struct {
	uid      string
	rolls    []string
	requests []Request
}

// backup is what a backup of the API server has.
type backup struct {
	version int
	states  map[string][]state
	objects map[string]string
}

type pending struct {
	owner vf.Owner
	named []netip.Addr
	done  func()
}

// worker is a controller between reading and writing.
type worker struct {
	read     int
	result   Pool
	absences Absences
	roll     RollCall
}

func netConfig() ipam.Config {
	c, err := ipam.Parse([]byte(`{"type":"host-local","subnet":"10.0.0.0/28"}`))
	if err != nil {
		panic(err) // a constant that is wrong
	}
	return c
}

func newCluster(t *rapid.T) *cluster {
	c := &cluster{t: t, workers: [2]*worker{{read: -1}, {read: -1}}, now: time.Unix(1e9, 0), pools: []Pool{{Network: "n"}}, grown: []int64{1}, nodes: map[string]*machine{}, objects: map[string]string{}}
	for _, name := range []string{"a", "b"} {
		c.nodes[name] = &machine{name: name, ledger: map[netip.Addr]Held{}}
		c.boot(c.nodes[name])
	}
	c.save()
	return c
}

// write adds a version of the pool.
func (c *cluster) write(p Pool) {
	c.pools, c.grown = append(c.pools, p), append(c.grown, c.grown[len(c.grown)-1]+1)
}

// save makes the backup of the API server.
func (c *cluster) save() {
	c.backup = backup{len(c.pools) - 1, map[string][]state{}, maps.Clone(c.objects)}
	for name, m := range c.nodes {
		c.backup.states[name] = slices.Clone(m.states)
	}
}

// restore starts the API server from its backup. Nodes keep their old view of the pool
// until they see a later one. A kubelet that runs registers its machine again, culvertd
// writes a NodeState that is not there, and earlier machines of a name have ended. A
// controller is started again, or lists the pools before another one writes them.
func (c *cluster) restore() {
	c.pools, c.grown = append(c.pools, c.pools[c.backup.version]), append(c.grown, c.grown[c.backup.version])
	c.restored = len(c.pools) - 1
	c.objects, c.earlier = maps.Clone(c.backup.objects), nil
	for name, m := range c.nodes {
		m.states = slices.Clone(c.backup.states[name])
		if !m.up {
			continue
		}
		c.register(m)
		if len(m.states) == 0 {
			c.publish(m)
		}
	}
	for _, w := range c.workers {
		w.read = -1
		if rapid.Bool().Draw(c.t, "controller runs on") {
			c.judge(w, nil, nil)
		} else {
			w.roll, w.absences = RollCall{}, Absences{}
		}
	}
}

// knows reports whether the pool has the addresses of a machine again after a restore.
// Before that its Node object must not be deleted, or the controller does not wait for its answer.
func (c *cluster) knows(m *machine) bool {
	for a := range m.ledger {
		if _, taken := c.pools[len(c.pools)-1].at(a); !taken {
			return false
		}
	}
	return m.view >= c.restored
}

// judge is the look of a controller at the newest version of the pool.
func (c *cluster) judge(w *worker, demands []Demand, answers []Answer) Verdict {
	last := len(c.pools) - 1
	return w.roll.Judge(Look{Pool: c.pools[last], Version: c.grown[last], Demands: demands, Answers: answers}, c.now)
}

// boot is a machine that is switched on, with an empty ledger, and its Node
// object: its kubelet made it and culvertd has listed the pools since.
func (c *cluster) boot(m *machine) {
	m.up = true
	clear(m.ledger)
	c.register(m)
	c.start(m, len(c.pools)-1)
}

// register makes the Node object of a machine when there is none.
func (c *cluster) register(m *machine) {
	if c.objects[m.name] == "" {
		c.uids++
		c.objects[m.name] = fmt.Sprint(c.uids)
	}
	m.uid = c.objects[m.name]
	if m.book != nil {
		m.book.SetNode(m.uid)
	}
}

// replace gives the name of a machine to a new one. The old one runs on and hears of it
// no more, as the Node object was deleted with its credentials.
func (c *cluster) replace(m *machine) {
	c.earlier = append(c.earlier, m)
	fresh := &machine{name: m.name, ledger: map[netip.Addr]Held{}}
	c.nodes[m.name] = fresh
	c.objects[m.name] = ""
	c.boot(fresh)
}

// start is culvertd's; it may list the pools from a cache that is behind.
func (c *cluster) start(m *machine, view int) {
	m.book = NewBook(m.name, func() {})
	m.book.SetNode(m.uid)
	m.book.SetNetworks(map[string]ipam.Config{"n": netConfig()})
	m.waits = nil
	m.view = view
	m.book.SetPools([]View{{Pool: c.pools[view]}})
}

func (c *cluster) draw() *machine {
	return c.nodes[rapid.SampledFrom([]string{"a", "b"}).Draw(c.t, "node")]
}

func (m *machine) held() (out []Held) {
	for _, h := range m.ledger {
		out = append(out, h)
	}
	return out
}

func (c *cluster) actions() map[string]func(*rapid.T) {
	all := map[string]func(m *machine){
		"ADD": c.add, "ADD by name": c.addNamed, "goes on": c.goOn, "DEL": c.del, "publish": c.publish, "sees": c.see,
		"goes on at once": c.goOn, "ADD by name again": c.addNamed, "DEL again": c.del,
		"pod starts": c.startPod, "round": c.round,
		"Node object deleted": func(m *machine) {
			if c.knows(m) {
				c.objects[m.name] = ""
			}
		},
		"replaced": func(m *machine) {
			if c.knows(m) {
				c.replace(m)
			}
		},
		"killed": func(m *machine) {
			c.start(m, rapid.IntRange(max(c.restored, m.view-3), len(c.pools)-1).Draw(c.t, "view"))
		},
	}
	out := map[string]func(*rapid.T){
		"": func(*rapid.T) { c.check() },
		"controller reads": func(t *rapid.T) {
			c.work(c.workers[rapid.IntRange(0, 1).Draw(t, "which")])
		},
		"controller writes": func(t *rapid.T) {
			w := rapid.IntRange(0, 1).Draw(t, "which")
			if job := c.workers[w]; job.read == len(c.pools)-1 { // compare and swap
				c.write(job.result)
			}
			c.workers[w].read = -1
		},
		"time":      func(*rapid.T) { c.pass() },
		"backup":    func(*rapid.T) { c.save() },
		"restore":   func(*rapid.T) { c.restore() },
		"node lost": func(*rapid.T) { m := c.draw(); m.up = false; c.objects[m.name] = ""; m.states = nil },
		"node back": func(*rapid.T) {
			if m := c.draw(); !m.up {
				c.boot(m)
			}
		},
	}
	for name, act := range all {
		out[name] = func(*rapid.T) {
			if m := c.draw(); m.up {
				act(m)
			}
		}
	}
	return out
}

// pass lets minutes go by. A machine that lives is registered again by its kubelet by
// then and has written its NodeState, and no view is as old as that. An earlier machine of a name hears of
// nothing: it ends before its blocks are others'.
func (c *cluster) pass() {
	c.now = c.now.Add(time.Duration(rapid.IntRange(-10, 400).Draw(c.t, "seconds")) * time.Second)
	c.earlier = nil
	for _, m := range c.nodes {
		if m.up {
			c.register(m)
			m.view = len(c.pools) - 1
			m.book.SetPools([]View{{Pool: c.pools[m.view]}})
			m.states = nil
			c.publish(m)
		}
	}
}

// round is what happens most of the time: a node says what it needs, a
// controller answers, the node sees it.
func (c *cluster) round(m *machine) {
	c.publish(m)
	w := c.workers[0]
	c.work(w)
	c.write(w.result)
	m.view = len(c.pools) - 1
	m.book.SetPools([]View{{Pool: c.pools[m.view]}})
}

// startPod is an ADD that waits for a round and for the answer of a roll call.
func (c *cluster) startPod(m *machine) {
	c.add(m)
	c.round(m)
	c.round(m)
	c.goOn(m)
}

func (c *cluster) owner() vf.Owner {
	c.pods++
	return vf.Owner{Kind: vf.OwnerPod, UID: fmt.Sprint(c.pods), Interface: "net1"}
}

func (c *cluster) add(m *machine) {
	p := &pending{owner: c.owner()}
	p.done = m.book.Need("n", netConfig(), nil, p.owner)
	m.waits = append(m.waits, p)
}

func (c *cluster) addNamed(m *machine) {
	a := netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(13, 14).Draw(c.t, "address"))})
	p := &pending{owner: c.owner(), named: []netip.Addr{a}}
	p.done = m.book.Need("n", netConfig(), p.named, p.owner)
	m.waits = append(m.waits, p)
}

// goOn is a waiting ADD that looks again, and gets its address or gives up.
func (c *cluster) goOn(m *machine) {
	if len(m.waits) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.waits)-1).Draw(c.t, "wait")
	p := m.waits[i]
	own := m.book.Of("n", p.owner)
	var wanted []netip.Prefix
	for _, a := range p.named {
		wanted = append(wanted, netip.PrefixFrom(a, 32))
	}
	got, err := netConfig().Within(own).Allocate(func(a netip.Addr) (vf.Owner, bool) { h, ok := m.ledger[a]; return h.Owner, ok }, nil, wanted)
	if err == nil {
		a := got.Addresses[0].Prefix.Addr()
		m.ledger[a] = Held{Network: "n", Addr: a, Owner: p.owner, Claim: own.Claims[a]}
	} else if rapid.Bool().Draw(c.t, "patient") {
		return
	}
	p.done()
	m.waits = slices.Delete(m.waits, i, i+1)
}

func (c *cluster) del(m *machine) {
	for _, h := range m.held() {
		if rapid.Bool().Draw(c.t, "this one") {
			delete(m.ledger, h.Addr)
			return
		}
	}
}

func (c *cluster) publish(m *machine) {
	m.states = append(m.states, state{m.uid, m.book.RollCalls(), asked(m.book, m.held()...)})
}

func (c *cluster) see(m *machine) {
	m.view = rapid.IntRange(m.view, len(c.pools)-1).Draw(c.t, "version")
	m.book.SetPools([]View{{Pool: c.pools[m.view]}})
}

// work reads the pool, takes back, and grants what old views of the nodes'
// requests ask for.
func (c *cluster) work(w *worker) {
	w.read = len(c.pools) - 1
	p, err := Release(c.pools[w.read], &w.absences, c.now, func(node string) (NodeView, error) {
		m := c.nodes[node]
		v := NodeView{UID: c.objects[node]}
		if n := len(m.states); n > 0 && m.states[n-1].uid == v.UID {
			v.Known = true
			for _, r := range m.states[n-1].requests {
				v.Claims = append(v.Claims, r.Claims...)
			}
		}
		return v, nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	var (
		demands []Demand
		answers []Answer
	)
	for _, name := range []string{"a", "b"} {
		if m := c.nodes[name]; len(m.states) > 0 {
			s := m.states[rapid.IntRange(0, len(m.states)-1).Draw(c.t, "state")]
			if c.objects[name] != "" {
				answers = append(answers, Answer{name, s.rolls})
			}
			for _, r := range s.requests {
				demands = append(demands, Demand{name, s.uid, r})
			}
		}
	}
	if v := c.judge(w, demands, answers); len(v.Missing) > 0 {
		w.result = c.pools[w.read]
		w.result.RollCall = v.ID
		return
	}
	w.result, _ = Grant(p, demands, 2)
}

// check is I4.
func (c *cluster) check() {
	has := map[netip.Addr]string{}
	for _, m := range append(slices.Collect(maps.Values(c.nodes)), c.earlier...) {
		name := m.name + " " + m.uid
		if !m.up {
			continue
		}
		for a := range m.ledger {
			if has[a] != "" {
				c.t.Fatalf("I4: %s is held on %s and on %s; pool %v", a, has[a], name, show(c.pools[len(c.pools)-1]))
			}
			has[a] = name
		}
	}
}

// I4: nodes that see old pools, controllers that see old requests, two leaders,
// lost writes, crashes between any two steps, nodes that vanish and come back:
// no address is ever held on two nodes.
func TestI4AcrossNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t)
		t.Repeat(c.actions())
		c.settle()
	})
}

// settle lets everybody see everything: whoever wants an address gets one, as
// far as there are any.
func (c *cluster) settle() {
	for _, m := range c.nodes {
		c.boot(m)
		c.add(m)
	}
	for range 5 {
		for _, m := range c.nodes {
			m.states = nil
			c.publish(m)
		}
		c.now = c.now.Add(2 * Grace)
		c.work(c.workers[0])
		c.write(c.workers[0].result)
		for _, m := range c.nodes {
			m.view = len(c.pools) - 1
			m.book.SetPools([]View{{Pool: c.pools[m.view]}})
		}
	}
	for name, m := range c.nodes {
		own := m.book.Of("n", m.waits[0].owner)
		if len(own.Runs) == 0 {
			all := 0
			for _, b := range c.pools[len(c.pools)-1].Blocks {
				all += int(Count(b.Run))
			}
			if all < 13 {
				c.t.Fatalf("node %s has no block: %v", name, show(c.pools[len(c.pools)-1]))
			}
		}
	}
	c.check()
}
