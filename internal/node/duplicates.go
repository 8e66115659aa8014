package node

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
)

// AddressProblems returns a problem for each pool of which other machines on the segment had
// addresses that owners were to get.
func (n *Node) AddressProblems() (out []api.Problem) {
	all := n.Engine.Duplicates() // ordered by pool
	for len(all) > 0 {
		one, pool := 0, all[0].Pool
		var (
			addresses []netip.Addr
			until     time.Time
		)
		since := all[0].Found
		for ; one < len(all) && all[one].Pool == pool; one++ {
			d := all[one]
			addresses = append(addresses, d.Addr)
			if d.Found.Before(since) {
				since = d.Found
			}
			if d.Until.After(until) {
				until = d.Until
			}
		}
		out = append(out, api.Problem{
			Object: "network " + pool, Since: since,
			Reason: fmt.Sprintf("other machines on the segment had %s when %s was to get it (duplicate address detection)", excerpt.List(addresses, 0), all[one-1].Owner),
			Next: fmt.Sprintf("stop those machines, whose MAC addresses dmesg shows, or exclude the addresses from the network; culvertd chooses them no more before %s",
				until.UTC().Format("2006-01-02 15:04:05 UTC")),
		})
		all = all[one:]
	}
	return out
}

// AddressesAside returns the addresses that the node does not hand out for a while, since other
// machines had them.
func (n *Node) AddressesAside() (out []blocks.Held) {
	for _, d := range n.Engine.Duplicates() {
		if d.Chosen {
			out = append(out, blocks.Held{Network: d.Pool, Addr: d.Addr, Owner: d.Owner})
		}
	}
	return out
}
