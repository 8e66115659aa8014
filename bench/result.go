package bench

import (
	"net/netip"
	"time"
)

// Schema names the form of a Result as JSON. It changes when a reader of the old
// form would take a figure for another one.
const Schema = "culvert.dev/bench/v1"

// Result is all that one invocation measured: what `culvert bench run` writes, and
// what compare and report read.
type Result struct {
	Schema  string    `json:"schema"`
	Culvert string    `json:"culvert"`          // version of the program that measured
	Preset  string    `json:"preset,omitempty"` // "m4", say, or several: "m3 m4"
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Seed orders the runs: with the same one they are made in the same order.
	Seed uint64 `json:"seed"`
	// Unfinished says why runs are missing that were planned. Empty, none is.
	Unfinished string    `json:"unfinished,omitempty"`
	Machines   []Machine `json:"machines"`
	Arms       []Arm     `json:"arms"`
	Runs       []Run     `json:"runs"` // in the order in which they were made
	// Notes are for people: what a preset lacked here and what was done instead,
	// what in the fingerprints stands out.
	Notes   []string `json:"notes,omitempty"`
	Printed []Figure `json:"printed,omitempty"` // the report's, beside which these stand
}

// Arm is what is repeated, and compared with other arms: one workload over one path, or
// over several at once.
type Arm struct {
	Name string `json:"name"` // "VF", "overlay", "VF 64 B"; unlike those of all other arms
	Path Path   `json:"path"`
	// Also are more paths that carry the workload while Path does, each of them all of it. The
	// arm's figures and ceilings are the totals, and what each path carried is in Run.Shares.
	Also     []Path   `json:"also,omitempty"`
	Workload Workload `json:"workload"`
	// CeilingGbps is what the wires can carry of this workload's payload, in 1e9 bits
	// a second, and CeilingPPS of its frames; 0 where their speed is not known.
	CeilingGbps float64 `json:"ceilingGbps,omitempty"`
	CeilingPPS  float64 `json:"ceilingPPS,omitempty"`
	Bounds              // of Path
	// AlsoBounds are those of the paths of Also.
	AlsoBounds []Bounds `json:"alsoBounds,omitempty"`
}

// Bounds are what no path can be above, beside its wires.
type Bounds struct {
	// GeneratorGbps and GeneratorPPS are what the engine makes of this workload on the
	// machine that sends, over its loopback interface: payload in 1e9 bits a second of a
	// stream, datagrams or frames sent a second of others. 0 is not known.
	GeneratorGbps float64 `json:"generatorGbps,omitempty"`
	GeneratorPPS  float64 `json:"generatorPPS,omitempty"`
	// RTT is the shortest round trip over the path while nothing else was sent, in
	// microseconds; measured where the workload has a window.
	RTT float64 `json:"rtt,omitempty"`
	// RateMbps is max_tx_rate of the VF that sends, 1e6 bits a second; 0: it has none,
	// or nobody could tell.
	RateMbps int `json:"rateMbps,omitempty"`
}

// Path is a way from one end to another.
type Path struct {
	Ends    string `json:"ends"`    // "pod-pod", "pod-node", "node-node", "VM-VM"
	Network string `json:"network"` // "VF", "overlay", "host", "bond", "service", "veth", "virtio"
	Place   string `json:"place"`   // "same PF", "other PF", "same node", "other node"
	From    End    `json:"from"`
	To      End    `json:"to"`
	// Service is the address of a Kubernetes Service that traffic is sent to and To
	// answers for.
	Service netip.Addr `json:"service,omitzero"`
	// Via is the machine between the ends, where the path is measured through one.
	Via Relay `json:"via,omitzero"`
}

// Relay is a machine, or a network namespace of it, that hands on what it gets: its kernel forwards.
type Relay struct {
	Machine string  `json:"machine"` // as in Result.Machines
	Name    string  `json:"name"`    // as an End's
	How     Forward `json:"how"`
	// In and Out are its interfaces on the sides of From and To, where its addresses tell: a bridge's
	// ports have none.
	In  string `json:"in,omitempty"`
	Out string `json:"out,omitempty"`
}

