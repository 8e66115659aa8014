package agent

import (
	"cmp"
	"fmt"

	"github.com/culvert-net/culvert/bench"
)

// Join makes one run from the runs of both ends: from sent, or began, and to received. It takes
// values that both have from the receiver. The run is void if either end says so. It is also void
// if frames were sent that neither arrived nor count as lost, as when a receiver got no
// processor.
func Join(from, to bench.Run) bench.Run {
	r := to
	r.Started = from.Started
	r.From = from.From
	r.To.Mechanism = cmp.Or(to.To.Mechanism, from.To.Mechanism)
	r.Void = cmp.Or(from.Void, to.Void)
	r.Seconds, r.Bytes, r.Packets = cmp.Or(to.Seconds, from.Seconds), cmp.Or(to.Bytes, from.Bytes), cmp.Or(to.Packets, from.Packets)
	r.Sent, r.Lost = cmp.Or(from.Sent, to.Sent), cmp.Or(to.Lost, from.Lost)
	if r.SentSeconds = from.SentSeconds; r.SentSeconds > 0 && r.Lost == 0 && r.Packets > 0 {
		r.Lost = wholeNumber(float64(r.Sent)/r.SentSeconds*r.Seconds - float64(r.Packets))
	}
	r.Gbps, r.PPS = cmp.Or(to.Gbps, from.Gbps), cmp.Or(to.PPS, from.PPS)
	r.Retransmits = cmp.Or(from.Retransmits, to.Retransmits)
	r.Delays = cmp.Or(to.Delays, from.Delays)
	r.Totals = bench.Totals{
		Sent: cmp.Or(from.Totals.Sent, to.Totals.Sent), Arrived: cmp.Or(to.Totals.Arrived, from.Totals.Arrived), Retransmits: cmp.Or(from.Totals.Retransmits, to.Totals.Retransmits),
		Segment: cmp.Or(from.Totals.Segment, to.Totals.Segment),
	}
	r.Cwnd = from.Cwnd
	if r.Series == nil {
		r.Series = from.Series
	}
	if r.Void == "" && r.Sent > 0 && r.Packets == 0 && r.Lost == 0 {
		r.Void = fmt.Sprintf("%d were sent, and the other end counted none of them, neither as come nor as lost", r.Sent)
	}
	return r
}
