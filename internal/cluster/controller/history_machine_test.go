package controller

import (
	"fmt"
	"net/netip"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/vf"
)

// publish writes a machine's NodeState, as membership does.
func (p *past) publish(m *machine) {
	s, ok := p.server.last()["state/"+m.name].(*v1alpha1.NodeState)
	if ok {
		s = s.DeepCopy()
	} else {
		s = &v1alpha1.NodeState{}
		s.Name = m.name
	}
	rolls, behind := m.book.RollCalls(), m.book.Behind()
	m.kept = m.book.Keep(m.content(), p.now)
	requests, err := m.book.Requests(func() (blocks.Ledger, error) { return m.content(), nil })
	if err != nil {
		p.t.Fatal(err)
	}
	s.Status.NodeUID, s.Status.RollCalls, s.Status.RollCallsBehind = m.uid, rolls, behind
	s.Status.AddressRequests, s.Status.AddressesUnread = blocks.ToObject(requests), int32(len(m.unread))
	p.server.put("state/"+m.name, s)
}

// content is the machine's ledger.
func (m *machine) content() blocks.Ledger {
	l := blocks.Ledger{Grants: m.kept, Partial: len(m.unread) > 0}
	for _, a := range m.addresses() {
		if !m.unread[a] {
			l.Held = append(l.Held, m.ledger[a])
		}
	}
	return l
}

func (p *past) add(m *machine, named ...netip.Prefix) {
	if p.other.serves() {
		return
	}
	p.pods++
	w := &waiter{owner: vf.Owner{Kind: vf.OwnerPod, UID: fmt.Sprint(p.pods), Interface: "net1"}, named: named}
	var addrs []netip.Addr
	for _, n := range named {
		addrs = append(addrs, n.Addr())
	}
	w.done = m.book.Need(p.network, p.config, addrs, w.owner)
	m.waits = append(m.waits, w)
}

// goOn continues a waiting ADD: it gets its address, gives up, or waits on.
func (p *past) goOn(m *machine) {
	if len(m.waits) == 0 {
		return
	}
	w := m.waits[0]
	own := m.book.Of(p.network, w.owner, blocks.GrantsOf(m.kept, p.network))
	got, err := p.config.Within(own).Allocate(func(a netip.Addr) (vf.Owner, bool) { h, ok := m.ledger[a]; return h.Owner, ok }, nil, w.named)
	if err == nil {
		a := got.Addresses[0].Prefix.Addr()
		m.ledger[a] = blocks.Held{Network: p.network, Addr: a, Owner: w.owner, Claim: own.Claims[a]}
	} else if rapid.Bool().Draw(p.t, "patient") {
		return
	}
	w.done()
	m.waits = m.waits[1:]
}

func (p *past) del(m *machine) {
	for _, a := range m.addresses() {
		if !m.unread[a] && rapid.Bool().Draw(p.t, "this one") {
			delete(m.ledger, a)
			return
		}
	}
}
