package bench

import (
	"net/netip"
	"time"
)

// Schema names the form of a Result as JSON. It changes when a reader of the old
// form would misread a figure.
const Schema = "culvert.dev/bench/v1"

// Result holds all measurements of one invocation of `culvert bench run`, which writes it.
// report and compare read it.
type Result struct {
	Schema  string    `json:"schema"`
	Culvert string    `json:"culvert"`          // version of the program that measured
	Preset  string    `json:"preset,omitempty"` // such as "m4", or several: "m3 m4"
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Seed orders the runs: the same seed gives the same order.
	Seed uint64 `json:"seed"`
	// Unfinished is the reason why planned runs are missing; empty when none is.
	Unfinished string    `json:"unfinished,omitempty"`
	Machines   []Machine `json:"machines"`
	Arms       []Arm     `json:"arms"`
	Runs       []Run     `json:"runs"` // in the order of their start
	// Notes are for the reader of the report: parts of a preset that this machine
	// lacks and their replacements, and remarkable values of the fingerprints.
	Notes   []string `json:"notes,omitempty"`
	Sides   []Side   `json:"sides,omitempty"`   // A and B, of an A/B measurement
	Printed []Figure `json:"printed,omitempty"` // figures of a printed report, to compare these runs with
}

// Arm is one workload over one path, or over several at once. A measurement repeats each
// arm and compares it with the others.
type Arm struct {
	Name string `json:"name"`           // such as "VF", "overlay" or "VF 64 B"; unique
	Side string `json:"side,omitempty"` // "A" or "B", in an A/B measurement
	Path Path   `json:"path"`
	// Also are more paths. Each carries the whole workload at the same time as the first
	// path. The arm's figures and ceilings are totals; Run.Shares has those of each path.
	Also     []Path   `json:"also,omitempty"`
	Workload Workload `json:"workload"`
	// CeilingGbps is the most payload of this workload that the wires can carry, in 1e9
	// bits a second; 0 where their speed is not known.
	CeilingGbps float64 `json:"ceilingGbps,omitempty"`
	// CeilingPPS is the most frames of this workload that the wires can carry in a second.
	CeilingPPS float64 `json:"ceilingPPS,omitempty"`
	Bounds             // of Path
	// AlsoBounds are the bounds of the further paths.
	AlsoBounds []Bounds `json:"alsoBounds,omitempty"`
}

// Bounds are limits of a path besides its wires: no figure can be higher.
type Bounds struct {
	// GeneratorGbps is the payload that the engine sends of this workload on the sending
	// machine, over its loopback interface, in 1e9 bits a second. 0: not known.
	GeneratorGbps float64 `json:"generatorGbps,omitempty"`
	// GeneratorPPS is the same for workloads other than streams, in datagrams or frames a
	// second.
	GeneratorPPS float64 `json:"generatorPPS,omitempty"`
	// RTT is the shortest round trip over the idle path, in microseconds. It is measured
	// where the workload has a window.
	RTT float64 `json:"rtt,omitempty"`
	// VLANs is the number of tags of 4 bytes that the wire adds to the interface's frames.
	VLANs int `json:"vlans,omitempty"`
	// RateMbps is max_tx_rate of the sending VF, in 1e6 bits a second; 0: none, or not known.
	RateMbps int `json:"rateMbps,omitempty"`
	// QdiscMbps is the rate to which queueing disciplines of the sending end limit the path's
	// frames, in 1e6 bits a second; 0: none, or not known.
	QdiscMbps float64 `json:"qdiscMbps,omitempty"`
	// ThroughputGbps is the payload that one TCP stream carried over the idle path before the
	// first round, in 1e9 bits a second. It is measured where the workload has a load.
	ThroughputGbps float64 `json:"throughputGbps,omitempty"`
}

