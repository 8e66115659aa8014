package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// warnBond returns a warning if a node cannot make a network's bond of the VFs of these PFs. It
// returns "" if it can, or if the network has no bond or the node no such PFs.
func warnBond(b *vf.Bond, node, resource string, pfs []vf.PF) string {
	if b == nil || len(pfs) == 0 {
		return ""
	}
	labels := make([]string, len(pfs))
	for i, pf := range pfs {
		labels[i] = pf.Label()
	}
	has := fmt.Sprintf("node %s has VFs of resource %s on %s", node, resource, strings.Join(labels, ", "))
	if !slices.ContainsFunc(pfs, b.PrefersPF) {
		return fmt.Sprintf("bond.primary %s: %s: the network's pods cannot start there", b.Primary, has)
	}
	if most := b.AntiAffinity.CountApart(pfs); b.AntiAffinity != vf.ApartNone && most < b.Links {
		return fmt.Sprintf("bond.links %d: %s, and a bond with antiAffinity %s can have %d of them: the network's pods cannot start there: add PFs to the pool, or choose another antiAffinity",
			b.Links, has, b.AntiAffinity, most)
	}
	return ""
}
