package blocks

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Unconfirmed has the reservations that Confirm left out.
type Unconfirmed struct {
	Count int
	// Disputed describes those of pods for which the pool keeps another address.
	Disputed []string
}

// Confirm returns the demands without reservations for pods of other nodes. A node reports its own
// pods: isOn asks the cluster whether a pod is on a node. Otherwise a node could end the reservation
// of another node's pod, by a report that the pod has an address there
// (TestI10KeptAddressOfAnotherNodesPod). An address that the pool keeps for that pod already needs no
// confirmation, since the pod may have ended.
func Confirm(p Pool, demands []Demand, isOn func(pod, node string) bool) (confirmed []Demand, out Unconfirmed) {
	confirmed = slices.Clone(demands)
	kept := map[podFamily]netip.Addr{}
	for _, r := range p.Reservations {
		kept[podFamily{r.Pod, r.Addr.Is4()}] = r.Addr
	}
	for i := range confirmed {
		d := &confirmed[i]
		var own []Reservation
		for _, r := range d.Reservations {
			pod, _, _ := strings.Cut(r.Pod, " ")
			switch known, _ := p.reservation(r.Addr); {
			case !p.isOwn(*d, r.Addr): // Reserve leaves it out
			case known.Pod == r.Pod || isOn(pod, d.Node):
				own = append(own, r)
			default:
				out.Count++
				if other, is := kept[podFamily{r.Pod, r.Addr.Is4()}]; is {
					out.Disputed = append(out.Disputed, fmt.Sprintf("%s, which node %s reports for pod %s, is not kept: the pod is not on that node, and %s is kept for it", r.Addr, d.Node, r.Pod, other))
				}
			}
		}
		d.Reservations = own
	}
	return confirmed, out
}

// isOwn reports whether an address is in a block of a demand's node.
func (p Pool) isOwn(d Demand, a netip.Addr) bool {
	b, taken := p.at(a)
	return taken && d.owns(b)
}
