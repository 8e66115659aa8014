package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

// queued says how the receiver's queues shared an arm's packets, as medians over the counted
// runs.
type queued struct {
	Arm, Where, Hash string
	Queues           int
	Split            string // each queue's part in percent, in the queues' order
}

// mostQueues is how many queues' parts are printed.
const mostQueues = 8

// listQueues returns the queues of arms whose receiver has several, with the part that each took.
func listQueues(r bench.Result) (out []queued) {
	for i, arm := range r.Arms {
		var parts [][]float64
		receiver := arm.Path.To
		if arm.Workload.Reverse {
			receiver = arm.Path.From
		}
		for _, run := range r.Counted(i) {
			one := run.Each()[0]
			seen := one.To.Queues
			if arm.Workload.Reverse {
				seen = one.From.Queues
			}
			parts = append(parts, partsOf(seen))
		}
		n := 0
		for _, p := range parts {
			n = max(n, len(p))
		}
		if n < 2 {
			continue
		}
		q := queued{Arm: arm.Name, Where: receiver.Interface + " on " + receiver.Machine, Hash: hashOf(r, arm, receiver), Queues: n}
		var split []string
		for queue := range min(n, mostQueues) {
			var all []float64
			for _, p := range parts {
				if len(p) == n {
					all = append(all, p[queue])
				}
			}
			split = append(split, formatPercent(bench.Median(all)))
		}
		if q.Split = strings.Join(split, ", "); n > mostQueues {
			q.Split += fmt.Sprintf(", and %d more", n-mostQueues)
		}
		out = append(out, q)
	}
	return out
}

// partsOf returns each queue's part of all packets, or nil if no packet came.
func partsOf(queues []uint64) (parts []float64) {
	sum := 0.0
	for _, n := range queues {
		sum += float64(n)
	}
	for _, n := range queues {
		if sum > 0 {
			parts = append(parts, float64(n)/sum)
		}
	}
	return parts
}

// hashOf names the fields by which the receiver chooses a queue for the arm's packets.
func hashOf(r bench.Result, a bench.Arm, at bench.End) string {
	flow := "tcp4"
	if a.Workload.Kind != bench.Stream {
		flow = "udp4"
	}
	if at.Address.Is6() {
		flow = flow[:3] + "6"
	}
	for _, m := range r.Machines {
		for _, i := range m.Interfaces {
			if (m.Name != at.Machine && m.Name != at.Machine+"/"+at.Name) || i.Name != at.Interface {
				continue
			}
			if n := slices.IndexFunc(i.FlowHash, func(s bench.Setting) bool { return s.Name == flow }); n >= 0 {
				return i.FlowHash[n].Value
			}
		}
	}
	return "-"
}

func queueTable(list []queued) *screen.Table {
	t := screen.NewTable("RECEIVE QUEUES", "OF", "HASHED", ">N", "SPLIT")
	for _, l := range list {
		t.Add(screen.Words(l.Arm, l.Where, l.Hash, fmt.Sprint(l.Queues), l.Split)...)
	}
	return t
}
