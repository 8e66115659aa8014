package agent

import (
	"cmp"
	"fmt"

	"github.com/culvert-net/culvert/bench"
)

// Join makes one run of what both ends know: from sent, or began, and to received. What
// both know is the receiver's; Void is said by either, and of a run in which what was
// sent neither came nor is missed: a receiver that was kept from its processor.
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
	if r.Void == "" && r.Sent > 0 && r.Packets == 0 && r.Lost == 0 {
		r.Void = fmt.Sprintf("%d were sent, and the other end counted none of them, neither as come nor as lost", r.Sent)
	}
	return r
}
