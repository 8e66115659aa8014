package conduct

import (
	"fmt"
	"math"

	"github.com/culvert-net/culvert/bench"
)

// Proof returns the reason why a run does not prove that its traffic took the arm's paths, or ""
// if it does. At both ends, the counters of each path's interfaces must have risen by the claimed
// traffic and not by much more. No other interface may have carried a relevant part of it. The
// counters of an interface that several paths share, or of a relay in the middle, must have risen
// by the sum of their claims.
//
// Proof compares all traffic of the run, from first to last, since the two ends' windows are not
// exactly simultaneous. It compares counters in the run's direction. Frames are larger than their
// payload, so counters rise by more than the claim. Other traffic of the other interfaces, such
// as a person's connection, is small.
func Proof(arm bench.Arm, run bench.Run) string {
	if why := findShortfall(arm, run); why != "" {
		return why
	}
	ends, _ := proofEnds(arm, run)
	for _, e := range ends {
		if why := e.findExcess(claimedOn(ends, e)); why != "" {
			return why
		}
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

// claims has the traffic that a run claims from one end to the other: bytes of payload, or
// packets if the run counts those. Segments and datagrams are not compared, since an interface
// may count 64 KiB of them as one packet.
type claims struct {
	bytes, packets uint64
	// At most mostBytes of payload and mostPackets went over the path, including lost and
	// retransmitted ones. At most mostFrames frames carried mostBytes. 0 is not known.
	mostBytes, mostPackets, mostFrames uint64
}

// claimOf returns the traffic that a run claims on a path, by its totals. If these are not known,
// it uses the traffic of the window, which the whole run must have had at least.
func claimOf(w bench.Workload, run bench.Run, p bench.Path) claims {
	t := run.Totals
	switch w.Kind {
	case bench.Stream:
		c := claims{bytes: max(t.Arrived, run.Bytes)}
		if t.Sent > 0 {
			c.mostBytes = max(t.Sent, t.Arrived) + t.Retransmits*uint64(segmentSize(p))
			c.mostFrames = framesFor(c.mostBytes, payloadSize(p, w.Size))
		}
		return c
	case bench.Datagram:
		c := claims{bytes: max(t.Arrived, run.Bytes)}
		if t.Sent > 0 {
			c.mostBytes = max(t.Sent, t.Arrived)
			c.mostFrames = framesFor(c.mostBytes, payloadSize(p, w.Size))
		}
		return c
	case bench.Packets:
		return claims{packets: max(t.Arrived, run.Packets), mostPackets: max(t.Sent, t.Arrived)}
	case bench.Connect:
		c := claims{packets: leastOfConnection * max(t.Arrived, run.Packets)}
		if t.Sent > 0 {
			c.mostBytes = t.Sent * uint64(w.Size+ticket)
			c.mostFrames = t.Sent * (mostOfConnection + framesFor(uint64(w.Size+ticket), payloadSize(p, 0)))
		}
		return c
	case bench.Request, bench.Echo:
	}
	c := claims{packets: max(t.Arrived, run.Packets)}
	if t.Sent > 0 { // each may have an acknowledgement of its own
		c.mostBytes = t.Sent * uint64(w.Size+echoed)
		c.mostFrames = t.Sent * (1 + framesFor(uint64(w.Size+echoed), payloadSize(p, 0)))
	}
	return c
}

// A connection with one question has at least leastOfConnection packets each way: SYN and data.
// Besides the data it has at most mostOfConnection: of SYN, FIN and acknowledgements.
const leastOfConnection, mostOfConnection = 2, 8

// ticket is more than the engine adds to the question of a connection.
const ticket = 64

// echoed is how many bytes ping sends by default, with ICMP's header.
const echoed = 64

func (c claims) addClaims(o claims) claims {
	return claims{c.bytes + o.bytes, c.packets + o.packets, c.mostBytes + o.mostBytes, c.mostPackets + o.mostPackets, c.mostFrames + o.mostFrames}
}

// segmentSize returns the largest size of a segment: the path's MTU, or that of a jumbo frame if
// the MTU is not known.
func segmentSize(p bench.Path) int {
	const jumbo = 9216
	if most := max(p.From.MTU, p.To.MTU); most > 0 {
		return most
	}
	return jumbo
}

// payloadSize returns how many bytes a frame of the path carries if writes have the given size: a
// full segment, or one write.
func payloadSize(p bench.Path, size int) int {
	const usual = 1500
	mtu := p.From.MTU
	if mtu == 0 || p.To.MTU > 0 && p.To.MTU < mtu {
		mtu = p.To.MTU
	}
	if mtu <= headers {
		mtu = usual
	}
	if full := mtu - headers; size == 0 || size > full {
		return full
	}
	return size
}

func framesFor(bytes uint64, payload int) uint64 {
	return (bytes + uint64(payload) - 1) / uint64(payload)
}

// end is one end of a path, with its evidence and the path's claims.
type end struct {
	bench.End
	seen    bench.Evidence
	sends   bool
	claimed claims
}

// The counters of a path must show at least leastShare of the claimed traffic. They, and those of
// the other paths, may show a tenth more than the traffic with its headers, and besides the
// traffic of a person's connection in each second.
const (
	leastShare   = 0.98
	otherShare   = 0.1
	otherBytes   = 256 << 10
	otherPackets = 500
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

func (e end) findExcess(c claims) string {
	seconds := e.seen.Whole.Seconds
	for _, i := range e.seen.Whole.Interfaces {
		bytes, packets, verb := e.countedBy(i)
		switch {
		case i.Role == "path" && c.isExceeded(bytes, packets, seconds):
			return fmt.Sprintf("%s of %s %s %s, and %s were claimed: other traffic was on the path", i.Interface, e.Name, verb, formatAmount(bytes, packets, c), formatAmount(c.bytes, c.packets, c))
		case i.Role == "path":
		case float64(bytes) > otherShare*float64(c.bytes)+otherBytes*seconds && c.bytes > 0,
			float64(packets) > otherShare*float64(c.packets)+otherPackets*seconds && c.packets > 0:
			return fmt.Sprintf("%s of %s, which is not on the path, %s %s, while %s were claimed: the traffic, or other traffic, went there",
				i.Interface, e.Name, verb, formatAmount(bytes, packets, c), formatAmount(c.bytes, c.packets, c))
		}
	}
	return ""
}

// headers of a frame that a counter may have beside payload: Ethernet's with a tag and its checksum, IPv6's, and TCP's
// with timestamps and selective acknowledgements.
const headers = 18 + 4 + 40 + 60

// isExceeded reports whether a path's counters rose by more than its traffic with headers, a tenth
// more, and the traffic of a person's connection. It adds headers for no more frames than were
// counted.
func (c claims) isExceeded(bytes, packets uint64, seconds float64) bool {
	if c.mostPackets > 0 {
		return float64(packets) > float64(c.mostPackets)*(1+otherShare)+otherPackets*seconds
	}
	if c.mostBytes == 0 {
		return false
	}
	frames := math.Min(float64(c.mostFrames), float64(packets))
	return float64(bytes) > (float64(c.mostBytes)+frames*headers)*(1+otherShare)+otherBytes*seconds
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