// Forward is how a kernel hands frames on.
type Forward string

// The ways to forward.
const (
	Routes  Forward = "routes"  // by the address of the network layer
	Bridges Forward = "bridges" // by that of the link layer
)

// ServicePorts are those that a Service for a measurement has, over TCP and UDP, and
// an engine behind it may listen on.
var ServicePorts = []uint16{5201, 5202, 5203, 5204, 5205, 5206, 5207, 5208}

// End is where traffic starts or stops: one interface in one network namespace of
// a machine, or in a virtual machine that runs on it.
type End struct {
	Machine   string     `json:"machine"`
	Name      string     `json:"name"` // "default/iperf3-client", "host", a guest's
	Interface string     `json:"interface"`
	Address   netip.Addr `json:"address"`
	MTU       int        `json:"mtu,omitempty"` // bytes
	Driver    string     `json:"driver,omitempty"`
	// PF and VF are set where the interface is a VF: the PF's name on its machine and
	// the VF's index; Uplink is what carries other interfaces' frames: a PF or NIC, or a
	// bond's members or what a tunnel was made upon, with a "+" between them.
	PF     string `json:"pf,omitempty"`
	VF     *int   `json:"vf,omitempty"`
	Uplink string `json:"uplink,omitempty"`
}

// Kind is what a workload does.
type Kind string

// The kinds of workload.
const (
	Stream   Kind = "stream"   // TCP, as much as goes through
	Datagram Kind = "datagram" // UDP, as much as goes through or at a rate
	Request  Kind = "request"  // one question at a time and its answer: latency
	Packets  Kind = "packets"  // frames as many as go through, counted where they arrive
	Echo     Kind = "echo"     // ICMP echo, as ping does
)

// Workload is what is sent. Zero values mean what the engine does of itself.
type Workload struct {
	Kind    Kind   `json:"kind"`
	Engine  string `json:"engine"` // a name of package engine's list: "culvert", "iperf3"
	Version string `json:"version,omitempty"`
	// Seconds are counted, after Warmup seconds that are not.
	Seconds float64 `json:"seconds"`
	Warmup  float64 `json:"warmup,omitempty"`
	Streams int     `json:"streams,omitempty"`
	// Size is the bytes of one write, datagram or question; for packets of the frame,
	// without its checksum, as pktgen has it.
	Size   int     `json:"size,omitempty"`
	Window int     `json:"window,omitempty"` // SO_SNDBUF and SO_RCVBUF, bytes
	Rate   float64 `json:"rate,omitempty"`   // wanted: bits a second of datagrams, questions a second, frames a second
	// Flows, Sources and MACs are how many of them the packets are spread over.
	Flows   int `json:"flows,omitempty"`
	Sources int `json:"sources,omitempty"`
	MACs    int `json:"macs,omitempty"`
	// Burst is how many frames are given to the kernel as one UDP packet, which it cuts before
	// they reach the driver (UDP_SEGMENT's way, Linux 4.18 and up); 0 and 1: each alone.
	Burst int `json:"burst,omitempty"`
	// AFXDP has packets sent by AF_XDP sockets in copy mode, in place of a packet socket's ring.
	AFXDP bool `json:"afXdp,omitempty"`
	// RateLimit is the max_tx_rate that the VF which sends has for the run, Mb/s.
	RateLimit int  `json:"rateLimit,omitempty"`
	Reverse   bool `json:"reverse,omitempty"` // the other end sends
	Pulled    bool `json:"pulled,omitempty"`  // the cable is, for a fifth of each run
	UDP       bool `json:"udp,omitempty"`     // questions and answers are datagrams, not on TCP
	Senders   int  `json:"senders,omitempty"` // how many paths carry it at once, when more than one
}

