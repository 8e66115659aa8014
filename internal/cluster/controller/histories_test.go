package controller

import (
	"flag"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/vf"
)

// I4: no address is held on two nodes, whatever happens. Two controllers have old
// caches, an API server is restored, machines return under an old name, Node objects
// are deleted, ledgers cannot be read. Nodes act between a controller's reads and its
// write.
//
// The histories are the same each time, unless the command line says otherwise:
// tools/go test ./internal/cluster/controller -run TestI4Histories -rapid.checks=30000 -rapid.seed=0
func TestI4HistoriesOfControllers(t *testing.T) {
	checkHistories(t, "2000", func(t *rapid.T) *past { return newPast(t, "n", small(), nil) })
}

// checkHistories checks a number of histories.
func checkHistories(t *testing.T, number string, begin func(*rapid.T) *past) {
	t.Helper()
	given := commandLine()
	for name, value := range map[string]string{"rapid.checks": number, "rapid.seed": "20261125"} {
		if given[name] {
			continue
		}
		was := flag.Lookup(name).Value.String()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		defer flag.Set(name, was)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := begin(t)
		t.Repeat(p.actions())
		p.settle()
	})
}

// commandLine returns the flags that the command line has. Flags that checkHistories has set count as
// set, too, so it is read once.
var commandLine = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { out[f.Name] = true })
	return out
})

func (p *past) actions() map[string]func(*rapid.T) {
	worker := func() *leader { return p.workers[rapid.IntRange(0, 1).Draw(p.t, "controller")] }
	out := map[string]func(*rapid.T){
		"":                    func(*rapid.T) { p.check() },
		"look":                func(*rapid.T) { p.look(worker()) },
		"look again":          func(*rapid.T) { p.look(worker()) },
		"controller ends":     func(*rapid.T) { p.startController(rapid.IntRange(0, 1).Draw(p.t, "controller")) },
		"look at a NodeState": func(*rapid.T) { p.lookAtState(worker(), p.draw().name) },
		"time":                func(*rapid.T) { p.pass() },
		"backup":              func(*rapid.T) { p.save() },
		"restore":             func(*rapid.T) { p.restore() },
		"node lost":           func(*rapid.T) { m := p.draw(); m.up = false; p.server.setNode(m.name, "") },
		"node back":           func(*rapid.T) { p.back(p.draw()) },
	}
	maps.Copy(out, p.otherActions())
	for name, act := range p.machines() {
		out[name] = func(*rapid.T) {
			if m := p.draw(); m.up {
				act(m)
			}
		}
	}
	return out
}

// machines returns the actions of a machine that runs.
func (p *past) machines() map[string]func(*machine) {
	return map[string]func(*machine){
		"ADD":         func(m *machine) { p.add(m) },
		"ADD by name": func(m *machine) { p.add(m, p.address()) },
		"goes on":     p.goOn, "DEL": p.del, "publish": p.publish, "pod starts": p.startPod, "pod starts by name": p.startNamed,
		"sees": func(m *machine) {
			p.see(m, rapid.IntRange(m.view, len(p.server.versions)-1).Draw(p.t, "version"))
		},
		"culvertd is killed": func(m *machine) {
			p.start(m, rapid.IntRange(max(p.restored, m.view-3), len(p.server.versions)-1).Draw(p.t, "view"))
		},
		"Node object deleted": func(m *machine) {
			if p.knows(m) {
				p.server.setNode(m.name, "")
			}
		},
		"replaced": func(m *machine) {
			if p.knows(m) {
				p.replace(m)
			}
		},
		"ledger is damaged": func(m *machine) {
			for a := range m.ledger {
				if p.knows(m) && len(m.ledger) == 1 {
					m.unread[a] = true
				}
			}
		},
		"NodeState is deleted": func(m *machine) {
			if p.knows(m) {
				p.server.put("state/"+m.name, nil)
			}
		},
		"ledger is repaired": func(m *machine) { clear(m.unread) },
	}
}

func (p *past) back(m *machine) {
	if !m.up {
		p.boot(&machine{name: m.name})
	}
}

func (p *past) address() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(2, 14).Draw(p.t, "address"))}), 32)
}

// round is the usual sequence: a node reports its needs, the leader answers, and the node sees the
// answer.
func (p *past) round(m *machine) {
	p.publish(m)
	w := p.workers[0]
	for kind := range w.cached.seen {
		w.cached.seen[kind] = len(p.server.versions) - 1
	}
	p.look(w)
	p.see(m, len(p.server.versions)-1)
}

// startPod makes an ADD, which waits for a round and for the answer of a roll call.
func (p *past) startPod(m *machine) {
	p.add(m)
	p.round(m)
	p.round(m)
	p.goOn(m)
}

func (p *past) startNamed(m *machine) {
	p.add(m, p.address())
	p.round(m)
	p.round(m)
	p.goOn(m)
}

// settle shows all nodes and the leader the newest objects. Then each node must have a block, as
// far as the addresses suffice.
func (p *past) settle() {
	p.earlier = nil
	p.other.leave()
	all := slices.Collect(maps.Values(p.nodes))
	for _, m := range all {
		p.boot(m)
		p.add(m)
	}
	for range 6 {
		for _, m := range all {
			if len(m.waits) == 0 { // it gave up
				p.add(m)
			}
			p.publish(m)
		}
		p.now = p.now.Add(1e12) // of nanoseconds: a quarter of an hour
		p.round(all[0])
		for _, m := range all {
			p.see(m, len(p.server.versions)-1)
		}
	}
	pool := p.pool(len(p.server.versions) - 1)
	for _, m := range all {
		if len(m.book.Of(p.network, vf.Owner{}, blocks.GrantsOf(m.kept, p.network)).Runs) == 0 && int(pool.Total())+p.podsSeen() < 13 {
			p.t.Fatalf("node %s has no block: %v", m.name, pool)
		}
	}
	p.check()
}
