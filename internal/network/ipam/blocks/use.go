package blocks

import (
	"cmp"
	"slices"
)

// Use counts the addresses in the node's blocks of a pool.
type Use struct {
	Name       string // of the AddressPool
	Used, Free int64
}

// CountUse counts the addresses that the node may hand out, and those of them that attachments hold,
// by pool. An address that an attachment has claimed by name counts as used.
func (b *NodeBlocks) CountUse(grants []Kept, held []Held) (out []Use) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for network := range b.own {
		mine := b.handsOut(network, GrantsOf(grants, network))
		used := Total(common(mine, heldRuns(network, true, held)))
		u := Use{Name: b.pools[network].Name, Used: used, Free: Total(mine) - used}
		for _, block := range b.own[network] {
			if block.Claim != "" && block.GoneSince.IsZero() {
				u.Used += Count(block.Run)
			}
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(x, y Use) int { return cmp.Compare(x.Name, y.Name) })
	return out
}
