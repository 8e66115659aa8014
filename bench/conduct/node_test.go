package conduct

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/place"
)

// The agent in a pod sees only the pod's processes. The node's station sees the others.
func TestTasksOfTheNode(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	own := filepath.Join(dir, "culvert") // with processes of its own, as in a pod
	if err := os.WriteFile(own, []byte(fmt.Sprintf("#!/bin/sh\nexec unshare --pid --fork --kill-child --mount-proc %s \"$@\"\n", os.Args[0])), 0o700); err != nil {
		t.Fatal(err)
	}
	pipe, err := place.Open(t.Context(), place.Spec{Kind: place.Host, Netns: "/run/netns/" + w.netns[0]}, place.Program{Path: own})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipe.Close() })
	client, err := agent.NewClient(t.Context(), pipe)
	if err != nil {
		t.Fatal(err, pipe.Said())
	}
	pod := *w.stations[0]
	pod.Agent, pod.Cluster = client, true
	node := *w.stations[0]
	node.Name, node.Pod, node.Cluster = "node", false, true
	busy := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
	busy.Path = filepath.Join(dir, "busy")
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	run(t, "cp", sh, busy.Path)
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Process.Kill(); _ = busy.Wait() })
	w.exchange.Arms[0].Workload.Engine, w.exchange.Arms[0].Workload.Seconds = "culvert", 1
	for _, with := range []bool{false, true} {
		w.exchange.Stations = []*Station{&pod, w.stations[1]}
		if with {
			w.exchange.Stations = append(w.exchange.Stations, &node)
		}
		cpu := w.goodRun(t, 0).From.CPU
		if isOther(cpu, "busy") != with || !(cpu.Tasks["culvert"] > 0) {
			t.Errorf("with its node %v: %v took part, and others %v", with, cpu.Tasks, cpu.Others)
		}
	}
}

// The engines of all ends on a machine take part in what it did. A process of the same name that no
// agent started does not, nor does the node's agent, which only samples.
func TestEnginesOfAMachine(t *testing.T) {
	a, b, node, far := &Station{}, &Station{}, &Station{}, &Station{}
	far.Machine.Name = "n2"
	all := engines{a: {"culvert-bench": 0.2, "iperf3": 0.5}, b: {"culvert-bench": 0.1, "iperf3": 0.4}, far: {"culvert-bench": 3}}
	use := bench.CPUUse{Seconds: 1, Tasks: map[string]float64{"culvert": 0.2, "iperf3": 0.5}, Engine: all[a]}
	seen := bench.CPUUse{
		Seconds: 1, Tasks: map[string]float64{"culvert": 0.01, "vhost-7": 0.3}, Engine: map[string]float64{"culvert-bench": 0.01},
		Others: map[string]float64{"culvert-bench": 0.3, "iperf3": 1.9, "kubelet": 0.1},
	}
	if !useNode(&use, seen) {
		t.Error("a node that watched is left out")
	}
	all.creditTo(&use, node)
	want := map[string]float64{"culvert": 0.3, "iperf3": 0.9, "vhost-7": 0.3}
	if diff := cmp.Diff(want, use.Tasks, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"iperf3": 1, "kubelet": 0.1}, use.Others, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("others: -want +got:\n%s", diff)
	}
	own := bench.CPUUse{Tasks: map[string]float64{"culvert": 0.2, "iperf3": 0.5, "ksoftirqd/0": 0.1}, Engine: all[a], Others: map[string]float64{"culvert-bench": 0.1, "iperf3": 0.41}}
	if useNode(&own, bench.CPUUse{}) {
		t.Error("no node watched")
	}
	own.Tasks = withoutEngine(own)
	all.creditTo(&own, a)
	want = map[string]float64{"culvert": 0.3, "iperf3": 0.9, "ksoftirqd/0": 0.1}
	if diff := cmp.Diff(want, own.Tasks, cmpopts.EquateApprox(0, 1e-9)); diff != "" || len(own.Others) > 0 {
		t.Errorf("-want +got:\n%s%v", diff, own.Others)
	}
}

// isOther reports whether a task is among the others: by its name, or with the small ones where
// processors are scarce.
func isOther(use bench.CPUUse, name string) bool { return use.Others[name]+use.Others["and more"] > 0 }

// A stranger's iperf3 on the machine counts among the other tasks, and not as an engine.
func TestStrangersEngine(t *testing.T) {
	w := newWorld(t)
	program := filepath.Join(t.TempDir(), "iperf3")
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	run(t, "cp", sh, program)
	busy := exec.CommandContext(t.Context(), program, "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Process.Kill(); _ = busy.Wait() })
	w.exchange.Arms[0].Workload = bench.Workload{Kind: bench.Datagram, Engine: "culvert", Size: 1000, Rate: 8e6, Seconds: 1}
	var seen bench.Run
	for range 8 {
		if seen, err = w.runOnce(t, 0); err == nil && seen.From.CPU.Seconds > 0 && seen.To.CPU.Seconds > 0 { // a run that is void since its agent came late has evidence too
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []bench.Evidence{seen.From, seen.To} {
		if e.CPU.Tasks["iperf3"] > 0 || !isOther(e.CPU, "iperf3") || !(e.CPU.Tasks["culvert"] > 0) {
			t.Errorf("%v took part, and others %v", e.CPU.Tasks, e.CPU.Others)
		}
	}
}
