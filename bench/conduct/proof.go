package conduct

import (
	"fmt"

	"github.com/culvert-net/culvert/bench"
)

// Proof returns the reason why a run does not prove that its traffic took the arm's paths, or ""
// if it does. At both ends, the counters of each path's interfaces must have risen by the claimed
// traffic, and by little more than the run may have caused, in both directions. No other interface
// may have carried a relevant part of it. The counters of an interface that several paths share,
// or of a relay in the middle, must have risen by the sum of their claims.
//
// Proof compares all traffic of the run, from first to last, since the two ends' windows are not
// exactly simultaneous. Frames are larger than their payload, so counters rise by more than the
// claim.
func Proof(arm bench.Arm, run bench.Run) string {
	if why := findShortfall(arm, run); why != "" {
		return why
	}
	ends, _ := proofEnds(arm, run)
	ends = append(ends, relayEnds(arm, run)...)
	for _, e := range ends {
		if why := e.findExcess(boundOf(ends, e)); why != "" {
			return why
		}
	}
	if why := checkPorts(arm, run); why != "" {
		return why
	}
	for i, one := range run.Each() {
		if one.Via != nil {
			ends = append(ends, end{End: bench.End{Name: arm.Paths()[i].Via.Name}, seen: *one.Via})
		}
	}
	for _, e := range ends {
		if why := e.findFlap(); why != "" && !arm.Workload.Pulled {
			return why
		}
	}
	return ""
}

// relayEnds returns the interfaces of relays that the addresses show, with the traffic that a run
// claims there: one receives what the sender sends, and the other one sends it on.
func relayEnds(arm bench.Arm, run bench.Run) (all []end) {
	each := run.Each()
	for i, p := range arm.Paths() {
		if i >= len(each) || each[i].Via == nil || p.Via.In == "" || p.Via.Out == "" {
			continue
		}
		claimed := claimWithLoad(arm.Workload, each[i], p)
		for _, side := range []struct { // a router may have one interface for both
			name  string
			sends bool
		}{{p.Via.In, arm.Workload.Reverse}, {p.Via.Out, !arm.Workload.Reverse}} {
			all = append(all, end{bench.End{Machine: p.Via.Machine, Name: p.Via.Name, Interface: side.name}, *each[i].Via, side.sends, claimed})
		}
	}
	return all
}

// findShortfall names the counters that lack the traffic which a run claims, or returns "" if none
// does. Counters of some drivers lag, and may do so at first.
func findShortfall(arm bench.Arm, run bench.Run) string {
	ends, why := proofEnds(arm, run)
	if why != "" {
		return why
	}
	if why := checkRelayed(arm, run.Each()); why != "" {
		return why
	}
	for _, e := range ends {
		if why := e.findShortfall(claimedOn(ends, e)); why != "" {
			return why
		}
	}
	return ""
}

// proofEnds returns the ends of all paths of an arm, with the traffic that a run claims at each.
// why is set if the run claims none on a path.
func proofEnds(arm bench.Arm, run bench.Run) (ends []end, why string) {
	paths, each := arm.Paths(), run.Each()
	if len(each) != len(paths) {
		return nil, fmt.Sprintf("it has %d shares, and the arm %d paths", len(each), len(paths))
	}
	for i, p := range paths {
		claimed := claimWithLoad(arm.Workload, each[i], p)
		if claimed.bytes == 0 && claimed.packets == 0 {
			return nil, fmt.Sprintf("nothing arrived at %s", p.To.Name)
		}
		ends = append(ends,
			end{p.From, each[i].From, !arm.Workload.Reverse, claimed},
			end{p.To, each[i].To, arm.Workload.Reverse, claimed})
	}
	return ends, ""
}

// claimedOn returns the sum of the claims of all paths that share an end's interface.
func claimedOn(ends []end, e end) (all claims) {
	for _, o := range ends {
		if o.sends == e.sends && o.Machine == e.Machine && o.Name == e.Name && o.Interface == e.Interface {
			all = all.addClaims(o.claimed)
		}
	}
	return all
}

// end is one end of a path, or one of a relay's interfaces, with its evidence and the path's claims.
type end struct {
	bench.End
	seen    bench.Evidence
	sends   bool
	claimed claims
}

// The counters of a path must show at least leastShare of the claimed traffic. They may show
// otherShare more than the most that the run may have caused, in each direction. Other interfaces
// may carry elsewhereShare of that. Slow runs have a bound of their own, for the traffic of an idle
// network, or of a person's connection.
const (
	leastShare     = 0.98
	otherShare     = 0.01
	elsewhereShare = 0.02
	// In each second, on the path of streams, datagrams and packets.
	idleBytes, idlePackets = 32 << 10, 200
	// In each second, on the path of questions, and on other interfaces.
	questionBytes, questionPackets = 256 << 10, 500
)