// Path is a way from one end to another.
type Path struct {
	Ends    string `json:"ends"`    // "pod-pod", "pod-node", "node-node", "VM-VM"
	Network string `json:"network"` // "VF", "overlay", "host", "bond", "service", "veth", "virtio", "DPDK"
	Place   string `json:"place"`   // "same PF", "other PF", "same node", "other node"
	From    End    `json:"from"`
	To      End    `json:"to"`
	// Service is the address of a Kubernetes Service, or another address that leads to the
	// receiver. The sender uses it in place of the receiver's own.
	Service netip.Addr `json:"service,omitzero"`
	// Replaced says where the receiver's address takes the place of the Service's.
	Replaced Replacement `json:"replaced,omitempty"`
	// Via is the machine between the ends, where the path has one.
	Via Relay `json:"via,omitzero"`
}

// Replacement is where an address takes the place of a Service's. The sender's agent reads it from
// the kernel's state of a socket that is connected to the Service.
type Replacement string

// The places.
const (
	// AtSocket: programs of a cgroup (eBPF) give the socket the receiver's address, and packets
	// have it from the start.
	AtSocket Replacement = "at the socket"
	// InPackets: the socket has the Service's address, and something behind it changes packets,
	// such as nftables in the network namespace or on the host.
	InPackets Replacement = "in packets"
)

// Relay is a machine, or a network namespace of it, that forwards packets.
type Relay struct {
	Machine string  `json:"machine"` // as in Result.Machines
	Name    string  `json:"name"`    // as that of an End
	How     Forward `json:"how"`
	// In is its interface on the sender's side, where the addresses show it: a bridge's
	// ports have none.
	In string `json:"in,omitempty"`
	// Out is its interface on the receiver's side, likewise.
	Out string `json:"out,omitempty"`
}

// Forward says how a relay forwards frames.
type Forward string

// The ways to forward.
const (
	Routes  Forward = "routes"  // by the address of the network layer
	Bridges Forward = "bridges" // by the address of the link layer
	// ForwardsByDPDK: a program of user space forwards, and the kernel sees no frame.
	ForwardsByDPDK Forward = "forwards by DPDK"
)

// ServicePorts are the ports, over TCP and UDP, of a Service for a measurement. An engine
// behind it may listen on them.
var ServicePorts = []uint16{5201, 5202, 5203, 5204, 5205, 5206, 5207, 5208}

// End is where traffic starts or stops: one interface in one network namespace of
// a machine, or in a virtual machine that runs on it.
type End struct {
	Machine   string     `json:"machine"`
	Name      string     `json:"name"`      // such as "default/iperf3-client", "host" or a guest's name
	Interface string     `json:"interface"` // of a VF that DPDK drives: its PCI address
	Address   netip.Addr `json:"address"`
	MTU       int        `json:"mtu,omitempty"` // bytes
	Driver    string     `json:"driver,omitempty"`
	// PF is the name of the VF's PF on its machine, where the interface is a VF. For a virtual machine
	// of an ESXi host it is HOST/PORT, as the order names it.
	PF string `json:"pf,omitempty"`
	// VF is the VF's index, where the interface is a VF.
	VF *int `json:"vf,omitempty"`
	// Uplink carries the frames of another kind of interface: a PF or NIC, the members of a
	// bond, or the interfaces below a tunnel, with a "+" between them.
	Uplink string `json:"uplink,omitempty"`
}

// Kind is a kind of traffic.
type Kind string

// The kinds of workload.
const (
	Stream   Kind = "stream"   // TCP, as much as the path carries
	Datagram Kind = "datagram" // UDP, as much as the path carries or at a rate
	Request  Kind = "request"  // one question at a time and its answer: latency
	Connect  Kind = "connect"  // the same, with a new TCP connection for each question: requests a second
	Packets  Kind = "packets"  // as many frames as the path carries, counted at the receiver
	Echo     Kind = "echo"     // ICMP echo, as ping sends
)

