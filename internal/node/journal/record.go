package journal

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// Record is the ledger's entry about one VF that Culvert made or took over.
type Record struct {
	ID  vf.ID      `json:"id"`
	PCI vf.PCIAddr `json:"pci"` // where the VF was last seen
	// Generation counts the leases of this VF. A detach carries the generation of its lease, so a
	// late detach cannot hit the next owner (I8).
	Generation uint64      `json:"generation"`
	Phase      vf.Phase    `json:"phase"`
	Baseline   vf.Baseline `json:"baseline"`
	// Since is when the phase began. Released is when the last owner's lease ended; it is zero
	// for a VF that has had no owner.
	Since    time.Time `json:"since"`
	Released time.Time `json:"released,omitzero"`

	// Readback is the proof that the VF was clean for its present owner, or is for the next one; nil if an
	// earlier version freed the VF, and for a new VF.
	Readback *vf.Readback `json:"readback,omitempty"`

	// Lease is zero when Phase is Free or Prepared.
	Lease Lease `json:"lease,omitzero"`

	// Claim is the ResourceClaim that has the VF, from Prepare to Unprepare; nil: none. The leases of the
	// claim's pod come and go meanwhile.
	Claim *Claim `json:"claim,omitempty"`

	// Owed are the delegations of leases that ended without the DEL of their plugin.
	Owed []Delegation `json:"owed,omitempty"`

	// Reason, Attempts and NextRetry describe a quarantine: its reason, the number of retries so
	// far, and the time of the next one.
	Reason    string    `json:"reason,omitempty"`
	Attempts  int       `json:"attempts,omitempty"`
	NextRetry time.Time `json:"nextRetry,omitzero"`
}

// ReadAgain returns the readback of a VF that no owner has had since the last one, and that was read now.
func (r Record) ReadAgain(now time.Time, attributes int) vf.Readback {
	out := vf.Readback{AfterOwner: !r.Released.IsZero()}
	switch {
	case r.Readback != nil:
		out = *r.Readback
	case out.AfterOwner:
		out.Unknown = "the ledger has no readback of its last reset"
	}
	out.Time, out.Attributes = now, attributes
	return out
}

// Claim is the part of a ResourceClaim that a VF was prepared for, as the API server had it then.
type Claim struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Request is the name of the request in the claim that the VF was allocated to: REQUEST, or
	// REQUEST/SUBREQUEST of a prioritised list.
	Request string `json:"request"`
	// PodClaim is the name of the claim in its pod if a ResourceClaimTemplate made it; empty for others.
	PodClaim string `json:"podClaim,omitempty"`
	// Pods are the pods for which the claim was reserved at Prepare. One of them has the VF at a time.
	Pods []ClaimPod `json:"pods"`
	// VFs is how many VFs of this node the claim has. Fewer records name the claim if a VF has gone.
	VFs int `json:"vfs"`
	// Pool is the full name of the pool of VFs (prefix/name).
	Pool string `json:"pool,omitempty"`
	// Config is the configuration of the VF in the claim or its DeviceClass (network/claim); nil: none.
	Config []byte `json:"config,omitempty"`
	// Since is when the VF was prepared.
	Since time.Time `json:"since"`
}

// ClaimPod is a pod of a ResourceClaim, which is in the claim's namespace.
type ClaimPod struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// Owner returns the claim as an owner, for messages and events. No lease has such an owner.
func (c Claim) Owner() vf.Owner {
	return vf.Owner{Kind: vf.OwnerClaim, UID: c.UID, Name: c.Namespace + "/" + c.Name}
}

// String returns "claim NAMESPACE/NAME".
func (c Claim) String() string { return c.Owner().String() }

// IsFor reports whether the claim was reserved for the pod with a UID.
func (c Claim) IsFor(podUID string) bool {
	return podUID != "" && slices.ContainsFunc(c.Pods, func(p ClaimPod) bool { return p.UID == podUID })
}

