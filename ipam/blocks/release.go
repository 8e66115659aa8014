package blocks

import (
	"slices"
	"time"
)

// Grace is how long a Node object has to be gone before the blocks of the node
// are taken back. It is longer than a node's view of the pools is ever old.
const Grace = 5 * time.Minute

// Release takes back what its node does not have any more, or says since when
// it is gone. claims and gone are asked about nodes after the pool was read, and
// must not answer from a cache.
//
// claims returns the IDs of a node's claims in the pool's network; known is
// false when the node tells nothing (its NodeState is not there), and then its
// claims stay. gone reports whether there is no Node object of that name.
func Release(p Pool, now time.Time, claims func(node string) (ids []string, known bool, err error), gone func(node string) (bool, error)) (Pool, error) {
	out := Pool{Network: p.Network}
	for _, b := range p.Blocks {
		absent, err := gone(b.Node)
		if err != nil {
			return p, err
		}
		switch {
		case !absent:
			b.GoneSince = time.Time{}
		case b.GoneSince.IsZero() || b.GoneSince.After(now): // the clock was set back
			b.GoneSince = now
		case now.Sub(b.GoneSince) >= Grace:
			continue
		}
		if b.Claim != "" && !absent {
			ids, known, err := claims(b.Node)
			if err != nil {
				return p, err
			}
			if known && !slices.Contains(ids, b.Claim) {
				continue
			}
		}
		out.Blocks = append(out.Blocks, b)
	}
	out.sort()
	out.join()
	return out, nil
}
