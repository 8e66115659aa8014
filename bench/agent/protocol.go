package agent

import (
	"encoding/json"
	"net/netip"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/bench/evidence"
)

// Protocol is the version of the protocol. Both sides must have the same.
const Protocol = 13

// hello is the agent's first line.
type hello struct {
	Protocol int    `json:"culvertBenchAgent"`
	Version  string `json:"version"` // of the program
}

// request is a line to the agent.
type request struct {
	ID    uint64  `json:"id"` // from 1
	Do    verb    `json:"do"`
	Task  *Task   `json:"task,omitempty"`  // receive, send, forward and watch
	To    *Ready  `json:"to,omitempty"`    // send and forward
	Watch *Window `json:"watch,omitempty"` // watch
	Part  uint64  `json:"part,omitempty"`  // held, release, window, finish and stop

	Addresses []netip.Addr       `json:"addresses,omitempty"` // routes
	Counted   []evidence.Watched `json:"counted,omitempty"`   // counters
	PCI       string             `json:"pci,omitempty"`       // rate, rates and lend; describe, for a VF that a program in user space drives
	Owner     Owner              `json:"owner,omitzero"`      // rates and lend, if the VF has to be its own
	Mbps      uint32             `json:"mbps,omitempty"`      // lend
	Seconds   int                `json:"seconds,omitempty"`   // lend
	Setting   *Setting           `json:"setting,omitempty"`   // setUp
	Steering  *Steering          `json:"steering,omitempty"`  // steer
}

// answer is a line from the agent. Error is set if the request failed, else Value if the request
// has one.
type answer struct {
	ID    uint64 `json:"id"`
	Error string `json:"error,omitempty"`
	// Nothing: Error is an engine.ErrNothing.
	Nothing bool            `json:"nothing,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
}

// answeredError is an error that the agent answered with.
type answeredError struct{ answer }

func (e answeredError) Error() string { return e.answer.Error }

func (e answeredError) Is(target error) bool { return e.Nothing && target == engine.ErrNothing }

// verb is the kind of a request.
type verb string

const (
	describe verb = "describe" // -> Description
	routes   verb = "routes"   // -> map[netip.Addr]Route
	vfs      verb = "vfs"      // -> []evidence.VF
	counters verb = "counters" // -> []bench.Counters, as they are
	rate     verb = "rate"     // -> evidence.Lent
	rates    verb = "rates"    // -> rateRange
	lend     verb = "lend"     // -> uint32, once the VF has the rate
	giveBack verb = "giveBack" // -> nothing, once the VF has its own rate again
	setUp    verb = "setUp"    // -> string: the last line of the command
	undo     verb = "undo"     // -> nothing, once the command has ended that undoes setUp
	steering verb = "steer"    // -> nothing
	receive  verb = "receive"  // -> started
	send     verb = "send"     // -> started
	forward  verb = "forward"  // -> started
	watch    verb = "watch"    // -> started
	held     verb = "held"     // -> nothing, once traffic would begin
	release  verb = "release"  // -> nothing; traffic begins
	window   verb = "window"   // -> Window, once traffic has begun
	finish   verb = "finish"   // -> bench.Run, once it has ended
	stop     verb = "stop"     // -> nothing, once the part's children are gone
)

// Route is the route by which an end reaches an address.
type Route struct {
	Source netip.Addr `json:"source"` // that it sends from
	// Gateway is the router that it sends to; none where both are on one link.
	Gateway netip.Addr `json:"gateway,omitzero"`
	// Interface is where packets leave, with "+" and the kind of encapsulation that the route itself
	// adds.
	Interface string `json:"interface,omitempty"`
	// Peer is the address that programs of a cgroup put in the place of the one asked for when a
	// socket connects to it. There is none if the socket keeps the address.
	Peer netip.Addr `json:"peer,omitzero"`
}

// started is the answer to a request that begins a part.
type started struct {
	Part  uint64 `json:"part"`
	Ready Ready  `json:"ready"`
}

// Task is the work that one end has to do.
type Task struct {
	Workload bench.Workload `json:"workload"`
	From     netip.Addr     `json:"from"` // sends
	To       netip.Addr     `json:"to"`   // receives
	// Service is the address that the sender uses instead of To. The receiver answers for it on
	// bench.ServicePorts alone. The sender's sockets are then bound neither to From nor to an
	// interface, like those of most programs, so that the kernel chooses the path.
	Service netip.Addr `json:"service,omitzero"`
	// Interface is this end's. Packets leave by it and are counted on it. For an engine that bypasses
	// the kernel it is a PCI address.
	Interface string `json:"interface,omitempty"`
	// Hold has a sender wait, when both ends are ready, until it is released, so that several begin
	// together. Only Culvert's own engine can wait.
	Hold bool `json:"hold,omitempty"`
	// Watch are the interfaces in this network namespace whose counters are evidence.
	Watch []evidence.Watched `json:"watch,omitempty"`
	// Guests are the names of the virtual machines on this machine that are ends of the run.
	Guests []string `json:"guests,omitempty"`
}

// sendAddress returns the address to send to.
func (t Task) sendAddress() netip.Addr {
	if t.Service.IsValid() {
		return t.Service
	}
	return t.To
}

// bindAddress returns the address to bind the sender's sockets to; none leaves it to the routes.
func (t Task) bindAddress() netip.Addr {
	if t.Service.IsValid() {
		return netip.Addr{}
	}
	return t.From
}

// listenPorts returns the ports that the receiver may listen on; 0 means any.
func (t Task) listenPorts() []uint16 {
	if t.Service.IsValid() {
		return bench.ServicePorts
	}
	return []uint16{0}
}

// Ready has the facts that a sender needs about the receiver that waits for it.
type Ready struct {
	Engine  string   `json:"engine"`
	Version string   `json:"version"`
	Ports   []uint16 `json:"ports,omitempty"` // more than one where several processes share the streams
	MAC     string   `json:"mac,omitempty"`   // of Task.Interface, which an engine that makes frames needs
	Token   string   `json:"token,omitempty"` // that Culvert's own engine asks of the sender
}

// Window is the time that is counted, by the machine's monotonic clock ([evidence.Now]), in
// nanoseconds.
type Window struct {
	Opens  time.Duration `json:"opens"`
	Closes time.Duration `json:"closes"`
	// In is for a machine with another clock: in an answer, the time from the answer until the
	// window opens; in a request to watch a window, the time from the request until it opens.
	In time.Duration `json:"in,omitempty"`
}

// Description describes the machine and the namespace in which an agent runs.
type Description struct {
	Machine bench.Machine `json:"machine"` // its Tools are the engines with their versions
	Ends    []bench.End   `json:"ends"`    // with neither Machine nor Name, which are the place's to give
	Lacking []Lack        `json:"lacking,omitempty"`
	// MACs are the addresses of the interfaces, by which a host finds the VFs of its guests.
	MACs map[string]string `json:"macs,omitempty"`
	// Carriers are, for each interface that has some, the other interfaces that may carry its
	// frames.
	Carriers map[string][]string `json:"carriers,omitempty"`
}

// Lack is an engine that cannot run here.
type Lack struct {
	Engine string `json:"engine"`
	Why    string `json:"why"` // and what would help
}
