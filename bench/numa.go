package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// muchRemote is the part of the processors' work on other NUMA nodes that is worth a remark.
const muchRemote = 0.5

// mostCPUs is more than the processors of any machine. A result's file may contain any list.
const mostCPUs = 1 << 13

// remoteWork says that most of the work of the runs over an interface was done by processors
// of other NUMA nodes than the interface's, where each packet crosses between them.
func (r Result) remoteWork(m Machine, i Interface) string {
	if i.NUMA < 0 || len(m.NUMACPUs) < 2 {
		return ""
	}
	node := nodesOf(m.NUMACPUs)
	here, all, on := 0.0, 0.0, map[int]float64{}
	for _, run := range r.Runs {
		if run.Discard || run.Void != "" || run.Arm >= len(r.Arms) {
			continue
		}
		for _, e := range r.Arms[run.Arm].listEnds(run) {
			if e.end.Machine != m.Name || !e.end.Over(i.Name) || len(e.seen.CPU.Busy) != len(node) {
				continue
			}
			for cpu, busy := range e.seen.CPU.Busy {
				all += busy
				on[node[cpu]] += busy
				if node[cpu] == i.NUMA {
					here += busy
				}
			}
		}
	}
	if all == 0 || here >= (1-muchRemote)*all {
		return ""
	}
	most := 0
	for n := range m.NUMACPUs {
		if on[n] > on[most] {
			most = n
		}
	}
	where := fmt.Sprintf("%s on %s is on NUMA node %d, and %.0f %% of the processors' work was done on node %d", i.Name, m.Name, i.NUMA, 100*on[most]/all, most)
	near := valueAt(m.NUMACPUs, i.NUMA)
	if near == "" {
		return where + ": its own node has no processors."
	}
	return fmt.Sprintf("%s: what uses it is better kept to processors %s (a pod by the Topology Manager, another program by taskset).", where, near)
}

// valueAt returns element n of a list, or "" if n is outside.
func valueAt(list []string, n int) string {
	if n >= len(list) {
		return ""
	}
	return list[n]
}

// nodesOf returns the NUMA node of each processor that is online, in their order. A list that
// cannot be parsed adds none.
func nodesOf(lists []string) []int {
	node, all := map[int]int{}, 0
	for n, list := range lists {
		cpus, _ := vf.ParseNumbers(strings.TrimSpace(list)) // a list that cannot be parsed adds none
		if all += len(cpus); all > mostCPUs {
			break
		}
		for _, cpu := range cpus {
			node[cpu] = n
		}
	}
	var nodes []int
	for _, cpu := range slices.Sorted(maps.Keys(node)) {
		nodes = append(nodes, node[cpu])
	}
	return nodes
}
