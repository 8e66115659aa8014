package bench

import (
	"math"
	"strings"
	"testing"
)

// TestNetCost: what was busy before is not charged to the path. Where it was more than a tenth of the
// machine, there is no figure: a compiler beside the measurement made the path cost three times as
// much, and a busy host made it cost nothing.
func TestNetCost(t *testing.T) {
	few, much := 0.3, 1.5
	a := betweenMachines("a", "a")
	a.Name, a.Workload.Kind = "VF", Stream
	quiet := Evidence{CPU: CPUUse{Seconds: 10, User: 2, System: 6, SoftIRQ: 2, Idle: 30, Tasks: map[string]float64{"culvert": 7.9}}}
	beside := quiet
	beside.CPU.User, beside.CPU.Idle, beside.CPU.Others, beside.CPU.Background = 5, 27, map[string]float64{"cc1": 3}, &few
	loud := quiet
	loud.CPU.User, loud.CPU.Idle, loud.CPU.Others, loud.CPU.Background = 17, 15, map[string]float64{"cc1": 11, "make": 1}, &much
	of := func(all ...Evidence) Result {
		r := Result{Arms: []Arm{a}, Machines: []Machine{{Name: "a", CPUs: 4}}}
		for _, e := range all {
			r.Runs = append(r.Runs, Run{Seconds: 10, Bytes: 10e9, Gbps: 8, From: e, To: e})
		}
		return r
	}
	for name, c := range map[string]struct {
		e    Evidence
		want float64
	}{"nothing is known of before": {quiet, 1}, "some was busy": {beside, 1}, "much was busy": {loud, math.NaN()}} {
		if got := a.Cost(of(c.e).Runs[0]).SecondsPerGB; math.Abs(got-c.want) > 1e-9 || math.IsNaN(got) != math.IsNaN(c.want) {
			t.Errorf("%s: %g s per GB; want %g", name, got, c.want)
		}
	}
	p, found := of(loud, loud, loud).Processors(0)
	if !found || p.Gross != 2.5 || p.Background != 1.5 || !math.IsNaN(p.Net) || math.Abs(p.Others-1.2) > 1e-9 || math.Abs(p.Unexplained-0.31) > 1e-9 || p.Names[0] != "cc1" {
		t.Errorf("%+v", p)
	}
	said := strings.Join(Remarks(of(loud, loud, beside)), "\n")
	for _, want := range []string{
		"VF: of the processors' time in its runs was 48 % of tasks that take no part (cc1, make) and 12 % of tasks that came and went in the runs",
		"a was busy before 2 of 3 runs, while nothing was measured: 1.50 of 4 processors. A tenth or more is too much for a CPU figure: these runs have none.",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %q", want, said)
		}
	}
	if quiet := Remarks(of(quiet)); len(quiet) != 0 {
		t.Errorf("a quiet machine: %q", quiet)
	}
	asked := of(loud)
	asked.Arms[0].Workload.Kind = Echo // which has no CPU figure
	if said := Remarks(asked); len(said) != 1 || !strings.Contains(said[0], "was busy before") {
		t.Errorf("%q", said)
	}
	if _, found := of(Evidence{}).Processors(0); found {
		t.Error("without evidence there is a figure")
	}
}

// TestNetIsNotBelowTheEngine: load that ended before the run makes no figure fall below the time of
// the engine and of interrupts. Interrupts that stand among the tasks' time as well count once.
func TestNetIsNotBelowTheEngine(t *testing.T) {
	ended := 0.39
	c := CPUUse{Seconds: 10, User: 1, System: 2, IRQ: 0.1, SoftIRQ: 0.9, Idle: 36, Tasks: map[string]float64{"culvert": 2.5, "ksoftirqd/0": 0.3}, Others: map[string]float64{"sshd": 0.1}, Background: &ended}
	if got := c.Net(); math.Abs(got-3.8) > 1e-9 {
		t.Errorf("%g s; want 3.8", got)
	}
	c.Tasks["culvert"] = 3.4 // with 0.8 s of interrupts
	if got := c.Net(); math.Abs(got-3.9) > 1e-9 {
		t.Errorf("%g s; want 3.9", got)
	}
	c.Busy = []float64{0.1, 0.1, 0.1, 0.1} // of a guest that lost ticks
	c.Idle = 1
	if c.WasBusy() {
		t.Error("0.39 of 4 processors are a tenth")
	}
	c.Tasks = nil
	if got := c.Net(); math.Abs(got-1) > 1e-9 { // of interrupts alone
		t.Errorf("%g s; want 1", got)
	}
}

// TestThrottledIsNamed: a remark names an arm whose processes a CPU quota stopped, since its figure
// is not the path's.
func TestThrottledIsNamed(t *testing.T) {
	a := betweenMachines("a", "b")
	a.Name, a.CeilingGbps = "VF", 9.4
	run := Run{Seconds: 10, Gbps: 9.39, Bytes: 1e9, To: Evidence{CPU: CPUUse{Seconds: 10, Idle: 10}, Throttled: Throttled{Times: 90, Seconds: 4.5}}}
	limits := Limits(run, a)
	if limits[0].What != "quota" || limits[0].Evidence != "its cgroup used up its CPU quota (cpu.max) 90 times and stood still for 4.50 s of 10 s" {
		t.Errorf("%+v", limits)
	}
	said := strings.Join(Remarks(Result{Arms: []Arm{a}, Runs: []Run{run, {}}}), "\n")
	if !strings.Contains(said, "VF: a CPU quota stopped its processes in 1 of 2 runs") {
		t.Errorf("%q", said)
	}
}

// TestWindowThatTheKernelCut: a remark names an end whose kernel gave less than M6's 512 KiB, as a
// stock machine does.
func TestWindowThatTheKernelCut(t *testing.T) {
	a := betweenMachines("a", "b")
	a.Name, a.Workload = "VF", Workload{Kind: Stream, Engine: "iperf2", Window: 512 << 10}
	a.Path.To.Name = "server"
	run := Run{Seconds: 10, Gbps: 1, From: Evidence{Buffer: 1 << 20}, To: Evidence{Buffer: 425984}}
	got := Remarks(Result{Arms: []Arm{a}, Runs: []Run{run, run}})
	if len(got) != 1 || !strings.Contains(got[0], "server on b has a window of 212992 bytes, and 524288 were asked for: raise net.core.wmem_max or rmem_max there.") {
		t.Errorf("%q", got)
	}
}
