package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/bench/evidence"
)

// tool is an engine with the functions by which the agent drives it.
type tool struct {
	engine.Engine
	// version returns the installed version. An error says why there is none, and what would help.
	version func(ctx context.Context) (string, error)
	receive func(ctx context.Context, t Task, version string) (half, error)
	send    func(ctx context.Context, t Task, to Ready) (half, error)
}

// listTools returns a tool for every engine.
func (a *agent) listTools() []tool {
	own := func(context.Context) (string, error) { return a.Version, nil }
	driven := map[string]tool{
		engine.Own:    {version: own, receive: ownReceive, send: ownSend},
		engine.Iperf3: {version: iperf3Version, receive: iperf3Receive, send: iperf3Send},
		engine.Iperf2: {version: iperf2Version, receive: iperf2Receive, send: iperf2Send},
		engine.Pktgen: {version: a.pktgenVersion, receive: a.pktgenReceive, send: a.pktgenSend},
		engine.Ping:   {version: pingVersion, receive: a.pingReceive, send: a.pingSend},
		// The version is that of the VF's testpmd, which describeDevice and each half start.
		engine.Testpmd: {version: noDevice, receive: a.testpmdReceive, send: a.testpmdSend},
	}
	var all []tool
	for _, e := range engine.Engines() {
		t := driven[e.Name]
		t.Engine = e
		all = append(all, t)
	}
	return all
}

// startHalf starts the half that a request asks for.
func (a *agent) startHalf(ctx context.Context, r request) (half, error) {
	switch r.Do {
	case watch:
		now, err := evidence.Now()
		return watcher{r.Watch.fromNow(now)}, err
	case forward:
		return a.forwardFrames(ctx, r)
	}
	e, err := a.findTool(r.Task.Workload)
	if err != nil {
		return nil, err
	}
	var version string
	if r.Do == send && !e.Bypasses || r.Do == receive && !e.SenderOnly && !e.Bypasses {
		if version, err = e.version(ctx); err != nil {
			return nil, err
		}
	}
	if r.Task.Hold && !e.Held {
		return nil, fmt.Errorf("%s sends as soon as it is started, and cannot begin together with others: take Culvert's own engine", e.Name)
	}
	if k := r.Task.Workload.Kind; r.Task.Service.IsValid() && !usesPorts(k) {
		return nil, fmt.Errorf("a Service passes connections and datagrams on, and no %q: measure the path to its pod", k)
	}
	if r.Do == receive {
		return e.receive(ctx, *r.Task, version)
	}
	if !e.Bypasses && !Together(e.Name, version, r.To.Version) {
		return nil, fmt.Errorf("%s is %s here and %s at the other end: figures of two versions say little: install one at both ends", e.Name, version, r.To.Version)
	}
	return e.send(ctx, *r.Task, *r.To)
}

// usesPorts reports whether a kind of workload can go to a Service, which forwards only traffic to
// its TCP and UDP ports.
func usesPorts(k bench.Kind) bool {
	return k == bench.Stream || k == bench.Datagram || k == bench.Request || k == bench.Connect
}

// findTool returns the tool that carries a workload.
func (a *agent) findTool(w bench.Workload) (tool, error) {
	if !(w.Seconds > 0) || w.Warmup < 0 || w.Streams < 0 || w.Size < 0 || w.Rate < 0 {
		return tool{}, fmt.Errorf("a workload of %g s after %g s, %d streams of %d bytes at %g/s cannot be", w.Seconds, w.Warmup, w.Streams, w.Size, w.Rate)
	}
	if w.Reverse {
		return tool{}, errors.New("an agent sends or receives, and knows no reverse: change the ends")
	}
	all := a.listTools()
	i := slices.IndexFunc(all, func(e tool) bool { return e.Name == w.Engine })
	switch {
	case i < 0:
		var names []string
		for _, e := range all {
			names = append(names, e.Name)
		}
		return tool{}, fmt.Errorf("there is no engine %q: there are %s", w.Engine, strings.Join(names, ", "))
	case !all[i].Carries(w.Kind):
		return tool{}, fmt.Errorf("%s does no %q: it does %q", w.Engine, w.Kind, all[i].Kinds)
	}
	return all[i], nil
}

// Together reports whether two versions of an engine can be the ends of one measurement: their
// first two numbers are the same, or the receiver needs no engine.
func Together(name, here, there string) bool {
	e, _ := engine.FindEngine(name)
	return e.SenderOnly || minorVersion(here) == minorVersion(there)
}

// minorVersion cuts a version to its first two numbers: "3.18" of "3.18.1+".
func minorVersion(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// programVersion asks the program of an engine for its version.
func programVersion(ctx context.Context, name string, parse func(string) (string, error), args ...string) (string, error) {
	const long = 10 * time.Second
	e, _ := engine.FindEngine(name)
	path, err := exec.LookPath(e.Program)
	if err != nil {
		return "", fmt.Errorf("%s is not installed here: apt-get install %s, or what your system calls it", e.Program, e.Package)
	}
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	said, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // iperf 2's -v ends with 1
		return "", fmt.Errorf("ask %s for its version: %w", path, err)
	}
	return parse(string(said))
}

// describeHere returns the Description of this agent. If it is asked for a PCI device, the one end
// is that device, and the one engine the one that drives it.
func (a *agent) describeHere(ctx context.Context, pci string) (Description, error) {
	var d Description
	var err error
	if d.Machine, err = a.Reader.Machine(); err != nil {
		return d, fmt.Errorf("read the machine's fingerprint: %w", err)
	}
	if pci != "" {
		a.describeDevice(ctx, pci, &d)
		return d, nil
	}
	if d.Ends, err = a.Reader.Ends(); err != nil {
		return d, err
	}
	if d.Carriers, err = a.Reader.Carriers(); err != nil {
		return d, err
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return d, fmt.Errorf("list interfaces: %w", err)
	}
	d.MACs = map[string]string{}
	for _, i := range interfaces {
		d.MACs[i.Name] = i.HardwareAddr.String()
	}
	for _, e := range a.listTools() {
		version, err := e.version(ctx)
		if err != nil {
			d.Lacking = append(d.Lacking, Lack{Engine: e.Name, Why: err.Error()})
			continue
		}
		d.Machine.Tools = append(d.Machine.Tools, bench.Setting{Name: e.Name, Value: version})
	}
	return d, nil
}
