package report

import (
	"math"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

// relayed has the work of the machine in the middle of an arm's paths, as medians over the
// counted runs.
type relayed struct {
	Arm, Where     string
	Received, Sent string // by the interfaces that carried most
	Busiest        string // processor
	CPU            string // of that machine alone, for the traffic that it sent; includes an end on the same machine
}

func listRelays(r bench.Result) []relayed {
	var out []relayed
	for i, arm := range r.Arms {
		for j, p := range arm.Paths() {
			if p.Via == (bench.Relay{}) {
				continue
			}
			packets := arm.Workload.Kind != bench.Stream && arm.Workload.Kind != bench.Datagram
			var received, sent, busiest, cost []float64
			for _, run := range r.Counted(i) {
				each := run.Each()
				if j >= len(each) || each[j].Via == nil || !(each[j].Via.CPU.Seconds > 0) {
					continue
				}
				v := each[j].Via
				in, sends := handedOn(*v, packets)
				received, sent = append(received, in/v.CPU.Seconds), append(sent, sends/v.CPU.Seconds)
				busiest, cost = append(busiest, v.CPU.Busiest), append(cost, v.CPU.Total()/sends)
			}
			where := p.Via.Name + " on " + p.Via.Machine
			if p.Via.Machine == p.From.Machine || p.Via.Machine == p.To.Machine {
				where += " with an end"
			}
			line := relayed{Arm: arm.Name, Where: where + ", " + string(p.Via.How), Received: "-", Sent: "-", Busiest: "-", CPU: "-"}
			if len(sent) > 0 {
				line.Received, line.Sent, line.Busiest = formatRate(bench.Median(received), packets), formatRate(bench.Median(sent), packets), formatPercent(bench.Median(busiest))
				if c := bench.Median(cost); !math.IsInf(c, 0) && !math.IsNaN(c) {
					line.CPU = formatPerUnit(c, packets)
				}
			}
			out = append(out, line)
		}
	}
	return out
}

// handedOn returns how many packets or bytes the busiest interfaces received and sent.
func handedOn(e bench.Evidence, packets bool) (received, sent float64) {
	for _, c := range e.Interfaces {
		rx, tx := c.RxBytes, c.TxBytes
		if packets {
			rx, tx = c.RxPackets, c.TxPackets
		}
		received, sent = max(received, float64(rx)), max(sent, float64(tx))
	}
	return received, sent
}

func formatRate(v float64, packets bool) string {
	if packets {
		return bench.Number(v/1e6) + " Mpps"
	}
	return bench.Number(v*8/1e9) + " Gb/s"
}

// formatPerUnit prints the processor time of each packet, or for bytes the percent of one
// processor that each Gb/s takes.
func formatPerUnit(seconds float64, packets bool) string {
	if packets {
		return bench.Number(seconds*1e9) + " ns/packet"
	}
	return bench.Number(seconds*1e9/8*100) + " %/Gb/s"
}

func relayTable(list []relayed) *screen.Table {
	t := screen.NewTable("ARM", "IN THE MIDDLE", ">RECEIVED", ">SENT", ">BUSIEST", ">ITS CPU")
	for _, l := range list {
		t.Add(screen.Words(l.Arm, l.Where, l.Received, l.Sent, l.Busiest, l.CPU)...)
	}
	return t
}
