// Package api holds the values that go over the wire between Culvert's
// programs, with the field names that people's scripts read in -o json. No
// logic and no I/O: culvertd fills them in, the others show them.
package api

import (
	"time"

	"github.com/culvert-net/culvert/vf"
)

// NodeStatus is all that culvertd knows of its node: the answer to
// MethodStatus. A cluster's objects say less (ClusterStatus): what they do not tell
// is left out, and a number is -1.
type NodeStatus struct {
	Node    string    `json:"node"`
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
	// Ready says that attachments are served; Problems says why not, if not.
	Ready    bool      `json:"ready"`
	Problems []Problem `json:"problems"`
	PFs      []PF      `json:"pfs"`
	Pools    []Pool    `json:"pools"`
	VFs      []VF      `json:"vfs"`
	// Services is nil where no Service is served over a VF network.
	Services *ServiceBalancing `json:"services,omitempty"`
}

// Problem is one thing that is not as it should be.
type Problem struct {
	Object string    `json:"object"` // e.g. "PF enp1s0f0", "VF enp1s0f0#3", "pool culvert.dev/a"
	Reason string    `json:"reason"`
	Since  time.Time `json:"since,omitzero"`
	// Next is what mends it: what Culvert will do and when, or what to do.
	Next string `json:"next,omitempty"`
}

// LongestRetry is longer than a quarantined VF ever waits to be tried again. A
// NextRetry that is further away was set before the clock was set back, and the
// VF is tried again at once.
const LongestRetry = time.Hour

// Counts says how many VFs are in which state.
type Counts struct {
	Total       int `json:"total"`
	Used        int `json:"used"` // promised to, held by or being taken back from an owner
	Free        int `json:"free"`
	Quarantined int `json:"quarantined"`
	Making      int `json:"making"`    // not yet as they should be
	Unmanaged   int `json:"unmanaged"` // on the bus, but Culvert neither made them nor took them over
}

// PF is a Physical Function.
type PF struct {
	Name       string     `json:"name"` // netdevice, else PCI address
	ID         vf.PFID    `json:"id"`   // permanent MAC
	PCI        vf.PCIAddr `json:"pci"`
	Vendor     string     `json:"vendor"`
	Device     string     `json:"device"`
	Driver     string     `json:"driver"`
	NUMA       int        `json:"numa"`       // -1: unknown or none
	IOMMUGroup int        `json:"iommuGroup"` // -1: unknown or none
	Up         bool       `json:"up"`
	Carrier    bool       `json:"carrier"`
	SpeedMbps  int        `json:"speedMbps"` // 0: unknown or no link
	// CarrierLosses is how often the netdevice has lost its carrier since its driver made it.
	CarrierLosses uint32 `json:"carrierLosses,omitempty"`
	// Flapping is whether it did so often of late. The kubelet then gives no VF of it to a pod.
	Flapping bool `json:"flapping,omitempty"`
	// Faults are the kinds of the errors that the PF and its VFs had of late.
	Faults []vf.Fault `json:"faults,omitempty"`
	// Errors has the errors of the PF and its VFs since culvertd started.
	Errors    vf.ErrorCounts `json:"errors,omitzero"`
	MTU       int            `json:"mtu"`
	MaxMTU    int            `json:"maxMTU"` // 0: unknown
	Autoprobe vf.Tri         `json:"autoprobe,omitzero"`
	Abilities vf.Abilities   `json:"abilities"`
	// Rates says in words which send rates the PF takes for a VF, as things are;
	// empty when nothing is known of its driver.
	Rates string `json:"rates,omitempty"`
	RDMA  bool   `json:"rdma,omitempty"` // it has an RDMA device
	// Port is the netdevice that has the link of a PF that has none of its own.
	Port string `json:"port,omitempty"`
	// Master is the interface of the host of which the PF is a member, as a bond. FailOver says in
	// words what a VF of the PF does when that bond fails over.
	Master   *vf.Master `json:"master,omitempty"`
	FailOver string     `json:"failOver,omitempty"`
	// Segment is the name of the L2 segment that the PF is on; empty where it has no name.
	Segment vf.Segment `json:"segment,omitempty"`
	// TotalVFs is how many the device can have, WantedVFs how many host.yaml
	// asks for; nil leaves the PF alone.
	TotalVFs  int    `json:"totalVFs"`
	WantedVFs *int   `json:"wantedVFs,omitempty"`
	VFs       Counts `json:"vfs"`
	Error     string `json:"error,omitempty"` // what could not be read
}

// PhaseUnmanaged is the phase of a VF that is not in the ledger; the others are
// the ledger's: making, free, configuring, attached, releasing,
// quarantined. PhaseMissing stands in a cluster's objects for that of a VF which
// is not on the bus, PhaseGiven for free where the kubelet has given the VF to a
// pod, and no network has attached it: it is about to, or there is none (vfio).
const (
	PhaseUnmanaged = "unmanaged"
	PhaseMissing   = "missing"
	PhaseGiven     = "given"
)

