package attach

import (
	"cmp"
	"context"
	"net/netip"

	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/ipam"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// Request is what any way in (CNI, device plugin, DRA, VM) asks for.
type Request struct {
	// Owner gets the VF. UID and Interface name the attachment: Detach, Check
	// and Collect find it by them alone.
	Owner   vf.Owner
	PodUID  string // of the owner's pod; empty where it is not known
	Network string

	// VF is the one to use; zero lets alloc choose a free one of Pool.
	VF vf.PCIAddr
	// Pool is "prefix/name" or "name"; empty means the only pool there is.
	Pool string
	// Apart names another interface of the owner's, on whose PF the VF must not be;
	// empty when any PF will do.
	Apart string

	// Netns is the path of the pod's network namespace; empty for VFs that are
	// handed to vfio only, as all VFs of guests are, whatever their pool says.
	Netns string
	// Spec is what the VF must look like there. Addresses and Routes are
	// filled in from IPAM.
	Spec vf.Spec
	// IPAM says where addresses come from; the zero value asks for none.
	IPAM ipam.Config
	// AddressPool names the pool that IPAM's addresses come from; empty stands for
	// Network. It is the namespace/name of a NetworkAttachmentDefinition where there is
	// one: two tenants may give their networks one CNI name.
	AddressPool string
	// Addresses are asked for by name and must be among IPAM's.
	Addresses []netip.Prefix

	// LinkMAC is the MAC address that the interface has by now, for Check; nil stands for
	// the lease's.
	LinkMAC *vf.MAC

	// Late returns where the addresses come from, in place of IPAM, once the interface is in
	// the netns and up: another project's plugin gives them. Delegation is what the DEL of
	// that plugin needs, kept in the lease. Nil where IPAM has them.
	Late       func(context.Context) (ipam.Config, error)
	Delegation *journal.Delegation

	// Raw is the request as it came in, kept in the lease.
	Raw []byte

	// tenant is the owner as the pool's allow sees it, missing is what MissingPools returned;
	// reserve fills both in.
	tenant  desired.Tenant
	missing error
}

// addressPool returns the name of the pool that the request's addresses come from.
func (r Request) addressPool() string { return cmp.Or(r.AddressPool, r.Network) }
