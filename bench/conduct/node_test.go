package conduct

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/place"
)

// The agent in a pod sees only the pod's processes. The time of the node's tasks, such as vhost,
// comes from the node's station.
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
	busy.Path = filepath.Join(dir, "vhost-busy")
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
		tasks := w.goodRun(t, 0).From.CPU.Tasks
		if (tasks["vhost-busy"] > 0) != with || tasks["culvert"] == 0 {
			t.Errorf("with its node %v: %v", with, tasks)
		}
	}
}

func TestWithTasks(t *testing.T) {
	use := bench.CPUUse{Tasks: map[string]float64{"culvert": 0.9, "iperf3": 0.5}}
	withTasks(&use, bench.CPUUse{Tasks: map[string]float64{"culvert": 0.01, "iperf3": 0.5, "vhost-7": 0.3}})
	if diff := cmp.Diff(map[string]float64{"culvert": 0.9, "iperf3": 0.5, "vhost-7": 0.3}, use.Tasks); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	use = bench.CPUUse{Tasks: map[string]float64{"iperf3": 0.5}}
	withTasks(&use, bench.CPUUse{})
	if diff := cmp.Diff(map[string]float64{"iperf3": 0.5}, use.Tasks); diff != "" {
		t.Errorf("nobody watched: -want +got:\n%s", diff)
	}
}
