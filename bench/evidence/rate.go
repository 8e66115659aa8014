package evidence

import (
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// Lent has the limits that a VF's PF applies to the VF's frames.
type Lent struct {
	MaxTxRate uint32 `json:"maxTxRate"` // Mb/s; 0 is no limit
	VLAN      int    `json:"vlan"`      // of the tag that frames get on the wire; 0 is none
}

// OfVF reads the rate limit and the VLAN of the VF with that PCI address from its PF. It looks for
// the PF in the agent's network namespace, and in the host's, which is that of process 1. In a
// container both may fail, and OfVF returns an error.
func (r Reader) OfVF(pci string) (Lent, error) {
	pf, index := r.findParent(pci)
	if index == nil {
		return Lent{}, fmt.Errorf("%q is no VF", pci)
	}
	var admin vf.Admin
	ask := func() (err error) {
		admin, err = adminOf(pf, *index)
		return err
	}
	here := ask()
	if here == nil {
		return Lent{admin.MaxTxRate, int(admin.VLAN.ID)}, nil
	}
	if err := netns.Run(r.pathOf("proc/1/ns/net"), ask); err != nil {
		return Lent{}, fmt.Errorf("what VF %d of %s may send: %w", *index, pf, errors.Join(here, err))
	}
	return Lent{admin.MaxTxRate, int(admin.VLAN.ID)}, nil
}

// adminOf reads a VF's settings from a PF in this thread's network namespace.
func adminOf(pf string, index int) (_ vf.Admin, err error) {
	conn, err := rtnl.Dial()
	if err != nil {
		return vf.Admin{}, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	links, err := conn.Links()
	if err != nil {
		return vf.Admin{}, err
	}
	i := slices.IndexFunc(links, func(l rtnl.Link) bool { return l.Parent == pf })
	if i < 0 {
		return vf.Admin{}, fmt.Errorf("the PF %s has no interface in this network namespace, or Linux is older than 5.14 and does not tell which it is", pf)
	}
	link, err := conn.Link(links[i].Index, true)
	if err != nil {
		return vf.Admin{}, err
	}
	admin, ok := link.VFs[index]
	if !ok {
		return vf.Admin{}, fmt.Errorf("%s lists no VF %d", link.Name, index)
	}
	return admin, nil
}
