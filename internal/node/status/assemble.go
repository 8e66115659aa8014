// Package status makes one picture of a node for people and programs. The hardware as last listed,
// the ledger and host.yaml go in; an api.NodeStatus comes out, with the differences and the
// problems. It also makes an api.Plan of the changes that a host.yaml would make. culvertd calls it
// when it is asked for either. For the CLI it makes an api.ClusterStatus of a cluster's objects. It
// is pure.
package status

import (
	"cmp"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Input has the parts from which a status is assembled.
type Input struct {
	Node    string
	Version string
	Now     time.Time
	Ready   bool

	Spec      desired.Spec
	PFs       []vf.PF
	Records   []journal.Record
	Addresses []journal.Address
	// PFLeases are the PFs that guests have as a whole.
	PFLeases []journal.PFLease
	// Changed are the VFs whose records changed while the hardware was listed. PFs and Records show
	// such a VF at two moments, so their difference says nothing.
	Changed map[vf.ID]bool
	// Seen has the VFs that could be read in their owners' netns. For other VFs the picture has
	// what the PF holds, and not the state of the netdevice.
	Seen map[vf.ID]Seen
	// Dark are attached VFs whose interfaces have been up without carrier for long, although their PF
	// has a link.
	Dark map[vf.ID]bool
	// Users are the processes that have VFs open through vfio.
	Users map[vf.PCIAddr][]vf.Process
	// Uses are the uses of VFs without an owner.
	Uses map[vf.PCIAddr]vf.Use
	// Given are the VFs that the kubelet has given to pods, namespace/name.
	Given map[vf.PCIAddr]string
	// GivenUnknown says that the kubelet did not report which VFs it has given.
	GivenUnknown bool
	// Conditions are the problems that culvertd's parts report. Assemble leaves out a problem that
	// it derives about the same object, since the parts know more.
	Conditions []api.Problem
}

// Assemble makes the picture. Everything is ordered by PF and index; lists are
// never nil, so that JSON says [].
func Assemble(in Input) api.NodeStatus {
	p := picture{Input: in, records: map[vf.ID]journal.Record{}, addresses: map[vf.ID][]journal.Address{}}
	for _, r := range in.Records {
		p.records[r.ID] = r
	}
	for _, a := range in.Addresses {
		p.addresses[a.VF] = append(p.addresses[a.VF], a)
	}
	p.PFs = slices.SortedFunc(slices.Values(journal.IdentifyPFs(in.PFs, in.PFLeases)), func(a, b vf.PF) int {
		return cmp.Or(a.PCI.Compare(b.PCI), cmp.Compare(a.Label(), b.Label()))
	})
	out := api.NodeStatus{
		Node: in.Node, Version: in.Version, Time: in.Now, Ready: in.Ready,
		Problems: []api.Problem{}, PFs: []api.PF{}, VFs: []api.VF{}, Pools: []api.Pool{},
	}
	for _, pf := range p.PFs {
		vfs := p.vfsOf(pf)
		out.PFs = append(out.PFs, p.assemblePF(pf, vfs))
		out.VFs = append(out.VFs, vfs...)
	}
	out.VFs = append(out.VFs, p.findOrphans()...)
	for _, pool := range in.Spec.Pools {
		cut := cutPool(pool.FullName(), pool.DeviceType, out.VFs)
		cut.Unserved, cut.Bounded, cut.Offer = pool.Unserved, pool.Allow != nil, pool.Offer.String()
		out.Pools = append(out.Pools, cut)
	}
	out.Problems = append(out.Problems, p.findProblems(out)...)
	return out
}

// picture is an Input with its records and addresses by VF.
type picture struct {
	Input
	records   map[vf.ID]journal.Record
	addresses map[vf.ID][]journal.Address
}

func (p picture) assemblePF(pf vf.PF, vfs []api.VF) api.PF {
	out := pfOf(pf, vfs)
	if want, ok := p.Spec.ForPF(pf); ok {
		out.WantedVFs, out.Segment = &want.VFs, want.Segment
	}
	if l, leased := p.leaseOf(pf); leased {
		out.Owner = &l.Owner
	}
	return out
}

// leaseOf returns the lease of a PF that a guest has as a whole.
func (p picture) leaseOf(pf vf.PF) (journal.PFLease, bool) {
	i := slices.IndexFunc(p.PFLeases, func(l journal.PFLease) bool { return l.PCI == pf.PCI })
	if i < 0 {
		return journal.PFLease{}, false
	}
	return p.PFLeases[i], true
}

// pfOf returns the status of a PF that has the given VFs.
func pfOf(pf vf.PF, vfs []api.VF) api.PF {
	out := api.PF{PF: pf, Rates: pf.RateRange(), FailOver: pf.Master.FailOver(), VFs: countVFs(vfs)}
	out.Name = pf.Label()
	out.MAC, out.Addrs, out.OwnAddrs, out.NumVFs, out.PF.VFs = vf.MAC{}, nil, nil, 0, nil // the status does not show them
	return out
}

// cutPool returns a pool with those of the given VFs that are in it.
func cutPool(name, deviceType string, vfs []api.VF) api.Pool {
	out := api.Pool{Name: name, DeviceType: deviceType, PFs: []string{}, Members: []string{}}
	var members []api.VF
	for _, v := range vfs {
		if v.Pool != out.Name {
			continue
		}
		members = append(members, v)
		out.Members = append(out.Members, v.Name)
		if !slices.Contains(out.PFs, v.PF) {
			out.PFs = append(out.PFs, v.PF)
		}
	}
	out.VFs = countVFs(members)
	return out
}

// countVFs counts VFs by state. A VF that is used outside Culvert counts as used.
func countVFs(vfs []api.VF) api.Counts {
	var c api.Counts
	for _, v := range vfs {
		state, counts := StateOf(v)
		if !counts {
			continue
		}
		c.Total++
		switch state {
		case Free:
			c.Free++
		case Quarantined:
			c.Quarantined++
		case Making:
			c.Making++
		case Unmanaged:
			c.Unmanaged++
		default:
			c.Used++
		}
	}
	return c
}