// Run is one repeat of an arm. A void one counts for nothing and says why.
type Run struct {
	Arm     int       `json:"arm"` // index in Result.Arms
	Started time.Time `json:"started"`
	Discard bool      `json:"discard,omitempty"` // made to warm up
	Void    string    `json:"void,omitempty"`
	// Seconds is how long was counted, by the clock of the end that receives.
	Seconds     float64 `json:"seconds"`
	Bytes       uint64  `json:"bytes"`             // of payload that arrived
	Packets     uint64  `json:"packets,omitempty"` // that arrived
	Sent        uint64  `json:"sent,omitempty"`    // packets or questions that were sent
	Lost        uint64  `json:"lost,omitempty"`
	Gbps        float64 `json:"gbps,omitempty"` // 1e9 bits of payload a second, as it arrived
	PPS         float64 `json:"pps,omitempty"`  // packets a second, as they arrived
	Retransmits *uint64 `json:"retransmits,omitempty"`
	Delays      *Delays `json:"delays,omitempty"`
	// Series are the Gb/s, or packets a second, of each tenth of the run or each
	// second, whichever is longer.
	Series []float64 `json:"series,omitempty"`
	From   Evidence  `json:"from"` // all 0 where there are shares, which have their own
	To     Evidence  `json:"to"`
	// Via is what was seen of the machine in the middle, where the path has one.
	Via *Evidence `json:"via,omitempty"`
	// Shares are what each path of an arm with several carried: Path, and then those of Also. The
	// run's own figures are their totals.
	Shares []Share `json:"shares,omitempty"`
	// Limits are what held the figure down, the strongest first.
	Limits []Limit `json:"limits,omitempty"`
}

// Share is what one of several paths carried of a run. Its keys are as those of a run.
type Share struct {
	Seconds     float64   `json:"seconds"`
	Bytes       uint64    `json:"bytes"`
	Packets     uint64    `json:"packets,omitempty"`
	Sent        uint64    `json:"sent,omitempty"`
	Lost        uint64    `json:"lost,omitempty"`
	Gbps        float64   `json:"gbps,omitempty"`
	PPS         float64   `json:"pps,omitempty"`
	Retransmits *uint64   `json:"retransmits,omitempty"`
	Series      []float64 `json:"series,omitempty"`
	From        Evidence  `json:"from"`
	To          Evidence  `json:"to"`
	Via         *Evidence `json:"via,omitempty"`
}