// Workload describes the traffic. A value of zero leaves the choice to the engine.
type Workload struct {
	Kind    Kind   `json:"kind"`
	Engine  string `json:"engine"` // such as "culvert" or "iperf3"
	Version string `json:"version,omitempty"`
	// Seconds is the length of the window that is counted.
	Seconds float64 `json:"seconds"`
	Warmup  float64 `json:"warmup,omitempty"` // seconds of traffic before the window
	Streams int     `json:"streams,omitempty"`
	// Size is the bytes of one write, datagram or question. For packets it is the bytes of
	// the frame without its checksum, as in pktgen.
	Size   int     `json:"size,omitempty"`
	Window int     `json:"window,omitempty"` // SO_SNDBUF and SO_RCVBUF, bytes
	Rate   float64 `json:"rate,omitempty"`   // requested bits of streams or datagrams, questions or frames a second
	// Flows is the number of flows over which the engine spreads the packets.
	Flows   int `json:"flows,omitempty"`
	Sources int `json:"sources,omitempty"` // the number of source addresses, likewise
	MACs    int `json:"macs,omitempty"`    // the number of MAC addresses, likewise
	// Burst is the number of frames that the engine passes to the kernel as one UDP packet.
	// The kernel cuts it before the driver (UDP_SEGMENT, Linux 4.18). 0 and 1: each alone.
	Burst int `json:"burst,omitempty"`
	// RateLimit is the max_tx_rate of the sending VF for the run, in Mb/s.
	RateLimit int  `json:"rateLimit,omitempty"`
	Reverse   bool `json:"reverse,omitempty"` // the other end sends
	Pulled    bool `json:"pulled,omitempty"`  // the cable is pulled in each run, and plugged in again
	ByHand    bool `json:"byHand,omitempty"`  // a person pulls it
	UDP       bool `json:"udp,omitempty"`     // questions and answers are datagrams, not on TCP
	Senders   int  `json:"senders,omitempty"` // the number of paths at once, when more than one
	// DSCP is the class in the IP header of all data, 0 to 63 (RFC 2474).
	DSCP int `json:"dscp,omitempty"`
	// Load is the part of Bounds.ThroughputGbps, 0 to 1, that a TCP stream carries beside the
	// questions, in the direction of the questions.
	Load float64 `json:"load,omitempty"`
}

// Busy is the end of the reason of a void run whose end had no processor at the right time. Such a
// run says nothing about the path.
const Busy = ": the processors are too busy for it, or too few"

// Run is one repeat of an arm. The report leaves out a void run, which has a reason.
type Run struct {
	Arm     int       `json:"arm"` // index in Result.Arms
	Started time.Time `json:"started"`
	Discard bool      `json:"discard,omitempty"` // a run to warm up
	Void    string    `json:"void,omitempty"`    // the reason, when the run is void
	// Seconds is the length of the window by the clock of the receiving end.
	Seconds float64 `json:"seconds"`
	Bytes   uint64  `json:"bytes"`             // payload that arrived
	Packets uint64  `json:"packets,omitempty"` // packets that arrived
	Sent    uint64  `json:"sent,omitempty"`    // packets or questions that were sent
	// SentSeconds is the length of the sender's window, where it has its own.
	SentSeconds float64 `json:"sentSeconds,omitempty"`
	// Lost is the number sent that did not arrive. Where the ends have windows of their own
	// it is computed from the difference of their rates.
	Lost        uint64  `json:"lost,omitempty"`
	Gbps        float64 `json:"gbps,omitempty"` // 1e9 bits of payload that arrived in a second
	PPS         float64 `json:"pps,omitempty"`  // packets that arrived in a second
	Retransmits *uint64 `json:"retransmits,omitempty"`
	Delays      *Delays `json:"delays,omitempty"`
	// Cwnd is the congestion window at the end of each step of the series, in bytes: the sum
	// of all streams. It is empty where the engine does not report it.
	Cwnd []float64 `json:"cwnd,omitempty"`
	// Series has the Gb/s, or packets a second, of each step of the run. A step is a tenth
	// of the run or a second, whichever is longer. Where the cable is pulled, it is a tenth of a
	// second.
	Series []float64 `json:"series,omitempty"`
	// Totals has the traffic of the whole run, from first to last.
	Totals Totals   `json:"totals,omitzero"`
	From   Evidence `json:"from"` // all 0 in a run with shares: each share has its own
	To     Evidence `json:"to"`
	// Via is the evidence of the machine in the middle, where the path has one.
	Via *Evidence `json:"via,omitempty"`
	// Load has the figures of the TCP stream beside the questions, where the workload has a load.
	Load *Load `json:"load,omitempty"`
	// Shares has the figures of each path of an arm with several: the first path's, then
	// those of the further ones. The run's own figures are the totals.
	Shares []Share `json:"shares,omitempty"`
	// Limits are the causes that kept the figure low, the strongest first.
	Limits []Limit `json:"limits,omitempty"`
}

