package attach

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Request is a request for a VF, by a CNI ADD (intake/cni, also for pods with claims) or by the
// start of a guest (intake/guest).
type Request struct {
	// Owner gets the VF. Its UID and Interface identify the attachment: Detach, Check and Collect
	// find it by these two alone.
	Owner   vf.Owner
	PodUID  string // of the owner's pod; empty where it is not known
	Network string

	// VF is the VF to give; if it is zero, alloc chooses a free VF of Pool.
	VF vf.PCIAddr
	// Pool is "prefix/name" or "name"; empty means the only pool there is.
	Pool string
	// Segment is the segment that the VF must be on; empty if it may be on any.
	Segment vf.Segment
	// Apart names another interface of the owner, on whose PF the VF must not be. It is empty if
	// the VF may be on any PF.
	Apart string

	// Bond requests a bond of several VFs; nil requests a VF of its own. VFs are the VFs that it is
	// made of, if the request names them: VF is the first of them.
	Bond *vf.Bond
	VFs  []vf.PCIAddr

	// Power is the power of the pod's containers; it is empty if that is unknown.
	Power vf.Power

	// Netns is the path of the pod's network namespace; it is empty for VFs that are passed
	// through by vfio. These include all VFs of guests, even those of a pool of netdevices.
	Netns string
	// Spec is the wanted state of the VF. Attach fills in Addresses and Routes from IPAM.
	Spec vf.Spec
	// LowersMTU: an interface whose MTU would be above the PF's gets the PF's, with a warning. Else
	// the request is refused.
	LowersMTU bool
	// IPAM is the configuration that the addresses come from; the zero value requests none.
	IPAM ipam.Config
	// AddressPool names the pool that IPAM's addresses come from; empty stands for
	// Network. It is the namespace/name of a NetworkAttachmentDefinition where there is
	// one: two tenants may give their networks one CNI name.
	AddressPool string
	// NetworkNamespace is the namespace of that definition, whose networks the owner of a shared
	// pool has to admit. It is empty for the network of a file on the node.
	NetworkNamespace string
	// KeepAddress is the time for which the addresses are kept for a pod of this name after this
	// one has ended. If it is set, the pod gets the addresses that were kept for its name.
	KeepAddress time.Duration
	// Addresses are the addresses that the pod requests by name; they must be among IPAM's.
	Addresses []netip.Prefix

	// LinkMAC is the MAC address that Check expects of the interface after later plugins of the
	// chain; nil stands for the lease's.
	LinkMAC *vf.MAC

	// Late runs another project's IPAM plugin, and returns a configuration with the plugin's
	// addresses, in place of IPAM. Attach calls it when the interface is in the netns and up.
	// Delegation, which the lease keeps, has all that the DEL of that plugin needs. Both are nil
	// if the addresses come from IPAM.
	Late       func(context.Context) (ipam.Config, error)
	Delegation *journal.Delegation

	// Report reports a warning about the attachment to the owner's cluster, as an event of the
	// pod: a reason in CamelCase, and a text. It may be nil.
	Report func(reason, text string)

	// Raw is the request as it came in, kept in the lease.
	Raw []byte

	// tenant describes the owner to the pool's allow, and missing is the result of MissingPools.
	// reserveVF sets both.
	tenant  desired.Tenant
	missing error
	// members are the VFs that the bond has so far, for the request of a later one, and ofPod
	// says that the kubelet must have given it to the pod.
	members []vf.ID
	ofPod   bool
	// passed has the VFs that reserveClean passes over, with the reasons.
	passed map[vf.ID]error
	// watch measures the attach. Attach and AttachBond set it.
	watch *hold.Stopwatch
}

// specOn returns the wanted state of a VF of a PF.
func (r Request) specOn(pf vf.PF) vf.Spec {
	if !r.LowersMTU {
		return r.Spec
	}
	s, _ := pf.LowerMTU(r.Spec)
	return s
}

// reportMTU reports that a VF has a lower MTU than the request asks for.
func (r Request) reportMTU(at lease.Site, rec journal.Record) {
	if r.Report == nil || r.Spec.MTU == nil || rec.Lease.MTU >= *r.Spec.MTU {
		return
	}
	r.Report("MTULowered", fmt.Sprintf("network %s: mtu %d is above that of PF %s, so %s has %d: raise the mtu of the PF, or lower that of the network",
		r.Network, *r.Spec.MTU, at.Label, r.Owner.Interface, rec.Lease.MTU))
}

// addressPool returns the name of the pool that the request's addresses come from.
func (r Request) addressPool() string { return cmp.Or(r.AddressPool, r.Network) }
