package journal

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// Grant is the right of the node to hand out addresses of a pool, under an ID that is used once.
// Without Runs the grant is open: the node may hand out all addresses that the cluster grants
// under the ID. Once the node has given addresses back, Runs has the addresses that it kept, and
// the grant never becomes open again.
type Grant struct {
	Network string
	ID      string
	Runs    []AddressRun
}

// AddressRun is a run of addresses of one family, both ends included.
type AddressRun struct{ First, Last netip.Addr }

// grantPrefix begins the keys of grants. They are in the bucket of addresses given out lately,
// and their values are the ends of their runs. An earlier version of culvertd would refuse a file
// with a bucket that it does not know. It can read this one, since no network has such a name.
const grantPrefix = "\x00grant\x00"

// grantsEnd is the first key after those of all grants.
var grantsEnd = []byte("\x00grant\x01")

func grantKey(network, id string) []byte {
	return append(append([]byte(grantPrefix), networkKey(network)...), id...)
}

// Grants returns the grants of a network; those of all networks when it is empty. It leaves out
// damaged grants, and the node then uses no block of them.
func (t *Tx) Grants(network string) []Grant {
	prefix := []byte(grantPrefix)
	if network != "" {
		prefix = grantKey(network, "")
	}
	all, _ := decodeGrants(t.entriesUnder(bucketLast, prefix), t.memos.last.decodeEntry)
	return all
}

// PutGrant writes a grant.
func (t *Tx) PutGrant(g Grant) error {
	if g.Network == "" || g.ID == "" || strings.Contains(g.Network+g.ID, "\x00") {
		return fmt.Errorf("ledger: grant %q of network %q: %w: want both names", g.ID, g.Network, vf.ErrInvalid)
	}
	ends := []netip.Addr{}
	for _, r := range g.Runs {
		ends = append(ends, r.First, r.Last)
	}
	return t.putJSON(bucketLast, grantKey(g.Network, g.ID), ends)
}

// DeleteGrant forgets a grant.
func (t *Tx) DeleteGrant(g Grant) error { return t.deleteEntry(bucketLast, grantKey(g.Network, g.ID)) }

// decodeGrants returns the grants among the entries of their bucket, by network and ID.
func decodeGrants(all entries, decode func(key, stored []byte) ([]netip.Addr, error)) (out []Grant, damaged []Problem) {
	for key, stored := range all {
		rest, is := strings.CutPrefix(string(key), grantPrefix)
		if !is {
			continue
		}
		network, id, named := strings.Cut(rest, "\x00")
		ends, err := decode(key, stored)
		g := Grant{Network: network, ID: id}
		for ends := range slices.Chunk(ends, 2) {
			if len(ends) != 2 || ends[0].Is4() != ends[1].Is4() || ends[1].Less(ends[0]) {
				named = false
				break
			}
			g.Runs = append(g.Runs, AddressRun{ends[0], ends[1]})
		}
		if err != nil || !named || id == "" {
			damaged = append(damaged, newDamage("the node gives out no address of it; it goes back to the cluster",
				fmt.Sprintf("grant %q of network %q", id, network), "its entry is damaged: %v", err))
			continue
		}
		out = append(out, g)
	}
	return out, damaged
}
