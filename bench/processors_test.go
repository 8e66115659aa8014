package bench

import (
	"math"
	"strings"
	"testing"
)

// TestNetCost: a compiler beside the measurement made the path cost three times as much.
func TestNetCost(t *testing.T) {
	busy := 1.5
	a := betweenMachines("a", "a")
	a.Name, a.Workload.Kind = "VF", Stream
	quiet := Evidence{CPU: CPUUse{Seconds: 10, User: 2, System: 6, SoftIRQ: 2, Idle: 10, Tasks: map[string]float64{"culvert": 7.9}}}
	loud := quiet
	loud.CPU.User, loud.CPU.Others, loud.CPU.Background = 17, map[string]float64{"cc1": 11, "make": 1}, &busy
	of := func(e Evidence) Result {
		r := Result{Arms: []Arm{a}, Machines: []Machine{{Name: "a", CPUs: 4}}}
		for range 3 {
			r.Runs = append(r.Runs, Run{Seconds: 10, Bytes: 10e9, Gbps: 8, From: e, To: e})
		}
		return r
	}
	run := of(loud).Runs[0]
	if net := a.Cost(run).SecondsPerGB; net != 1 {
		t.Errorf("net %g s per GB; want 1", net)
	}
	if all := a.Cost(of(quiet).Runs[0]).SecondsPerGB; all != 1 {
		t.Errorf("nothing is known of before: %g s per GB; want 1", all)
	}
	p, found := of(loud).Processors(0)
	if !found || p.Gross != 2.5 || p.Background != 1.5 || p.Net != 1 || math.Abs(p.Others-1.2) > 1e-9 || math.Abs(p.Unexplained-0.31) > 1e-9 || p.Names[0] != "cc1" {
		t.Errorf("%+v", p)
	}
	said := strings.Join(Remarks(of(loud)), "\n")
	for _, want := range []string{
		"VF: of the processors' time in its runs was 48 % of tasks that take no part (cc1, make) and 12 % of tasks that came and went in the runs",
		"a was busy before the rounds too: 1.50 of 4 processors, while nothing was measured.",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %q", want, said)
		}
	}
	if quiet := Remarks(of(quiet)); len(quiet) != 0 {
		t.Errorf("a quiet machine: %q", quiet)
	}
	// Culvert's own engine runs in the agents of the machine's other ends too.
	several := quiet
	several.CPU.Others = map[string]float64{"culvert-bench": 5, "kubelet": 0.1}
	if p, _ := of(several).Processors(0); math.Abs(p.Parts-1.29) > 1e-9 || math.Abs(p.Others-0.01) > 1e-9 || len(p.Names) != 1 || len(Remarks(of(several))) != 0 {
		t.Errorf("%+v, %q", p, Remarks(of(several)))
	}
	asked := of(loud)
	asked.Arms[0].Workload.Kind = Echo // which has no CPU figure
	if said := Remarks(asked); len(said) != 1 || !strings.Contains(said[0], "busy before") {
		t.Errorf("%q", said)
	}
	if _, found := of(Evidence{}).Processors(0); found {
		t.Error("without evidence there is a figure")
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
