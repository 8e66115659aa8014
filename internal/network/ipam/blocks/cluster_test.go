package blocks

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
)

// cluster is an API server with its history, and the nodes and controllers that read and write it.
// Each of them may see any earlier version, except where the code asks the server itself.
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
	earlier  []*machine // machines that run on after another one has got their name
	workers  [2]*worker // two controllers: one is the leader, the other has not noticed
	pods     int
	net      ipam.Config
}

// machine is a node: its ledger outlives its culvertd.
type machine struct {
	name   string
	uid    string
	up     bool
	ledger map[netip.Addr]Held
	kept   []Kept // of the ledger
	book   *NodeBlocks
	view   int
	states []state // all versions of its NodeState
	waits  []*pending
}

// state is a NodeState.
type state struct {
	uid      string
	rolls    []string
	behind   []string
	requests []Request
}

// backup is a backup of the API server.
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

func netConfig() ipam.Config { return netOf("10.0.0.0/28") }

func netOf(subnet string) ipam.Config {
	c, err := ipam.Parse(fmt.Appendf(nil, `{"type":"host-local","subnet":%q}`, subnet))
	if err != nil {
		panic(err) // a constant that is wrong
	}
	return c
}

func newCluster(t *rapid.T, net ipam.Config) *cluster {
	c := &cluster{t: t, net: net, workers: [2]*worker{{read: -1}, {read: -1}}, now: time.Unix(1e9, 0), pools: []Pool{{Network: "n"}}, grown: []int64{1}, nodes: map[string]*machine{}, objects: map[string]string{}}
	for _, name := range []string{"a", "b"} {
		c.nodes[name] = &machine{name: name, ledger: map[netip.Addr]Held{}}
		c.boot(c.nodes[name])
	}
	c.save()
	return c
}

// version is metadata.generation of a version of the pool.
func (c *cluster) version(i int) Version { return Version{"u", c.grown[i]} }

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

// knows reports whether the pool has the addresses of a machine again after a restore. Before that,
// the machine's Node object must not be deleted: the controller would not wait for the machine's
// answer.
func (c *cluster) knows(m *machine) bool {
	for a := range m.ledger {
		if _, taken := c.pools[len(c.pools)-1].at(a); !taken {
			return false
		}
	}
	return m.view >= c.restored
}

// judge has a controller judge the newest version of the pool.
func (c *cluster) judge(w *worker, demands []Demand, answers []RollCallAnswer) GrantDecision {
	last := len(c.pools) - 1
	return w.roll.Decide(RollCallState{Pool: c.pools[last], Version: c.version(last), Demands: demands, Answers: answers}, c.now)
}

// boot switches a machine on, with an empty ledger, and makes its Node object as its kubelet does.
// culvertd has listed the pools since.
func (c *cluster) boot(m *machine) {
	m.up = true
	clear(m.ledger)
	if rapid.Bool().Draw(c.t, "with a new ledger") {
		m.kept = nil
	}
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

// replace gives the name of a machine to a new one. The old machine runs on and sees no further
// change, since its credentials were deleted with its Node object.
func (c *cluster) replace(m *machine) {
	c.earlier = append(c.earlier, m)
	fresh := &machine{name: m.name, ledger: map[netip.Addr]Held{}}
	c.nodes[m.name] = fresh
	c.objects[m.name] = ""
	c.boot(fresh)
}

// start starts culvertd on a machine, which may list the pools from a cache that is behind.
func (c *cluster) start(m *machine, view int) {
	m.book = NewBook(m.name, func() {})
	m.book.SetNode(m.uid)
	m.book.SetNetworks(map[string]ipam.Config{"n": c.net})
	m.waits = nil
	c.show(m, view)
}

// show has a machine see a version of the pool.
func (c *cluster) show(m *machine, view int) {
	m.view = view
	m.book.SetPools([]View{{Pool: c.pools[view], Version: c.version(view), ClusterNodes: 2, Exhausted: rapid.Bool().Draw(c.t, "exhausted")}})
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

// content is the machine's ledger. A ledger without grants may be new, while pods run that only an
// earlier ledger recorded.
func (m *machine) content() Ledger { return Ledger{Held: m.held(), Grants: m.kept} }

// keep makes one transaction of the ledger. culvertd may be killed before it does more.
func (c *cluster) keep(m *machine) { m.kept = m.book.Keep(m.content(), c.now) }

func (c *cluster) actions() map[string]func(*rapid.T) {
	all := map[string]func(m *machine){
		"ADD": c.add, "ADD by name": c.addNamed, "goes on": c.goOn, "DEL": c.del, "publish": c.publish, "ledger keeps grants": c.keep, "sees": c.see,
		"goes on at once": c.goOn, "ADD by name again": c.addNamed, "DEL again": c.del,
		"pod starts": c.startPod, "pod starts by name": c.startNamed, "round": c.round,
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

// pass lets minutes go by. By then the kubelet of a machine that lives has registered it again,
// culvertd has written its NodeState, and no view is so old. An earlier machine of a name sees no
// change: it ends before other nodes get its blocks.
func (c *cluster) pass() {
	c.now = c.now.Add(time.Duration(rapid.IntRange(-10, 400).Draw(c.t, "seconds")) * time.Second)
	c.earlier = nil
	for _, m := range c.nodes {
		if m.up {
			c.register(m)
			c.show(m, len(c.pools)-1)
			m.states = nil
			c.publish(m)
		}
	}
}

// round is the usual sequence: a node reports its needs, a controller answers, and the node sees
// the answer.
func (c *cluster) round(m *machine) {
	c.publish(m)
	w := c.workers[0]
	c.work(w)
	c.write(w.result)
	c.show(m, len(c.pools)-1)
}

// startPod makes an ADD, which waits for a round and for the answer of a roll call.
func (c *cluster) startPod(m *machine) {
	c.add(m)
	c.round(m)
	c.round(m)
	c.goOn(m)
}

// startNamed makes an ADD by name, which waits until each node has answered the controller.
func (c *cluster) startNamed(m *machine) {
	c.addNamed(m)
	c.round(m)
	for _, o := range c.nodes {
		if o.up {
			c.show(o, len(c.pools)-1)
			c.round(o)
		}
	}
	c.round(m)
	c.goOn(m)
}

func (c *cluster) owner() vf.Owner {
	c.pods++
	return vf.Owner{Kind: vf.OwnerPod, UID: fmt.Sprint(c.pods), Interface: "net1"}
}

func (c *cluster) add(m *machine) {
	p := &pending{owner: c.owner()}
	p.done = m.book.Need("n", c.net, nil, p.owner)
	m.waits = append(m.waits, p)
}

func (c *cluster) addNamed(m *machine) {
	p := &pending{owner: c.owner(), named: []netip.Addr{c.address()}}
	p.done = m.book.Need("n", c.net, p.named, p.owner)
	m.waits = append(m.waits, p)
}

// address returns an address that the network gives out.
func (c *cluster) address() netip.Addr {
	return netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(2, int(Total(c.net.Usable()[0]))+1).Draw(c.t, "address"))})
}

// goOn continues a waiting ADD: it gets its address, gives up, or waits on.
func (c *cluster) goOn(m *machine) {
	if len(m.waits) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.waits)-1).Draw(c.t, "wait")
	p := m.waits[i]
	own := m.book.Of("n", p.owner, GrantsOf(m.kept, "n"))
	var wanted []netip.Prefix
	for _, a := range p.named {
		wanted = append(wanted, netip.PrefixFrom(a, 32))
	}
	got, err := c.net.Within(own).Allocate(func(a netip.Addr) (vf.Owner, bool) { h, ok := m.ledger[a]; return h.Owner, ok }, []netip.Addr{c.address()}, wanted)
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
	c.keep(m)
	rolls, behind := m.book.RollCalls(), m.book.Behind()
	requests, _ := m.book.Requests(func() (Ledger, error) { return m.content(), nil })
	m.states = append(m.states, state{m.uid, rolls, behind, requests})
}