// Share has the figures of one of several paths of a run. Its keys mean the same as those of
// a run.
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
	Totals      Totals    `json:"totals,omitzero"`
	From        Evidence  `json:"from"`
	To          Evidence  `json:"to"`
	Via         *Evidence `json:"via,omitempty"`
}

// Load has the figures of the TCP stream that goes beside questions.
type Load struct {
	Gbps        float64 `json:"gbps"` // 1e9 bits of payload that arrived in a second
	Retransmits *uint64 `json:"retransmits,omitempty"`
	Totals      Totals  `json:"totals,omitzero"`
}

// Totals has the traffic of a whole run, with the warm-up and what followed the window: bytes
// of payload of streams and datagrams, packets or questions of others. 0 is not known. The
// proof compares interface counters with the totals and not with the window's figures, since
// the windows of two ends differ.
type Totals struct {
	Sent    uint64 `json:"sent,omitempty"`    // given to the kernel
	Arrived uint64 `json:"arrived,omitempty"` // for questions, answered ones
	// Retransmits is the number of segments that were sent again. Where the engine reports none, as iperf 2, it is that of all
	// TCP connections of the sender's network namespace.
	Retransmits uint64 `json:"retransmits,omitempty"`
	// Segment is the payload of a full TCP segment in bytes, the smallest of all streams.
	Segment int `json:"segment,omitempty"`
}

