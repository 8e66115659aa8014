// Package api holds the values that go over the wire between Culvert's
// programs, with the field names that people's scripts read in -o json. It has no logic and no I/O:
// culvertd fills the values in, and the other programs show them.
package api

import (
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// NodeStatus is the whole status of a node: the answer to MethodStatus. The cluster's objects, and
// so a ClusterStatus, have less: missing fields are left out, and missing numbers are -1.
type NodeStatus struct {
	Node    string    `json:"node"`
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
	// Ready is set if culvertd serves attachments. Otherwise, Problems has the reason.
	Ready    bool      `json:"ready"`
	Problems []Problem `json:"problems"`
	PFs      []PF      `json:"pfs"`
	Pools    []Pool    `json:"pools"`
	VFs      []VF      `json:"vfs"`
	// Trial is nil if no host.yaml is on trial.
	Trial *HostTrial `json:"trial,omitempty"`
	// Services is nil where no Service is served over a VF network.
	Services *ServiceBalancing `json:"services,omitempty"`
	// Ledger is nil where culvertd could not look at its file.
	Ledger *LedgerFile `json:"ledger,omitempty"`
	// Addresses are those that the node may give out of the cluster's AddressPools.
	Addresses []AddressUse `json:"addresses,omitempty"`
}

// LedgerFile is the file of the ledger.
type LedgerFile struct {
	Bytes    uint64 `json:"bytes"`
	Free     uint64 `json:"free"`     // bytes of its file system that root may still write
	Findings int    `json:"findings"` // entries that are damaged or contradict others
}

// AddressUse counts the addresses in the node's blocks of an AddressPool.
type AddressUse struct {
	Pool string `json:"pool"`
	Used int64  `json:"used"`
	Free int64  `json:"free"`
}

// Problem is a difference from the wanted state, or a failure.
type Problem struct {
	Object string    `json:"object"` // e.g. "PF enp1s0f0", "VF enp1s0f0#3", "pool culvert.dev/a"
	Reason string    `json:"reason"`
	Since  time.Time `json:"since,omitzero"`
	// Next is the next step: what Culvert will do and when, or what an administrator can do.
	Next string `json:"next,omitempty"`
}

// LongestRetry is longer than the time between two retries of a quarantined VF. If NextRetry is
// further away, it was set before the clock was set back, and culvertd retries at once.
const LongestRetry = time.Hour

// Counts has the number of VFs in each state.
type Counts struct {
	Total       int `json:"total"`
	Used        int `json:"used"` // promised to, held by or being taken back from an owner
	Free        int `json:"free"`
	Quarantined int `json:"quarantined"`
	Making      int `json:"making"`    // being prepared
	Unmanaged   int `json:"unmanaged"` // on the bus, but Culvert neither made them nor took them over
}

// PF is a Physical Function: the kernel's report, and what Culvert adds. The report has no addresses,
// no NumVFs and no VFs here: VFs counts them, and NodeStatus.VFs lists them. Name is the PCI address
// of a PF without a netdevice.
type PF struct {
	vf.PF
	// Errors has the errors of the PF and its VFs since culvertd started.
	Errors vf.ErrorCounts `json:"errors,omitzero"`
	// Rates describes the send rates that the PF accepts for a VF at present; empty if Culvert does
	// not know the driver.
	Rates string `json:"rates,omitempty"`
	// FailOver describes what a VF of the PF does when the bond of which the PF is a member fails
	// over.
	FailOver string `json:"failOver,omitempty"`
	// Segment is the name of the L2 segment that the PF is on; empty where it has no name.
	Segment vf.Segment `json:"segment,omitempty"`
	// Owner is the guest that has the PF as a whole; nil for none. Culvert makes no VFs of such a PF.
	Owner *vf.Owner `json:"owner,omitempty"`
	// WantedVFs is how many VFs host.yaml asks for; nil leaves the PF alone.
	WantedVFs *int   `json:"wantedVFs,omitempty"`
	VFs       Counts `json:"vfs"`
}

// PhaseUnmanaged is the phase of a VF that is not in the ledger; the others are
// the ledger's: making, free, prepared, configuring, attached, releasing,
// quarantined. In a cluster's objects, PhaseMissing is the phase of a VF that is not on the bus.
// PhaseGiven stands there for free if the kubelet has given the VF to a pod but no network has
// attached it. The network is about to, or the pod has none (vfio). PhaseOutside stands there for
// free if the VF is used outside Culvert.
const (
	PhaseUnmanaged = "unmanaged"
	PhaseMissing   = "missing"
	PhaseGiven     = "given"
	PhaseOutside   = "outside"
)

// Claim is the ResourceClaim that a VF was prepared for.
type Claim struct {
	Name    string    `json:"name"` // namespace/name
	UID     string    `json:"uid"`
	Request string    `json:"request"`        // of the claim
	Pods    []string  `json:"pods,omitempty"` // namespace/name of those that may have the VF
	Since   time.Time `json:"since,omitzero"` // when the VF was prepared
}

// VF is a Virtual Function: its identity, its owner, and its settings as wanted, as read back from
// the kernel and as they were when it was clean.
type VF struct {
	Node  string     `json:"node,omitempty"` // in a picture of a cluster
	Name  string     `json:"name"`           // PF#index
	ID    vf.ID      `json:"id"`             // the same on every boot
	PF    string     `json:"pf"`
	Index int        `json:"index"`
	PCI   vf.PCIAddr `json:"pci"`
	// Netdevice is the name of the VF's netdevice, in the owner's netns or on the host. It is empty
	// if the VF has none.
	Netdevice  string `json:"netdevice,omitempty"`
	Vendor     string `json:"vendor,omitempty"`
	Device     string `json:"device,omitempty"`
	Driver     string `json:"driver,omitempty"` // empty: none bound
	NUMA       int    `json:"numa"`
	IOMMUGroup int    `json:"iommuGroup"`
	RDMA       string `json:"rdma,omitempty"` // the RDMA device
	Pool       string `json:"pool,omitempty"`
	// Missing is set if the ledger has the VF and the bus does not.
	Missing bool `json:"missing,omitempty"`
	// Unread is set if the ledger has the VF, but culvertd could not read the PF and so cannot
	// decide whether the bus has the VF. Phase and owner are the ledger's.
	Unread bool `json:"unread,omitempty"`

	Phase      string    `json:"phase"`
	Since      time.Time `json:"since,omitzero"` // of the phase
	Generation uint64    `json:"generation,omitempty"`
	// Readback is the proof that the VF was clean for its owner, or is for the next one; nil: it is not on
	// record.
	Readback *vf.Readback `json:"readback,omitempty"`
	// Reason, Attempts and NextRetry are about a quarantine.
	Reason    string    `json:"reason,omitempty"`
	Attempts  int       `json:"attempts,omitempty"`
	NextRetry time.Time `json:"nextRetry,omitzero"`

	// Owner is the owner of the VF's lease, or the claim that has a VF without a lease.
	Owner *vf.Owner `json:"owner,omitempty"`
	// Claim is the ResourceClaim that has the VF; nil for none.
	Claim *Claim `json:"claim,omitempty"`
	// OpenBy are the processes that have a VF of user space open. If a guest's VF is open by none,
	// the guest does not run with it: the VF is reserved for the guest.
	OpenBy []vf.Process `json:"openBy,omitempty"`
	// MoreOpenBy is how many more such processes there are.
	MoreOpenBy int `json:"moreOpenBy,omitempty"`
	// UsedBy is who uses a VF outside Culvert that has no owner in the ledger. Culvert leaves the VF
	// as it is until that ends, and does not change the number of VFs of its PF.
	UsedBy  string `json:"usedBy,omitempty"`
	Network string `json:"network,omitempty"`
	Netns   string `json:"netns,omitempty"`
	// Bond is the bond of which the VF is a member. The bond is the owner's interface; the VF is a
	// member of it by the name Netdevice.
	Bond      *vf.Bond `json:"bond,omitempty"`
	MAC       vf.MAC   `json:"mac,omitzero"` // of the netdevice where there is one
	Addresses []string `json:"addresses,omitempty"`

	// Traffic are the counters of the VF's netdevice if the status could read it, else those that the
	// PF's driver has of the VF. It is nil if there are none, and in a picture of a cluster.
	Traffic *vf.Traffic `json:"traffic,omitempty"`

	// NoCarrier is whether the VF's interface has been up without carrier for long, although its PF
	// has a link.
	NoCarrier bool `json:"noCarrier,omitempty"`

	Wanted   *vf.Spec     `json:"wanted,omitempty"`
	Guard    *Guard       `json:"guard,omitempty"`
	Lent     *Lent        `json:"lent,omitempty"`
	Rates    []Rate       `json:"rates,omitempty"`
	Settings vf.Admin     `json:"settings,omitzero"` // as read back from the PF, rates as the hardware applies them
	Link     *vf.Link     `json:"link,omitempty"`
	Baseline *vf.Baseline `json:"baseline,omitempty"`
	// Warnings lists settings of the owner's network that Culvert accepted but that may be
	// mistakes.
	Warnings []string `json:"warnings,omitempty"`
	// Differences are the differences of a held VF from its lease, and of any other VF from its
	// baseline. There are none if all is well.
	Differences []vf.Difference `json:"differences,omitempty"`
	// MoreDifferences is how many more there are.
	MoreDifferences int `json:"moreDifferences,omitempty"`
}

// Rate is a send rate of a VF in Mb/s, 0 for no limit: as its owner asked for it, as the driver
// accepted and reports it, and as the hardware applies it. Asked is nil if no owner asked.
type Rate struct {
	Setting   vf.Setting `json:"setting"`
	Asked     *uint32    `json:"asked,omitempty"`
	Accepted  uint32     `json:"accepted"`
	Effective uint32     `json:"effective"`
}

// Guard is the guard of a VF that a pod has: its mode, and how far it holds.
type Guard struct {
	Mode vf.GuardMode `json:"mode"`
	// Allow are the kinds of frame that it lets pass.
	Allow  []vf.GuardKey `json:"allow,omitempty"`
	Degree vf.Degree     `json:"degree"`
	// Reason says why the guard does not hold fully; it is empty for an enforced one.
	Reason string `json:"reason,omitempty"`
}

// Name names the guard by its mode and keys.
func (g Guard) Name() string { return vf.GuardName(g.Mode, g.Allow) }

// Lent is a max_tx_rate that a VF has for a measurement in place of its owner's.
type Lent struct {
	MaxTxRate uint32    `json:"maxTxRate"` // Mb/s, as the hardware applies it; 0: no limit
	Until     time.Time `json:"until"`     // at the latest
}

// Pool is a set of VFs that are given out under one name.
type Pool struct {
	Node       string   `json:"node,omitempty"` // in a picture of a cluster
	Name       string   `json:"name"`           // prefix/name
	DeviceType string   `json:"deviceType"`
	Unserved   string   `json:"unserved,omitempty"` // why its VFs are not given out, though declared
	PFs        []string `json:"pfs"`
	Offer      string   `json:"offer,omitempty"` // resource or claims, as files have it; empty from a node that does not say
	VFs        Counts   `json:"vfs"`
	Members    []string `json:"members"` // names of VFs
	// Bounded: the pool has an allow, which bounds what owners may request. A picture of a cluster
	// does not have it.
	Bounded bool `json:"bounded,omitempty"`
}

// ServiceBalancing is how a node balances its pods' connections to Services over VF networks.
type ServiceBalancing struct {
	Mechanism string `json:"mechanism"`     // of TCP and UDP: eBPF, nftables or none
	Why       string `json:"why,omitempty"` // why the node does not use a better mechanism
	Services  int    `json:"services"`
	Backends  int    `json:"backends"`
	Pods      int    `json:"pods"` // of the node, with a VF that the kernel drives
	// NoRoom lists Services, as namespace/name, that the node does not balance since their namespaces
	// use more than their share of its rules and backends: the first 8 of a namespace, at most 64.
	NoRoom []string `json:"noRoom,omitempty"`
	// Before names eBPF programs of other projects that the kernel runs before Culvert's: they may refuse
	// connections to Services, or change their addresses.
	Before []string `json:"before,omitempty"`
}

// VFChange is a change of one VF between two looks of culvert vf watch.
type VFChange struct {
	Time time.Time `json:"time"`
	Op   string    `json:"op"` // Add, Remove or Modify
	Node string    `json:"node,omitempty"`
	VF   string    `json:"vf"` // PF#index
	// Changes are the attributes that are different now; of a VF that is new, those that it has.
	Changes []Change `json:"changes,omitempty"`
}

// Metrics are the metrics of a node in Prometheus's text format, without times.
type Metrics struct {
	Text string `json:"text"`
}
