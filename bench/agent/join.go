package agent

import (
	"cmp"

	"github.com/culvert-net/culvert/bench"
)

// Join makes one run of what both ends know: from sent, or began, and to received. What
// both know is the receiver's; Void is said by either.
func Join(from, to bench.Run) bench.Run {
	r := to
	r.Started = from.Started
	r.From = from.From
	r.Void = cmp.Or(from.Void, to.Void)
	r.Seconds, r.Bytes, r.Packets = cmp.Or(to.Seconds, from.Seconds), cmp.Or(to.Bytes, from.Bytes), cmp.Or(to.Packets, from.Packets)
	r.Sent, r.Lost = cmp.Or(from.Sent, to.Sent), cmp.Or(to.Lost, from.Lost)
	r.Gbps, r.PPS = cmp.Or(to.Gbps, from.Gbps), cmp.Or(to.PPS, from.PPS)
	r.Retransmits = cmp.Or(from.Retransmits, to.Retransmits)
	r.Delays = cmp.Or(to.Delays, from.Delays)
	if r.Series == nil {
		r.Series = from.Series
	}
	return r
}