// Delays has percentiles of round trips in microseconds. Each round trip is counted from the
// moment when it was due, so that coordinated omission is included.
type Delays struct {
	Count uint64  `json:"count"` // includes lost ones, which count with the time until the sender gave up
	Min   float64 `json:"min"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
	// Histogram is HdrHistogram's compressed form (V2, base64), for other percentiles.
	Histogram string `json:"histogram,omitempty"`
	// Bins is a coarse histogram: bin i counts the round trips from 10^(i/10) to 10^((i+1)/10)
	// microseconds, and bin 0 the shorter ones too. Bins that would follow the last are empty.
	Bins []uint64 `json:"bins,omitempty"`
}

// Mechanism names how an end sends or counts, where its engine has several ways that differ in
// the rate that they reach. Empty is not known, or the engine has one way.
type Mechanism struct {
	Name string `json:"name"` // "eBPF at the interface", "packet socket"
	// Instead is the reason why the end does not use the way that the engine prefers.
	Instead string `json:"instead,omitempty"`
}

// Throttled has the throttling of a cgroup with a CPU quota (cpu.stat in
// Documentation/admin-guide/cgroup-v2.rst).
type Throttled struct {
	Times   uint64  `json:"times"`
	Seconds float64 `json:"seconds"`
}

// Evidence has the load and the counters of one end's machine in the window.
type Evidence struct {
	Mechanism Mechanism `json:"mechanism,omitzero"`
	// Buffer is the SO_SNDBUF of the sender or the SO_RCVBUF of the receiver, read back from
	// the kernel, which gives twice the size asked for. It is the least of all streams, where
	// the workload has a window. 0 is not known.
	Buffer int `json:"buffer,omitempty"`
	// EngineSeconds is the processor time of the engine's processes and threads at this end.
	EngineSeconds float64 `json:"engineSeconds,omitempty"`
	// Throttled counts the stops of the end's processes because their cgroup, or one around
	// it, had used up its CPU quota.
	Throttled Throttled `json:"throttled,omitzero"`
	CPU       CPUUse    `json:"cpu"`
	// Guest is the processors' use as the kernel of a virtual machine counts it. The other
	// value is that of its host, with QEMU's and vhost's threads.
	Guest *CPUUse `json:"guest,omitempty"`
	// Interfaces has the counters of the end's own interfaces, and of those that the path
	// must not use.
	Interfaces []Counters `json:"interfaces,omitempty"`
	// Whole has the increase of the same counters over the whole run, when counters that lag
	// had caught up. It leaves out other interfaces that carried nothing.
	Whole   Whole    `json:"whole,omitzero"`
	Softnet Softnet  `json:"softnet"`
	Queues  []uint64 `json:"queues,omitempty"` // packets of each receive queue, where the driver counts them
}

// CPUUse has the seconds that all processors of a machine spent, from /proc/stat
// (proc_stat(5)).
type CPUUse struct {
	Seconds float64 `json:"seconds"` // the window
	User    float64 `json:"user"`    // includes nice and the time of guests
	System  float64 `json:"system"`
	IRQ     float64 `json:"irq"`
	SoftIRQ float64 `json:"softirq"`
	Steal   float64 `json:"steal"`
	Idle    float64 `json:"idle"` // includes waiting for I/O
	// Busiest is the part of the window, 0 to 1, in which the busiest processor worked.
	Busiest float64   `json:"busiest"`
	Busy    []float64 `json:"busy,omitempty"` // the same part for each processor
	// Tasks has seconds by the names of the processes and kernel threads that took part. These are
	// the engines of all ends on the machine, vhost, ksoftirqd, and QEMU of guests at the ends.
	Tasks map[string]float64 `json:"tasks,omitempty"`
	// Engine has those of the end's own agent and of the processes that it started, by the names of
	// their programs.
	Engine map[string]float64 `json:"engine,omitempty"`
	// Others has the seconds of the tasks that took no part, the largest by name.
	Others map[string]float64 `json:"others,omitempty"`
	// Background is the number of processors that were busy before the round, while nothing was
	// measured: seconds a second. Without a value it is not known.
	Background *float64 `json:"background,omitempty"`
}

// Total returns the seconds in which processors worked, without steal.
func (c CPUUse) Total() float64 { return c.User + c.System + c.IRQ + c.SoftIRQ }

// Counters has the increase of an interface's counters (struct rtnl_link_stats64).
type Counters struct {
	Interface string `json:"interface"`
	// Role is "path" for an interface that must carry the bytes, "other" for one that must
	// not. It is "port" for the whole port of a PF, which carries the frames of its VFs too: there
	// only frames are counted.
	Role      string `json:"role"`
	RxBytes   uint64 `json:"rxBytes"`
	TxBytes   uint64 `json:"txBytes"`
	RxPackets uint64 `json:"rxPackets"`
	TxPackets uint64 `json:"txPackets"`
	RxDropped uint64 `json:"rxDropped"` // includes missed, FIFO and other errors
	TxDropped uint64 `json:"txDropped"`
	Downs     uint64 `json:"downs,omitempty"` // the number of carrier losses, for an interface on the path
}

// Whole has the increase of counters over a whole run.
type Whole struct {
	Seconds    float64    `json:"seconds"`
	Interfaces []Counters `json:"interfaces,omitempty"`
}

// Softnet has the increase of /proc/net/softnet_stat, summed over all processors.
type Softnet struct {
	Processed uint64 `json:"processed"`
	Dropped   uint64 `json:"dropped"`  // the backlog was full
	Squeezed  uint64 `json:"squeezed"` // netdev_budget ran out
}

// Limit is a cause that kept a figure low, with its evidence.
type Limit struct {
	// What names the cause: "quota", "generator", "wire", "core", "steal", "ring", "softnet",
	// "window", "rate limit", "qdisc" or "unknown".
	What     string `json:"what"`
	Where    string `json:"where"` // a machine, an interface
	Evidence string `json:"evidence"`
}

// RetransmitsUnit is the unit of figures that count retransmits of a run. The report puts them
// beside that count, and other figures beside the main figure of their arm.
const RetransmitsUnit = "retransmits"

// Units of other figures that are not of an arm's main metric.
const (
	SentUnit      = "Mpps sent" // frames that left, in millions a second
	EachUnit      = "Mpps each" // of the path with the least, of several at once
	CPUUnit       = "% CPU"     // how busy the processors of the busier end were
	RatioUnit     = "x"         // the arm's main figure to that of Figure.Base
	SentRatioUnit = "x sent"    // the arm's sent frames to those of Figure.Base
)

// Figure is a figure of a printed report.
type Figure struct {
	Name string `json:"name"`          // "R0 VF"
	Arm  string `json:"arm,omitempty"` // the arm of this result to compare it with
	// Base is the arm to which Arm has the ratio, in a figure that is one.
	Base  string  `json:"base,omitempty"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Text  string  `json:"text,omitempty"` // in place of a number, such as "drops badly"
}

