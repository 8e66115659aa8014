package journal

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/culvert-net/culvert/vf"
)

// Phase is where a VF is in its life. A record in any phase but Making and
// Free is a lease: the VF has an owner, or waits to be cleaned after one.
//
//	Making -> Free
//	Free -> Configuring -> Attached -> Releasing -> Free
//	     any of these          -> Quarantined -> Releasing -> Free
type Phase string

// The phases.
const (
	Making      Phase = "making"      // not yet as it should be: no baseline
	Free        Phase = "free"        // clean, read back, nobody's
	Configuring Phase = "configuring" // promised to an owner; the kernel is being changed for it
	Attached    Phase = "attached"    // the owner has it, read back
	Releasing   Phase = "releasing"   // being reset to its baseline
	Quarantined Phase = "quarantined" // could not be reset; Reason says why
)

// reserved is a phase that an older culvertd wrote before Configuring. It reads as
// Configuring: what a culvertd that died left in either is undone in one way.
const reserved Phase = "reserved"

// Damaged is the phase of a record that cannot be read, or not be trusted; only
// a repair writes it, for one that is lost. Reason says what is wrong. Somebody may have the
// VF, nobody knows who: it is not given out, not touched, and counts as held.
const Damaged Phase = "damaged"

func (p Phase) known() bool {
	switch p {
	case Making, Free, Configuring, Attached, Releasing, Quarantined:
		return true
	}
	return false
}

// Record is what the ledger knows of one VF that Culvert made or took over.
type Record struct {
	ID  vf.ID      `json:"id"`
	PCI vf.PCIAddr `json:"pci"` // where it was when last seen
	// Generation counts the leases of this VF. A detach carries the generation
	// it means, so a late one cannot hit the next owner (I8).
	Generation uint64      `json:"generation"`
	Phase      Phase       `json:"phase"`
	Baseline   vf.Baseline `json:"baseline"`
	// Since is when the phase began, Released when the last owner's lease ended:
	// zero for a VF that nobody has had.
	Since    time.Time `json:"since"`
	Released time.Time `json:"released,omitzero"`

	// The lease: zero when Phase is Free.
	Lease Lease `json:"lease,omitzero"`

	// Owed are the delegations of leases that ended without the DEL of their plugin.
	Owed []Delegation `json:"owed,omitempty"`

	// Quarantine: why, how often it was tried to reset since, and when next.
	Reason    string    `json:"reason,omitempty"`
	Attempts  int       `json:"attempts,omitempty"`
	NextRetry time.Time `json:"nextRetry,omitzero"`
}

// Lease is what an owner was promised.
type Lease struct {
	Owner vf.Owner `json:"owner"`
	// PodUID is the UID of the owner's pod in its cluster; empty where the runtime does
	// not say, and for other owners. Owner.UID is the sandbox's.
	PodUID  string `json:"podUID,omitempty"`
	Network string `json:"network,omitempty"`
	// AddressPool has the lease's addresses; empty stands for the pool of Network's name.
	AddressPool string  `json:"addressPool,omitempty"`
	Pool        string  `json:"pool,omitempty"`
	Netns       string  `json:"netns,omitempty"` // path, empty for vfio
	Wanted      vf.Spec `json:"wanted"`
	// Effective is what the kernel said when the attach was done, with the rates
	// that the hardware keeps to; it differs from Wanted where the driver rounds
	// (I6), and from what the kernel says where that reports what was asked.
	Effective vf.Admin `json:"effective,omitzero"`
	// LinkMAC is the address of the netdevice as the owner got it.
	LinkMAC vf.MAC `json:"linkMAC,omitzero"`
	MTU     int    `json:"mtu,omitempty"`
	// Lent is a rate that the VF has for a while in place of the one that is wanted.
	Lent *Lent `json:"lent,omitempty"`
	// Opened: the guest that has the VF was seen to run with it.
	Opened bool `json:"opened,omitempty"`
	// Request is the intake's own form of what was asked (a CNI
	// configuration), kept so that a repeated request can be compared.
	Request []byte `json:"request,omitempty"`
	// Delegation is set while the DEL of an IPAM plugin is to come.
	Delegation *Delegation `json:"delegation,omitempty"`
}

// AddressPoolName returns the name of the pool that the lease's addresses are held in.
func (l Lease) AddressPoolName() string { return cmp.Or(l.AddressPool, l.Network) }

// Lent is a max_tx_rate that an attached VF has until a moment.
type Lent struct {
	MaxTxRate uint32    `json:"maxTxRate"` // Mb/s, as the hardware keeps to it; 0: no limit
	Until     time.Time `json:"until"`
	// Over: it ends. The kernel may have it yet.
	Over bool `json:"over,omitempty"`
}

// Held reports whether somebody has, or has been promised, the VF; or may have
// it, since its record is damaged.
func (r Record) Held() bool {
	return r.Phase == Configuring || r.Phase == Attached || r.Phase == Releasing || r.Phase == Damaged
}

// Holder says for messages who has the VF.
func (r Record) Holder() string {
	switch {
	case r.Phase == Damaged:
		return "somebody unknown, since its record in the ledger is damaged"
	case r.Lease.Owner.IsZero():
		return "nobody"
	}
	return r.Lease.Owner.String()
}

// Address is one address held by one attachment (I4).
type Address struct {
	// Network names the pool that has the address, as Lease.AddressPoolName does.
	Network string     `json:"network"`
	Addr    netip.Addr `json:"addr"`
	VF      vf.ID      `json:"vf"`
	Owner   vf.Owner   `json:"owner"`
	Since   time.Time  `json:"since"`
	// Claim is the ID under which the cluster gave this very address to the
	// attachment; empty where it is of a block of the node's, or there is no
	// cluster.
	Claim string `json:"claim,omitempty"`
	// Local addresses are unique on this node only, since their network wants it
	// so (scope node).
	Local bool `json:"local,omitempty"`
	// Shared addresses may have several holders, each with its entry, since their network
	// wants it so.
	Shared bool `json:"shared,omitempty"`
	// Damage is why nobody knows who holds it: its entry cannot be read. VF and
	// Owner are zero then, and it stays held.
	Damage string `json:"-"`
}

// Event is one thing that happened, for people.
type Event struct {
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
	Type   string    `json:"type"`   // Normal or Warning, as in Kubernetes
	Reason string    `json:"reason"` // one CamelCase word, e.g. Attached
	Object string    `json:"object"` // what it is about: "VF 0000:01:10.2", "PF enp1s0f0", "pool a/b"
	Text   string    `json:"text"`
}

// Kinds of event.
const (
	Normal  = "Normal"
	Warning = "Warning"
)