// VF is a Virtual Function: what it is, who has it, and its settings as
// wanted, as read back from the kernel and as they were when it was clean.
type VF struct {
	Node  string     `json:"node,omitempty"` // in a picture of a cluster
	Name  string     `json:"name"`           // PF#index
	ID    vf.ID      `json:"id"`             // the same on every boot
	PF    string     `json:"pf"`
	Index int        `json:"index"`
	PCI   vf.PCIAddr `json:"pci"`
	// Netdevice is its name where it is now: in the owner's netns, or on the
	// host. Empty when it has none.
	Netdevice  string `json:"netdevice,omitempty"`
	Vendor     string `json:"vendor,omitempty"`
	Device     string `json:"device,omitempty"`
	Driver     string `json:"driver,omitempty"` // empty: none bound
	NUMA       int    `json:"numa"`
	IOMMUGroup int    `json:"iommuGroup"`
	RDMA       string `json:"rdma,omitempty"` // the RDMA device
	Pool       string `json:"pool,omitempty"`
	// Missing: the ledger has it, the bus has not.
	Missing bool `json:"missing,omitempty"`
	// Unread: the ledger has it, and culvertd cannot tell whether the bus has it, since it could not
	// read the PF. Phase and owner are the ledger's.
	Unread bool `json:"unread,omitempty"`

	Phase      string    `json:"phase"`
	Since      time.Time `json:"since,omitzero"` // of the phase
	Generation uint64    `json:"generation,omitempty"`
	// Reason, Attempts and NextRetry are about a quarantine.
	Reason    string    `json:"reason,omitempty"`
	Attempts  int       `json:"attempts,omitempty"`
	NextRetry time.Time `json:"nextRetry,omitzero"`

	Owner *vf.Owner `json:"owner,omitempty"`
	// OpenBy are the processes that have a VF open that was handed to user space.
	// A guest that has none of them does not run with it: it is reserved.
	OpenBy []vf.Process `json:"openBy,omitempty"`
	// UsedBy is the program that uses the VF without a lease, while the number of VFs of its PF is to
	// change: culvertd does not make the change then.
	UsedBy  string `json:"usedBy,omitempty"`
	Network string `json:"network,omitempty"`
	Netns   string `json:"netns,omitempty"`
	// Bond is the bond of which it is a member. The bond is the owner's interface; the VF is a
	// member of it by the name Netdevice.
	Bond      *vf.Bond `json:"bond,omitempty"`
	MAC       vf.MAC   `json:"mac,omitzero"` // of the netdevice where there is one
	Addresses []string `json:"addresses,omitempty"`

	// NoCarrier is whether its interface has been up without carrier for long, although its PF has a
	// link.
	NoCarrier bool `json:"noCarrier,omitempty"`

	Wanted   *vf.Spec     `json:"wanted,omitempty"`
	Guard    *Guard       `json:"guard,omitempty"`
	Lent     *Lent        `json:"lent,omitempty"`
	Rates    []Rate       `json:"rates,omitempty"`
	Settings vf.Admin     `json:"settings,omitzero"` // as read back from the PF, rates as the hardware keeps to them
	Link     *vf.Link     `json:"link,omitempty"`
	Baseline *vf.Baseline `json:"baseline,omitempty"`
	// Warnings says what of the owner's network was accepted and may not be meant.
	Warnings []string `json:"warnings,omitempty"`
	// Differences: of a VF that somebody has to what it was given, of any
	// other to its baseline. Empty when all is well.
	Differences []vf.Difference `json:"differences,omitempty"`
}

// Rate is a send rate of a VF in Mb/s, 0 for no limit: as its owner asked for it, as the driver
// accepted and reports it, and as the hardware keeps to it. Asked is nil if no owner asked.
type Rate struct {
	Setting   vf.Setting `json:"setting"`
	Asked     *uint32    `json:"asked,omitempty"`
	Accepted  uint32     `json:"accepted"`
	Effective uint32     `json:"effective"`
}

// Guard says what a guard pins of a VF that a pod has, and how far it holds.
type Guard struct {
	Mode   vf.GuardMode `json:"mode"`
	Degree vf.Degree    `json:"degree"`
	// Reason says why it does not hold whole; it is empty for an enforced one.
	Reason string `json:"reason,omitempty"`
}

// Lent is a max_tx_rate that a VF has for a measurement in place of its owner's.
type Lent struct {
	MaxTxRate uint32    `json:"maxTxRate"` // Mb/s, as the hardware keeps to it; 0: no limit
	Until     time.Time `json:"until"`     // at the latest
}

// Pool is a set of VFs that are given out under one name.
type Pool struct {
	Node       string   `json:"node,omitempty"` // in a picture of a cluster
	Name       string   `json:"name"`           // prefix/name
	DeviceType string   `json:"deviceType"`
	Unserved   string   `json:"unserved,omitempty"` // why none of its VFs is given out, though it is declared
	PFs        []string `json:"pfs"`
	VFs        Counts   `json:"vfs"`
	Members    []string `json:"members"` // names of VFs
}

// EventsRequest is the parameter of MethodEvents, which answers with a
// stream of Event, oldest first: those with a greater Seq than After.
type EventsRequest struct {
	After uint64 `json:"after"`
	// Follow goes on with those that come, until the caller hangs up.
	Follow bool `json:"follow,omitempty"`
}

// Event is one thing that happened.
type Event struct {
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
	Type   string    `json:"type"`   // Normal or Warning
	Reason string    `json:"reason"` // one CamelCase word
	Object string    `json:"object"`
	Text   string    `json:"text"`
}

// ServiceBalancing is how a node balances its pods' connections to Services over VF networks.
type ServiceBalancing struct {
	Mechanism string `json:"mechanism"`     // of TCP and UDP: eBPF, nftables or none
	Why       string `json:"why,omitempty"` // why not by a better one
	Services  int    `json:"services"`
	Backends  int    `json:"backends"`
	Pods      int    `json:"pods"` // of the node, with a VF that the kernel drives
	// NoRoom lists Services, as namespace/name, that the node does not balance since their namespaces
	// use more than their share of its rules and backends: the first 8 of a namespace, at most 64.
	NoRoom []string `json:"noRoom,omitempty"`
}