func (c *cluster) see(m *machine) {
	c.show(m, rapid.IntRange(m.view, len(c.pools)-1).Draw(c.t, "version"))
}

// work has a controller read the pool, take blocks back, and grant addresses for old versions of
// the nodes' requests.
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
		answers []RollCallAnswer
	)
	for _, name := range []string{"a", "b"} {
		if m := c.nodes[name]; len(m.states) > 0 {
			s := m.states[rapid.IntRange(0, len(m.states)-1).Draw(c.t, "state")]
			if c.objects[name] != "" {
				answers = append(answers, RollCallAnswer{name, s.rolls, s.behind})
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

// check fails if an address is held on two nodes (I4).
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

// I4: no address is ever held on two nodes, whatever happens. Nodes see old pools,
// controllers see old requests, there are two leaders, writes are lost, programs crash
// between any two steps, nodes vanish and return.
func TestI4AcrossNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t, netConfig())
		t.Repeat(c.actions())
		c.settle()
	})
}

// I4: a node never gives out again an address that it released, by any old view of the
// pool and after any crash. Addresses go back and forth between two nodes while pods
// start and end, by name too.
func TestI4ReleasedAddresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t, netOf("10.0.0.0/29"))
		for range 2 { // the roll call is answered
			c.round(c.nodes["a"])
			c.round(c.nodes["b"])
		}
		all, some := c.actions(), map[string]func(*rapid.T){}
		for _, name := range []string{"", "pod starts", "pod starts by name", "DEL", "DEL again", "publish", "sees", "killed", "ledger keeps grants", "controller reads", "controller writes", "time", "round"} {
			some[name] = all[name]
		}
		some["grants are damaged"] = func(*rapid.T) { c.draw().kept = nil }
		some["all pods end"] = func(*rapid.T) { clear(c.draw().ledger) }
		for range 3 {
			t.Repeat(some)
		}
		c.settle()
	})
}

// settle shows all nodes and a controller the newest versions. Then each node must have a block, as
// far as the addresses suffice.
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
			c.show(m, len(c.pools)-1)
		}
	}
	for name, m := range c.nodes {
		own := m.book.Of("n", m.waits[0].owner, GrantsOf(m.kept, "n"))
		if len(own.Runs) == 0 {
			all := 0
			for _, b := range c.pools[len(c.pools)-1].Blocks {
				all += int(Count(b.Run))
			}
			if all < int(Total(c.net.Usable()[0])) {
				c.t.Fatalf("node %s has no block: %v", name, show(c.pools[len(c.pools)-1]))
			}
		}
	}
	c.check()
	c.leaks()
}

// leaks finds blocks that their nodes neither hand out nor give back.
func (c *cluster) leaks() {
	last := c.pools[len(c.pools)-1]
	for _, m := range c.nodes {
		out := m.book.Of("n", vf.Owner{}, GrantsOf(m.kept, "n")).Runs
		for _, b := range last.Blocks {
			if m.book.owns(b) && b.Claim == "" && len(withoutAll(withoutAll([]ipam.Run{b.Run}, out), heldRuns("n", false, m.held()))) > 0 {
				c.t.Fatalf("node %s has %s and does not hand it out: %v, grants %v", m.name, b.Run, show(last), m.kept)
			}
		}
	}
}