// Delays are the percentiles of round trips, in microseconds, from the moment at
// which each was due (coordinated omission is in them).
type Delays struct {
	Count uint64  `json:"count"`
	Min   float64 `json:"min"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
	// Histogram is HdrHistogram's compressed form (V2, base64), for whoever wants
	// other percentiles.
	Histogram string `json:"histogram,omitempty"`
}

// Evidence is what one end's machine did in the window that was counted.
type Evidence struct {
	CPU CPUUse `json:"cpu"`
	// Guest is what the kernel of a virtual machine saw of its own processors. CPU is of the machine
	// that it runs on, with QEMU's and vhost's threads.
	Guest *CPUUse `json:"guest,omitempty"`
	// Interfaces are the end's own and those that the path must not use, with what
	// their counters rose by.
	Interfaces []Counters `json:"interfaces,omitempty"`
	Softnet    Softnet    `json:"softnet"`
	Queues     []uint64   `json:"queues,omitempty"` // packets that each receive queue took, where the driver tells
}

// CPUUse is seconds of processors, of a whole machine, from /proc/stat (proc_stat(5)).
type CPUUse struct {
	Seconds float64 `json:"seconds"` // the window
	User    float64 `json:"user"`    // with nice; guests' time is in it
	System  float64 `json:"system"`
	IRQ     float64 `json:"irq"`
	SoftIRQ float64 `json:"softirq"`
	Steal   float64 `json:"steal"`
	Idle    float64 `json:"idle"` // with waiting for I/O
	// Busiest is the part of the window in which the busiest processor did not idle,
	// 0 to 1, and Busy that part for each processor.
	Busiest float64   `json:"busiest"`
	Busy    []float64 `json:"busy,omitempty"`
	// Tasks are seconds by the names of processes and kernel threads that took part:
	// the engine, vhost, ksoftirqd, QEMU.
	Tasks map[string]float64 `json:"tasks,omitempty"`
}

// Total is the seconds in which processors worked, steal not among them.
func (c CPUUse) Total() float64 { return c.User + c.System + c.IRQ + c.SoftIRQ }

// Counters are by how much an interface's counters rose (struct rtnl_link_stats64).
type Counters struct {
	Interface string `json:"interface"`
	// Role is "path" for one that must carry the bytes, "other" for one that must not.
	Role      string `json:"role"`
	RxBytes   uint64 `json:"rxBytes"`
	TxBytes   uint64 `json:"txBytes"`
	RxPackets uint64 `json:"rxPackets"`
	TxPackets uint64 `json:"txPackets"`
	RxDropped uint64 `json:"rxDropped"` // with missed, FIFO and other errors
	TxDropped uint64 `json:"txDropped"`
	Downs     uint64 `json:"downs,omitempty"` // how often the carrier of one on the path was lost
}

// Softnet is by how much the sums over all processors of /proc/net/softnet_stat rose.
type Softnet struct {
	Processed uint64 `json:"processed"`
	Dropped   uint64 `json:"dropped"`  // the backlog was full
	Squeezed  uint64 `json:"squeezed"` // netdev_budget ran out
}

// Limit is something that held a figure down, with the evidence for it.
type Limit struct {
	// What is one of "generator", "wire", "core", "steal", "ring", "softnet",
	// "window", "rate limit" and "unknown".
	What     string `json:"what"`
	Where    string `json:"where"` // a machine, an interface
	Evidence string `json:"evidence"`
}

// RetransmitsUnit is the unit of figures that count retransmits of a run. They stand beside that
// count, and others beside what their arm is about.
const RetransmitsUnit = "retransmits"

// Figure is one that a report printed.
type Figure struct {
	Name  string  `json:"name"`          // "R0 VF"
	Arm   string  `json:"arm,omitempty"` // of this result, that stands beside it
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Text  string  `json:"text,omitempty"` // where it is no number: "drops badly"
}

// Machine is the fingerprint of one: what results depend on. Two results are alike
// when these are.
type Machine struct {
	Name       string      `json:"name"` // of a virtual machine that of its host before it: "n1/db1"
	Kernel     string      `json:"kernel"`
	CPU        string      `json:"cpu"` // the model
	CPUs       int         `json:"cpus"`
	NUMANodes  int         `json:"numaNodes"`
	NUMACPUs   []string    `json:"numaCPUs,omitempty"` // of each node, a list as cpulist has it: "0-7"; on machines with several
	MemoryMiB  int         `json:"memoryMiB"`
	Governor   string      `json:"governor,omitempty"`
	Hypervisor string      `json:"hypervisor,omitempty"` // "kvm", "tcg"; empty on metal
	Mitigated  []string    `json:"mitigated,omitempty"`  // /sys/devices/system/cpu/vulnerabilities
	Sysctls    []Setting   `json:"sysctls,omitempty"`
	Interfaces []Interface `json:"interfaces"`
	Tools      []Setting   `json:"tools,omitempty"` // "iperf3": "3.18"
}

// Setting is a name with a value.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Interface is the part of a fingerprint about one interface.
type Interface struct {
	Name      string    `json:"name"`
	Driver    string    `json:"driver,omitempty"`
	Firmware  string    `json:"firmware,omitempty"`
	PCI       string    `json:"pci,omitempty"`
	MTU       int       `json:"mtu"`
	SpeedMbps int       `json:"speedMbps,omitempty"` // 1e6 bits a second
	RxQueues  int       `json:"rxQueues"`
	TxQueues  int       `json:"txQueues"`
	RxRing    int       `json:"rxRing,omitempty"`
	TxRing    int       `json:"txRing,omitempty"`
	NUMA      int       `json:"numa"`           // -1: none
	IRQs      []IRQ     `json:"irqs,omitempty"` // its own
	Offloads  []Setting `json:"offloads,omitempty"`
}

// IRQ is one interrupt and the processors that it may come to.
type IRQ struct {
	Number int    `json:"number"`
	CPUs   string `json:"cpus"` // a list as in smp_affinity_list: "0-3,7"
	// Comes are those of them that it does come to, mostly one, where the kernel tells
	// (effective_affinity_list).
	Comes string `json:"comes,omitempty"`
}