func (c claims) isCovered(share float64, bytes, packets uint64) bool {
	return float64(bytes) >= share*float64(c.bytes) && float64(packets) >= share*float64(c.packets)
}

// countedBy returns an interface's bytes and packets in the run's direction, and its verb for
// messages.
func (e end) countedBy(i bench.Counters) (bytes, packets uint64, verb string) {
	if e.sends {
		return i.TxBytes, i.TxPackets, "sent"
	}
	return i.RxBytes, i.RxPackets, "received"
}

func (e end) findShortfall(c claims) string {
	for _, i := range e.seen.Whole.Interfaces {
		if i.Role != "path" {
			continue
		}
		if bytes, packets, verb := e.countedBy(i); !c.isCovered(leastShare, bytes, packets) {
			return fmt.Sprintf("%s of %s %s %s, and %s were claimed: the traffic took another way", i.Interface, e.Name, verb, formatAmount(bytes, packets, c), formatAmount(c.bytes, c.packets, c))
		}
		return ""
	}
	return fmt.Sprintf("%s has no counters of %s: nothing shows which way the traffic took", e.Name, e.Interface)
}

// bound has the most that an interface may count in each direction, by the claims of all paths that
// go over it.
type bound struct {
	claims
	sent, received most
}

// boundOf returns the bound of an end's interface: the sum of all paths that go over it.
func boundOf(ends []end, e end) bound {
	b := bound{claims: claims{known: true}}
	for _, o := range ends {
		if o.Machine != e.Machine || o.Name != e.Name || o.Interface != e.Interface {
			continue
		}
		sent, received := o.claimed.back, o.claimed.forth
		if o.sends {
			sent, received = received, sent
		}
		b.sent, b.received, b.claims = b.sent.addMost(sent), b.received.addMost(received), b.addClaims(o.claimed)
	}
	return b
}

// findExcess names the counters that show more than the run caused, or returns "" if none do.
func (e end) findExcess(b bound) string {
	seconds := e.seen.Whole.Seconds
	for _, i := range e.seen.Whole.Interfaces {
		onPath := i.Interface == e.Interface
		for _, d := range []struct {
			verb    string
			counted rise
			most    most
		}{
			{"sent", rise{float64(i.TxBytes), float64(i.TxPackets)}, b.sent},
			{"received", rise{float64(i.RxBytes), float64(i.RxPackets)}, b.received},
		} {
			why := ""
			switch {
			case onPath && b.known:
				why = d.counted.beyond(d.most, b.slack(seconds), seconds)
			case i.Role == "other":
				why = d.counted.beyond(most{}, b.elsewhere(seconds), 0)
			}
			switch {
			case why != "" && onPath:
				return fmt.Sprintf("%s of %s %s %s: other traffic was on the path", i.Interface, e.Name, d.verb, why)
			case why != "":
				return fmt.Sprintf("%s of %s, which is not on the path, %s %s: the traffic, or other traffic, went there", i.Interface, e.Name, d.verb, why)
			}
		}
	}
	return ""
}

// elsewhere returns the traffic that an interface beside the path may have.
func (c claims) elsewhere(seconds float64) rise {
	return rise{
		max(elsewhereShare*c.forth.bytesOf(c.forth.frames), questionBytes*seconds),
		max(elsewhereShare*c.forth.frames, questionPackets*seconds),
	}
}

// beyond says by what the counted traffic is above a bound with its slack, or returns "" if it is not.
func (r rise) beyond(m most, slack rise, seconds float64) string {
	const refusal = 576 // bytes of the largest ICMP message
	spare := m.spare * seconds
	if allowed := m.bytesOf(r.packets) + spare*refusal + slack.bytes; r.bytes > allowed {
		return fmt.Sprintf("%.1f MB, and the run and an idle network cause at most %.1f MB", r.bytes/1e6, allowed/1e6)
	}
	if allowed := m.frames + spare + slack.packets; r.packets > allowed {
		return fmt.Sprintf("%.0f packets, and the run and an idle network cause at most %.0f", r.packets, allowed)
	}
	return ""
}

// findFlap returns a reason if a link of the path went down in the run, or "" if none did. The rest
// of such a window makes no figure of the path.
func (e end) findFlap() string {
	for _, i := range e.seen.Interfaces {
		if i.Role == "path" && i.Downs > 0 {
			return fmt.Sprintf("the link of %s of %s went down in the run (count %d)", i.Interface, e.Name, i.Downs)
		}
	}
	return ""
}

// formatAmount writes bytes or packets, whichever are claimed.
func formatAmount(bytes, packets uint64, c claims) string {
	if c.packets > 0 {
		return fmt.Sprintf("%d packets", packets)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}
