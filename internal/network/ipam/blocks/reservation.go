package blocks

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/vf"
)

// Reservation keeps an address for the pods of one name, on whatever node, while no such pod
// has it. Pods of a StatefulSet have names that come back.
type Reservation struct {
	// Pod is namespace/name of the pods, and the interface.
	Pod  string
	Addr netip.Addr
	// For is how long the address is kept after the last pod has ended.
	For time.Duration
	// Since is when a controller first found that no node holds the address; it is zero while a
	// node holds it. It is for people: its clock may be another machine's.
	Since time.Time
}

// Endings notes when this controller first read that no node holds a kept address.
type Endings = sightings[ending]

// ending is the mark of one kept address that no node holds.
type ending struct {
	addr   netip.Addr
	pod    string
	marked int64
}

// mostReservations bounds how many addresses a pool keeps: its object must fit into etcd.
const mostReservations = 1024

// PodKey returns the name of an attachment's owner in reservations; it is empty for owners that
// are no pods.
func PodKey(o vf.Owner) string {
	if o.Kind != vf.OwnerPod || o.Name == "" {
		return ""
	}
	return o.Name + " " + o.Interface
}

// podFamily identifies a kept address: an interface of a pod keeps one of each family.
type podFamily struct {
	pod string
	is4 bool
}

// Reserve updates the reservations of a pool by the nodes' reports, which Confirm has confirmed. A
// report counts only for addresses in the node's own blocks. A reservation that no node reports ends when its time is
// over, by the clock of this controller. Reserve keeps at most mostReservations, see boundKept.
func Reserve(p Pool, endings *Endings, demands []Demand, now time.Time) Pool {
	before, after := endings.of(p.Network), marks[ending]{}
	reported := map[netip.Addr]Reservation{}
	for _, d := range demands {
		for _, r := range d.Reservations {
			if p.isOwn(d, r.Addr) && r.Pod != "" && r.For > 0 {
				r.Since = time.Time{}
				reported[r.Addr] = r
			}
		}
	}
	has := map[podFamily]bool{}
	for _, r := range reported {
		has[podFamily{r.Pod, r.Addr.Is4()}] = true
	}
	var out []Reservation
	for _, old := range p.Reservations {
		if _, held := reported[old.Addr]; held || has[podFamily{old.Pod, old.Addr.Is4()}] {
			continue // the pod has it, or another address
		}
		if old.Since.IsZero() {
			old.Since = now
		}
		mark := ending{old.Addr, old.Pod, old.Since.Unix()}
		after[mark] = before.sinceOr(mark, now)
		if now.Sub(after[mark]) < old.For {
			out = append(out, old)
		}
	}
	endings.set(p.Network, after)
	for _, r := range reported {
		out = append(out, r)
	}
	p.Reservations = p.boundKept(out)
	return p
}

// boundKept returns at most mostReservations of all, by address. Beyond that, each namespace has an
// equal share, plus the places that other namespaces leave. So pods that come and go under new
// names take no places from pods of other namespaces (I9, TestI9KeptAddressesAreShared).
func (p Pool) boundKept(all []Reservation) (out []Reservation) {
	byNamespace := map[string][]Reservation{}
	for _, r := range all {
		namespace, _, _ := strings.Cut(r.Pod, "/")
		byNamespace[namespace] = append(byNamespace[namespace], r)
	}
	order := slices.SortedFunc(maps.Keys(byNamespace), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(byNamespace[a]), len(byNamespace[b])), cmp.Compare(a, b))
	})
	for i, namespace := range order {
		some := byNamespace[namespace]
		if share := (mostReservations - len(out)) / (len(order) - i); len(some) > share {
			slices.SortFunc(some, p.compareKept)
			some = some[:share]
		}
		out = append(out, some...)
	}
	slices.SortFunc(out, func(a, b Reservation) int { return a.Addr.Compare(b.Addr) })
	return out
}

// compareKept sorts the reservations of one namespace, those first that stay: reservations that the
// pool has already, so that a look at unchanged reports changes nothing. Of these, addresses that a
// pod holds come first, then those of the pods that ended last, then the lowest addresses.
func (p Pool) compareKept(a, b Reservation) int {
	rank := func(r Reservation) int {
		_, listed := p.reservation(r.Addr)
		switch {
		case !listed:
			return 2
		case !r.Since.IsZero():
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), b.Since.Compare(a.Since), a.Addr.Compare(b.Addr))
}

// reservation returns the reservation of an address.
func (p Pool) reservation(a netip.Addr) (Reservation, bool) {
	i, found := slices.BinarySearchFunc(p.Reservations, a, func(r Reservation, a netip.Addr) int { return r.Addr.Compare(a) })
	if !found {
		return Reservation{}, false
	}
	return p.Reservations[i], true
}

// reservedFor begins the ID of a claim on an address that is kept for the claim's pod.
func reservedFor(pod string) string { return forPod + pod + " " }

const forPod = "for "

// isFor reports whether a block was granted for an address that is kept for a pod.
func (b Block) isFor(pod string) bool {
	return pod != "" && strings.HasPrefix(b.Claim, reservedFor(pod))
}

// admits reports whether a claim may have an address that may be kept for a pod.
func (p Pool) admits(c Claim) bool {
	r, kept := p.reservation(c.Addr)
	return !kept || c.Held || strings.HasPrefix(c.ID, reservedFor(r.Pod))
}

// sharePod reports whether a block and a claim are for one pod that the address is kept for.
func (p Pool) sharePod(b Block, c Claim) bool {
	r, kept := p.reservation(c.Addr)
	return kept && b.isFor(r.Pod) && strings.HasPrefix(c.ID, reservedFor(r.Pod))
}

// keptID marks the blocks of reserveKept. No node uses it for a claim.
const keptID = "kept for a pod"

// reserveKept keeps Grant from the addresses that are kept for pods, as reserveForeign does.
func (p *Pool) reserveKept() {
	for _, r := range p.Reservations {
		if _, taken := p.at(r.Addr); !taken {
			p.insert(Block{Run: ipam.Run{First: r.Addr, Last: r.Addr}, Claim: keptID})
		}
	}
}

// divide returns the runs without the addresses that are kept for other pods, and the addresses
// that are kept for the owner's pod.
func (p Pool) divide(runs []ipam.Run, owner vf.Owner) (rest []ipam.Run, kept []netip.Addr) {
	pod := PodKey(owner)
	for _, r := range p.Reservations {
		if r.Pod == pod {
			kept = append(kept, r.Addr)
			continue
		}
		if slices.ContainsFunc(runs, func(run ipam.Run) bool { return run.Contains(r.Addr) }) {
			runs = without(runs, ipam.Run{First: r.Addr, Last: r.Addr})
		}
	}
	return runs, kept
}

// reservations returns the addresses of a network that pods of the node hold and may keep after
// their end.
func reservations(network string, held []Held) (out []Reservation) {
	for _, h := range held {
		if pod := PodKey(h.Owner); h.Network == network && h.Keep > 0 && pod != "" {
			out = append(out, Reservation{Pod: pod, Addr: h.Addr, For: h.Keep})
		}
	}
	slices.SortFunc(out, func(a, b Reservation) int { return a.Addr.Compare(b.Addr) })
	return out
}
