package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/bench/evidence"
)

// testpmd is the half of an end whose VF DPDK drives: dpdk-testpmd sends, counts or forwards frames.
type testpmd struct {
	Task
	*testpmdProcess
	role  testpmdRole
	mac   string
	port  func() (received, sent uint64, known bool) // of the PF
	pf    string
	whole testpmdCount // before all traffic
}

// testpmdRole is the work of an end.
type testpmdRole int

const (
	testpmdReceives testpmdRole = iota
	testpmdSends
	testpmdForwards
)

// forwardMode is the option of testpmd for a role. In mode mac it sends each frame on from its own MAC
// address to the next end's. macswap would send it back to where it came from, and that end could
// not count it: testpmd does not receive while it generates frames.
func (r testpmdRole) forwardMode() string {
	return [...]string{"rxonly", "txonly", "mac"}[r]
}

// begun returns the counter that shows the first frames.
func (r testpmdRole) begun(s portStats) uint64 {
	if r == testpmdSends {
		return *s.Sent
	}
	return *s.Received
}

func (a *agent) testpmdReceive(ctx context.Context, t Task, _ string) (half, error) {
	return a.startTestpmd(ctx, t, testpmdReceives, Ready{})
}

func (a *agent) testpmdSend(ctx context.Context, t Task, to Ready) (half, error) {
	return a.startTestpmd(ctx, t, testpmdSends, to)
}

// forwardFrames starts the half of a machine in the middle.
func (a *agent) forwardFrames(ctx context.Context, r request) (half, error) {
	if e, err := a.findTool(r.Task.Workload); err != nil {
		return nil, err
	} else if !e.Bypasses {
		return nil, fmt.Errorf("%s does not forward frames: set up a router or a bridge", e.Name)
	}
	return a.startTestpmd(ctx, *r.Task, testpmdForwards, *r.To)
}

// startTestpmd checks the VF anew, since another owner may have it by now, and starts testpmd on it.
func (a *agent) startTestpmd(ctx context.Context, t Task, role testpmdRole, to Ready) (_ half, err error) {
	peer := ""
	if role != testpmdReceives {
		mac, err := net.ParseMAC(to.MAC)
		if err != nil || len(mac) != 6 {
			return nil, fmt.Errorf("the next end gives no MAC address: use one version of culvert at all ends")
		}
		peer = mac.String()
	}
	d, err := a.checkDevice(ctx, t.Interface)
	if err != nil {
		return nil, err
	}
	p, err := a.launchTestpmd(ctx, t.Interface, testpmdArguments(chooseCPUs(d.CPUs), role, t, peer))
	if err != nil {
		return nil, err
	}
	h := &testpmd{Task: t, testpmdProcess: p, role: role, pf: d.PF, port: func() (uint64, uint64, bool) { return evidence.PortCounters(d.PF) }}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if err := a.checkLedger(ctx, t.Interface); err != nil { // a pod may have got it before testpmd opened it
		return nil, err
	}
	if h.mac, err = p.awaitPort(ctx); err != nil {
		return nil, err
	}
	if h.whole, err = h.count(); err != nil {
		return nil, err
	}
	if role != testpmdSends {
		err = p.command(ctx, "start")
	}
	return h, err
}

func (h *testpmd) describeReady() Ready {
	return Ready{Engine: engine.Testpmd, Version: h.telemetry.version, MAC: h.mac}
}

func (h *testpmd) close() error { return h.testpmdProcess.close() }

// testpmdCount has the counters of the VF, and those of its PF's port, at one moment.
type testpmdCount struct {
	at             time.Time
	vf             portStats
	received, sent uint64 // by the port
	known          bool
}

// count reads the VF's counters first, so that the port's are not behind them.
func (h *testpmd) count() (c testpmdCount, err error) {
	c.vf, err = h.telemetry.readStats()
	c.received, c.sent, c.known = h.port()
	c.at = time.Now()
	return c, err
}

