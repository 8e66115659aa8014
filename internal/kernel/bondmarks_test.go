package kernel

import (
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// manyLinks are the links of a netns, in the order of the kernel.
type manyLinks struct {
	reader

	links []rtnl.Link
}

func (m manyLinks) FindLinks(match func(rtnl.Link) bool) (out []rtnl.Link, _ error) {
	for _, l := range m.links {
		if match(l) {
			out = append(out, l)
		}
	}
	return out, nil
}

func (m manyLinks) Link(index int, _ bool) (rtnl.Link, error) { return m.links[index-1], nil }

// TestI7ManyBondsWithOneMark: DelBond removes the lease's bond, and few of the thousands that a pod has
// made with the same mark. It finds the bond by its member even if the pod has changed the mark.
func TestI7ManyBondsWithOneMark(t *testing.T) {
	s := step.DelBond{VF: vf.PCIAddr{Bus: 1, Device: 0x10}, Name: "net1", Mark: "c1/1"}
	for name, changed := range map[string]bool{"its mark": false, "its mark is gone": true} {
		own := rtnl.Link{Index: 1, Name: "net1", Bond: &rtnl.Bond{}, Alias: bondMark + s.Mark}
		if changed {
			own.Alias = ""
		}
		m := manyLinks{links: []rtnl.Link{own, {Index: 2, Name: "net1a", Parent: s.VF.String(), Master: 1}}}
		for i := range 5000 {
			m.links = append(m.links, rtnl.Link{Index: 3 + i, Bond: &rtnl.Bond{}, Alias: bondMark + s.Mark})
		}
		found, err := findBonds(m, s)
		hasOwn := false
		for _, l := range found {
			hasOwn = hasOwn || l.Index == 1
		}
		if err != nil || !hasOwn || len(found) > mostMarked+1 {
			t.Errorf("%s: %d bonds, the lease's own %t, %v", name, len(found), hasOwn, err)
		}
	}
}
