package bench

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A remark names a NIC whose work is done on another NUMA node, and no other NIC.
func TestRemarksOnNUMA(t *testing.T) {
	m := makeHost("w1", func(m *Machine) {
		m.CPUs, m.NUMANodes, m.NUMACPUs = 4, 2, []string{"0-1", "2,3"}
		m.Interfaces[0].NUMA = 1
	})
	result := func(busy ...float64) Result {
		used := Evidence{CPU: CPUUse{Seconds: 1, Busy: busy}}
		idle := Evidence{CPU: CPUUse{Seconds: 1, Busy: []float64{1, 1, 0, 0}}}
		return Result{
			Machines: []Machine{m}, Arms: []Arm{{Path: Path{From: End{Machine: "w1", Interface: "enp1s0"}, To: End{Machine: "w2", Interface: "enp1s0"}}}},
			Runs: []Run{{From: used, To: idle}, {From: idle, Void: "lost"}, {From: idle, Discard: true}},
		}
	}
	want := []string{"enp1s0 on w1 is on NUMA node 1, and 90 % of the processors' work was done on node 0: " +
		"what uses it is better kept to processors 2,3 (a pod by the Topology Manager, another program by taskset)."}
	if diff := cmp.Diff(want, Remarks(result(0.9, 0, 0, 0.1))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for name, r := range map[string]Result{"near": result(0.1, 0, 0.5, 0.1), "nothing done": result(0, 0, 0, 0), "a processor came": result(1, 0, 0)} {
		if got := Remarks(r); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	// All work is far from a NIC on a node without processors. The node that did most of it is
	// named.
	m.Interfaces[0].NUMA = 2
	want = []string{"enp1s0 on w1 is on NUMA node 2, and 80 % of the processors' work was done on node 1: its own node has no processors."}
	if diff := cmp.Diff(want, Remarks(result(0.2, 0, 0, 0.8))); diff != "" {
		t.Errorf("a node without processors: -want +got:\n%s", diff)
	}
	m.Interfaces[0].NUMA = -1
	if got := Remarks(result(0.9, 0, 0, 0)); got != nil {
		t.Errorf("on no node: %q", got)
	}
}

func TestNodesOf(t *testing.T) {
	for _, c := range []struct {
		lists []string
		want  []int
	}{
		{[]string{"0-1", "2-3"}, []int{0, 0, 1, 1}},
		{[]string{"0,2", "1,3"}, []int{0, 1, 0, 1}},
		{[]string{"0-1", "", "4"}, []int{0, 0, 2}},
		{[]string{"x", "3-"}, []int{}},
		{[]string{"0-1", fmt.Sprintf("2-%d", mostCPUs+1)}, []int{0, 0}}, // more than a machine has
		{nil, []int{}},
	} {
		if got := nodesOf(c.lists); !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.lists, got, c.want)
		}
	}
}
