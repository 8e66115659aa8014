package bond

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/trouble"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// port is the carrier of a PF. It is unknown until the Follower has read it once.
type port struct {
	known, up bool
	lost      bool      // the PF had no carrier at some time
	since     time.Time // of up
}

// noteCarrier records the carrier of a PF at a time. It reports whether the carrier was another one
// before.
func (p *port) noteCarrier(up bool, now time.Time) (isNew bool) {
	isNew = !p.known || p.up != up
	if isNew {
		p.known, p.up, p.since = true, up, now
	}
	p.lost = p.lost || !up
	return isNew
}

// isSettled reports whether a PF has carrier and has not come back just now.
func (p *port) isSettled(now time.Time) bool {
	return p.up && !now.Before(p.settlesAt())
}

// settlesAt returns the time from which a PF with carrier counts as settled, if it keeps its
// carrier. It returns the zero time for a PF that has no carrier, or that never lost it.
func (p *port) settlesAt() time.Time {
	if !p.up || !p.lost {
		return time.Time{}
	}
	return p.since.Add(holdDown)
}

// member is a VF of a bond. The address of its PF is zero if there is no such PF now.
type member struct{ pci, pf vf.PCIAddr }

// bond is an attached bond of a pod.
type bond struct {
	mark, name, netns, owner string
	hasPrimary               bool // the first member is preferred
	members                  []member
	addresses                []netip.Prefix
	records                  []journal.Record // of the members
	progress                 *progress
	decision                 decision // the latest one of Follower.decide
}

// newBond returns the bond of these members. It returns nil if there is nothing to choose: there is
// no interface, or there are not two members.
func newBond(records []journal.Record, where map[vf.PFID]vf.PCIAddr) *bond {
	first := records[0].Lease
	if len(records) < 2 || first.Bond.Mode != vf.BondActiveBackup || first.Wanted.Driver == vf.DriverVFIO {
		return nil
	}
	b := &bond{
		mark: first.BondMark, name: first.Owner.Interface, netns: first.Netns, owner: first.Owner.String(),
		records: records, hasPrimary: first.Bond.Primary != "" && first.Wanted.Interface == vf.MemberName(first.Owner.Interface, 0),
	}
	for _, r := range records {
		for _, a := range r.Lease.Wanted.Addresses {
			b.addresses = append(b.addresses, a.Prefix)
		}
		b.members = append(b.members, member{r.PCI, where[r.ID.PF]})
	}
	return b
}

// decision says which members of a bond are to send. The zero value leaves it to the kernel.
type decision struct {
	home bool // the first member is to be the primary one
	// steps are alternatives, the best first: the Follower tries them until one succeeds
	steps []step.SetBondActive
}

// chooseSender decides which members are to send. It leaves the choice to the kernel if no PF has
// carrier, or if no PF is better than another. It prefers the primary member, if there is one, once
// all PFs are settled. A PF whose carrier is not known is neither chosen nor avoided.
func (b *bond) chooseSender(ports map[vf.PCIAddr]*port, now time.Time) (d decision) {
	var settled, recent, down []vf.PCIAddr
	for _, m := range b.members {
		switch p := ports[m.pf]; {
		case p == nil || !p.known:
		case p.isSettled(now):
			settled = append(settled, m.pci)
		case p.up:
			recent = append(recent, m.pci)
		default:
			down = append(down, m.pci)
		}
	}
	if len(settled) == len(b.members) {
		d.home = b.hasPrimary
		return d
	}
	add := func(to []vf.PCIAddr, from ...vf.PCIAddr) {
		if len(from) == 0 {
			return
		}
		slices.SortFunc(from, vf.PCIAddr.Compare)
		for _, a := range to {
			d.steps = append(d.steps, step.SetBondActive{VF: a, Netns: b.netns, Bond: b.name, From: from})
		}
	}
	add(settled, slices.Concat(recent, down)...)
	add(recent, down...)
	return d
}

func (d decision) isNone() bool { return !d.home && len(d.steps) == 0 }

func (d decision) isSame(o decision) bool {
	return d.home == o.home && slices.EqualFunc(d.steps, o.steps, func(a, b step.SetBondActive) bool {
		return a.VF == b.VF && slices.Equal(a.From, b.From)
	})
}

// describeMove returns the event of a bond that was moved by a step.
func (b *bond) describeMove(s step.SetBondActive) journal.Event {
	var from []string
	for _, a := range s.From {
		from = append(from, a.String())
	}
	return b.makeEvent(s.VF, journal.Warning, reasons.BondFailedOver,
		fmt.Sprintf("bond %s of %s sends by VF %s: the PF of VF %s has no carrier, or has it for less than %s", b.name, b.owner, s.VF, strings.Join(from, ", "), holdDown))
}

// describeReturn returns the event of a bond that prefers its first member again.
func (b *bond) describeReturn() journal.Event {
	home := b.members[0].pci
	return b.makeEvent(home, journal.Normal, reasons.BondMovedBack,
		fmt.Sprintf("bond %s of %s prefers VF %s again: all PFs of the bond have carrier", b.name, b.owner, home))
}

// makeEvent returns an event about a member.
func (b *bond) makeEvent(member vf.PCIAddr, kind, reason, text string) journal.Event {
	i := slices.IndexFunc(b.records, func(r journal.Record) bool { return r.PCI == member })
	return b.records[i].MakeEvent(kind, reason, text) // each step is of a member
}

// progress records how far the Follower has carried out the latest decision about a bond.
type progress struct {
	mu     sync.Mutex // guards the rest
	busy   bool
	tried  decision
	next   time.Time // when the Follower tries again
	failed int       // tries that failed since the last success
	events trouble.Damper
}

// never is a pause without an end.
const never = time.Duration(math.MaxInt64)

// beginMove reports whether a decision must be carried out now. If so, the caller must call endMove
// or putOff afterwards.
func (p *progress) beginMove(d decision, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy {
		return false
	}
	if d.isNone() {
		if p.failed == 0 {
			p.tried = d // the kernel may choose another member meanwhile
		}
		return false
	}
	if d.isSame(p.tried) && now.Before(p.next) {
		return false
	}
	p.busy, p.tried = true, d
	return true
}

// putOff withdraws a call of beginMove whose move the Follower could not start, since too many
// others run. The next look begins the move again.
func (p *progress) putOff() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy, p.next = false, time.Time{}
}

// endMove records the outcome of the decision that was tried. It reports whether this try failed
// and the one before it did not.
func (p *progress) endMove(err error, now time.Time) (firstFailure bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = false
	if err != nil {
		p.next = now.Add(min(retryPause<<min(p.failed, 8), longestPause))
		p.failed++
		return p.failed == 1
	}
	p.failed, p.next = 0, now.Add(recheckPause)
	if p.tried.home {
		p.next = now.Add(never)
	}
	return false
}

// noteMove notes a move at a time, with its event. It reports whether the caller must record the
// event now.
func (p *progress) noteMove(e journal.Event, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events.NoteChange(e, now)
}

// takeDue returns the merged event for the moves that have no event of their own, if it is due.
func (p *progress) takeDue(now time.Time) (e journal.Event, isDue bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events.TakeDue(now, "moves")
}