func (h *testpmd) carryTraffic(ctx context.Context, m marks) (bench.Run, error) {
	const some = 64 // frames: more than arrive without testpmd
	if h.role == testpmdSends {
		if err := h.command(ctx, "start"); err != nil {
			return bench.Run{}, err
		}
	}
	before := h.role.begun(h.whole.vf)
	begun := func() (bool, error) {
		s, err := h.telemetry.readStats()
		return err == nil && h.role.begun(s) >= before+some, err
	}
	var counted [2]portStats
	var errs [2]error
	var at [2]time.Time
	count := func(i int) {
		counted[i], errs[i] = h.telemetry.readStats()
		at[i] = time.Now()
	}
	begin, end := m.begin, m.end
	m.begin = func() { begin(); count(0) }
	m.end = func() { count(1); end() }
	void, err := callTimed(ctx, h.Workload, failAfter(testpmdPatience, h.explainSilence(), begun), h.ended, m)
	if err := errors.Join(err, errs[0], errs[1]); err != nil {
		return bench.Run{}, h.explainEnd(err)
	}
	if void != "" {
		return bench.Run{Void: h.explainVoid(void)}, nil
	}
	// The windows of the ends behind this one may close later.
	if h.role != testpmdReceives {
		if err := waitFor(ctx, time.Second); err != nil {
			return bench.Run{}, err
		}
	}
	if h.role == testpmdSends {
		if err := h.command(ctx, "stop"); err != nil {
			return bench.Run{}, h.explainEnd(err)
		}
	}
	after, err := h.count()
	if err != nil {
		return bench.Run{}, h.explainEnd(err)
	}
	return h.makeRun(counted, at, after)
}

func (h *testpmd) explainSilence() error {
	if h.role == testpmdSends {
		return fmt.Errorf("testpmd has sent nothing from %s in %s: is its PF %s up?", h.Interface, testpmdPatience, h.pf)
	}
	return fmt.Errorf("no frames came to %s in %s: are the ends on one link and one VLAN? Each needs a PF that is up", h.Interface, testpmdPatience)
}

// makeRun returns the figures of this end.
func (h *testpmd) makeRun(counted [2]portStats, at [2]time.Time, after testpmdCount) (run bench.Run, err error) {
	seconds := at[1].Sub(at[0]).Seconds()
	inWindow, err := subtractStats(h.Interface, counted[0], counted[1])
	if err != nil {
		return run, err
	}
	all, err := subtractStats(h.Interface, h.whole.vf, after.vf)
	if err != nil {
		return run, err
	}
	seen := bench.Evidence{
		Mechanism: bench.Mechanism{Name: "DPDK " + h.telemetry.version}, Interfaces: []bench.Counters{inWindow},
		Whole: bench.Whole{Seconds: after.at.Sub(h.whole.at).Seconds(), Interfaces: []bench.Counters{all}},
	}
	if h.whole.known && after.known && after.received >= h.whole.received && after.sent >= h.whole.sent {
		seen.Whole.Interfaces = append(seen.Whole.Interfaces, bench.Counters{
			Interface: h.pf, Role: "port", RxPackets: after.received - h.whole.received, TxPackets: after.sent - h.whole.sent,
		})
	}
	switch h.role {
	case testpmdReceives:
		bytes := inWindow.RxPackets * uint64(frameSize(h.Workload))
		return bench.Run{
			Seconds: seconds, Packets: inWindow.RxPackets, Bytes: bytes, PPS: float64(inWindow.RxPackets) / seconds, Gbps: float64(bytes) * 8 / seconds / 1e9,
			Totals: bench.Totals{Arrived: all.RxPackets}, To: seen,
		}, nil
	case testpmdSends:
		return bench.Run{Sent: inWindow.TxPackets, SentSeconds: seconds, Totals: bench.Totals{Sent: all.TxPackets}, From: seen}, nil
	}
	return bench.Run{From: seen}, nil
}

// subtractStats returns the increase of a VF's counters.
func subtractStats(name string, before, after portStats) (bench.Counters, error) {
	c := bench.Counters{Interface: name, Role: "path"}
	for _, one := range []struct {
		to            *uint64
		before, after uint64
	}{
		{&c.RxPackets, *before.Received, *after.Received}, {&c.TxPackets, *before.Sent, *after.Sent},
		{&c.RxBytes, before.InBytes, after.InBytes}, {&c.TxBytes, before.OutBytes, after.OutBytes},
		{&c.RxDropped, before.Missed + before.InErrors + before.NoBuffer, after.Missed + after.InErrors + after.NoBuffer},
		{&c.TxDropped, before.OutError, after.OutError},
	} {
		if one.after < one.before {
			return c, fmt.Errorf("a counter of testpmd on %s fell from %d to %d", name, one.before, one.after)
		}
		*one.to = one.after - one.before
	}
	return c, nil
}