// Machine is the fingerprint of a machine: the properties on which results depend. Two
// results are comparable when their machines are alike.
type Machine struct {
	Name       string   `json:"name"` // a virtual machine has its host before it: "n1/db1"
	Kernel     string   `json:"kernel"`
	CPU        string   `json:"cpu"` // the model
	CPUs       int      `json:"cpus"`
	NUMANodes  int      `json:"numaNodes"`
	NUMACPUs   []string `json:"numaCPUs,omitempty"` // the processors of each node as in cpulist, "0-7"; on machines with several nodes
	MemoryMiB  int      `json:"memoryMiB"`
	Governor   string   `json:"governor,omitempty"`
	Hypervisor string   `json:"hypervisor,omitempty"` // "kvm" or "tcg"; empty on bare metal
	// OpenStack is whether it is a virtual machine of OpenStack with virtio NICs, whose ports pass
	// only packets from addresses that they know.
	OpenStack bool      `json:"openStack,omitempty"`
	Mitigated []string  `json:"mitigated,omitempty"` // /sys/devices/system/cpu/vulnerabilities
	Sysctls   []Setting `json:"sysctls,omitempty"`
	// Platform has other properties that change figures: the kernel's command line, SMT, idle
	// states, turbo, IOMMU, drivers from outside the kernel's tree.
	Platform   []Setting   `json:"platform,omitempty"`
	Interfaces []Interface `json:"interfaces"`
	Tools      []Setting   `json:"tools,omitempty"` // versions, such as "iperf3": "3.18"
}

// Setting is a name with a value.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Interface is the fingerprint of one interface.
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
	IRQs      []IRQ     `json:"irqs,omitempty"` // its own interrupts
	Offloads  []Setting `json:"offloads,omitempty"`
	Bus       string    `json:"bus,omitempty"` // its PCI Express link: speed and lanes
	// Coalescing has the parameters by which the NIC gathers interrupts.
	Coalescing []Setting `json:"coalescing,omitempty"`
	// FlowControl is whether the NIC sends and obeys pause frames.
	FlowControl string `json:"flowControl,omitempty"`
	// FlowHash has the fields of a packet by which the NIC chooses the receive queue:
	// "udp4": "source, destination".
	FlowHash []Setting `json:"flowHash,omitempty"`
	// Steering is RPS and XPS: the processors of each queue that has any, as masks of the
	// kernel.
	Steering []Setting `json:"steering,omitempty"`
	// Qdisc has the queueing disciplines for the frames that it sends (tc qdisc), with their limits.
	Qdisc string `json:"qdisc,omitempty"`
	// QdiscMbps is the rate to which they limit all frames, in 1e6 bits a second; 0: none.
	QdiscMbps float64 `json:"qdiscMbps,omitempty"`
	// FlowMbps is the same for each flow.
	FlowMbps float64 `json:"flowMbps,omitempty"`
}