// Lease is the promise to an owner.
type Lease struct {
	Owner vf.Owner `json:"owner"`
	// PodUID is the UID of the owner's pod in its cluster; empty where the runtime does not report
	// it, and for other owners. Owner.UID is the sandbox's.
	PodUID  string `json:"podUID,omitempty"`
	Network string `json:"network,omitempty"`
	// AddressPool has the lease's addresses; empty stands for the pool of Network's name.
	AddressPool string `json:"addressPool,omitempty"`
	Pool        string `json:"pool,omitempty"`
	Netns       string `json:"netns,omitempty"` // path, empty for vfio
	// Bond is the bond of which the VF is a member; nil for a VF of its own. The leases of its
	// members have one owner with one interface, whose name is the bond's. The lease of one member
	// has the addresses.
	Bond *vf.Bond `json:"bond,omitempty"`
	// BondMark marks the bond's interface in the pod. No other bond ever has it.
	BondMark string  `json:"bondMark,omitempty"`
	Wanted   vf.Spec `json:"wanted"`
	// Power is the power of the containers of the owner's pod. It is empty if that is unknown, and
	// where the network has no guard.
	Power vf.Power `json:"power,omitempty"`
	// Effective is the kernel's state at the end of the attach, with the rates that the hardware
	// applies. It differs from Wanted if the driver rounds a rate (I6). It differs from the
	// kernel's report if the driver rounds and reports the requested rate.
	Effective vf.Admin `json:"effective,omitzero"`
	// LinkMAC is the address of the netdevice as the owner got it.
	LinkMAC vf.MAC `json:"linkMAC,omitzero"`
	MTU     int    `json:"mtu,omitempty"`
	// Lent is a rate that the VF temporarily has in place of the wanted one.
	Lent *Lent `json:"lent,omitempty"`
	// Withdrawn is set while the VF has no guard since it is about to be made anew.
	Withdrawn *Withdrawn `json:"withdrawn,omitempty"`
	// Opened is set once culvertd has seen the guest run with the VF.
	Opened bool `json:"opened,omitempty"`
	// Request is the request's CNI configuration, or of a large one what the DEL of an IPAM plugin
	// needs (config.Config.Kept). The first VF of a bond has it.
	Request []byte `json:"request,omitempty"`
	// Delegation is set until the DEL of the IPAM plugin has succeeded.
	Delegation *Delegation `json:"delegation,omitempty"`
}

// AddressPoolName returns the name of the pool that the lease's addresses are held in.
func (l Lease) AddressPoolName() string { return cmp.Or(l.AddressPool, l.Network) }

// Withdrawn says that the guard of an attached VF is withdrawn, and its interface down, or about to
// be. If the VF stays, culvertd sets the guard again, and the interface up if it was.
type Withdrawn struct {
	WasUp bool `json:"wasUp,omitempty"`
}

// Lent is a max_tx_rate that is lent to an attached VF until a given time.
type Lent struct {
	MaxTxRate uint32    `json:"maxTxRate"` // Mb/s, as the hardware applies it; 0: no limit
	Until     time.Time `json:"until"`
	// Over says that the loan has to end. The kernel may still have the lent rate.
	Over bool `json:"over,omitempty"`
}

// Held reports whether an owner or a claim has the VF or a reservation for it, or may have it because
// its record is damaged.
func (r Record) Held() bool {
	switch r.Phase {
	case vf.PhasePrepared, vf.PhaseConfiguring, vf.PhaseAttached, vf.PhaseReleasing, vf.PhaseDamaged:
		return true
	}
	return false
}

// IsIdle reports whether the VF is clean and has no lease: it is free, or prepared for a claim.
func (r Record) IsIdle() bool { return r.Phase == vf.PhaseFree || r.Phase == vf.PhasePrepared }

// IdlePhase returns the phase of the VF when it has no lease and is clean.
func (r Record) IdlePhase() vf.Phase {
	if r.Claim != nil {
		return vf.PhasePrepared
	}
	return vf.PhaseFree
}

// OwnerOrClaim returns the owner of the lease, or the claim that has a VF without a lease. It is zero
// if there is neither.
func (r Record) OwnerOrClaim() vf.Owner {
	if r.Lease.Owner.IsZero() && r.Claim != nil {
		return r.Claim.Owner()
	}
	return r.Lease.Owner
}

// IsAside reports whether the VF is in quarantine, also while culvertd retries the reset.
func (r Record) IsAside() bool { return r.Phase.IsAside(r.Attempts) }

// Holder names the owner of the VF in messages.
func (r Record) Holder() string {
	owner := r.OwnerOrClaim()
	switch {
	case r.Phase == vf.PhaseDamaged:
		return "an unknown owner, since its record in the ledger is damaged"
	case owner.IsZero():
		return "no owner"
	}
	return owner.String()
}

// Address is one address held by one attachment (I4).
type Address struct {
	// Network names the pool that has the address, as Lease.AddressPoolName does.
	Network string     `json:"network"`
	Addr    netip.Addr `json:"addr"`
	VF      vf.ID      `json:"vf"`
	Owner   vf.Owner   `json:"owner"`
	Since   time.Time  `json:"since"`
	// Claim is the ID under which the cluster granted this single address to the attachment. It
	// is empty if the address is of a block of the node, or if there is no cluster.
	Claim string `json:"claim,omitempty"`
	// Local is set for an address that must be unique only on this node, as its network wants it
	// (scope node).
	Local bool `json:"local,omitempty"`
	// Shared is set for an address that may have several holders, as its network wants it. Each
	// holder has an entry of its own.
	Shared bool `json:"shared,omitempty"`
	// Keep is the time for which the address is kept for a pod of the same name after its pod has
	// ended.
	Keep time.Duration `json:"keep,omitempty"`
	// Damage says why the holder is unknown: the entry cannot be read. VF and Owner are zero
	// then, and the address stays held.
	Damage string `json:"-"`
}
