package conduct

import (
	"math"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
)

// claims has the traffic that a run claims on a path. bytes of payload, or packets if the run
// counts those, came from the sender to the receiver: segments and datagrams are not compared,
// since an interface may count 64 KiB of them as one packet. forth and back are the most that
// the run may have caused in each direction, if the run's totals are known.
type claims struct {
	bytes, packets uint64
	known          bool // forth and back are
	forth, back    most
}

// most is the largest traffic that a run may cause in one direction.
type most struct {
	payload float64 // bytes of all frames, without their headers
	frames  float64
	header  float64 // bytes of each frame that a counter may have beside the payload
	spare   float64 // frames in each second that some other part of the workload may cause
}

// The largest headers that counters have beside payload. Some drivers count a frame's VLAN tag and
// checksum.
const (
	linkHeader = 14 + 4 + 4
	udpHeader  = 8
	tcpHeader  = 20 + 12 // with timestamps
	blocks     = 28      // selective acknowledgements, beside timestamps
	leastFrame = 60      // without its checksum
)

// Numbers of frames beside those of the data.
const (
	// A connection with one question has at least leastOfConnection packets each way: SYN and
	// data. Besides the data it has at most mostOfConnection: of SYN, FIN and acknowledgements.
	leastOfConnection, mostOfConnection = 2, 6
	// ticket is more than the engine adds to the question of a connection.
	ticket = 64
	// echoed is how many bytes ping sends by default, with ICMP's header.
	echoed = 64
	// A stream may have partFilled more segments than its bytes fill: Nagle's algorithm sends one
	// that is not full in each round trip.
	partFilled = 0.1
	// A kernel answers a closed port with at most refusals ICMP messages in a second
	// (net.ipv4.icmp_msgs_per_sec), and one source with one of them.
	refusals = 1000
)

// claimOf returns the traffic that a run claims on a path, by its totals. If these are not known,
// it uses the traffic of the window, which the whole run must have had at least.
func claimOf(w bench.Workload, run bench.Run, p bench.Path) claims {
	t := run.Totals
	c := claims{known: t.Sent > 0}
	if w.Kind == bench.Stream || w.Kind == bench.Datagram {
		c.bytes = max(t.Arrived, run.Bytes)
	} else {
		c.packets = max(t.Arrived, run.Packets)
	}
	sent := float64(max(t.Sent, c.bytes, c.packets))
	switch w.Kind {
	case bench.Stream:
		c.forth, c.back = streamMost(sent, w, t, p)
	case bench.Datagram:
		c.forth = datagramsMost(sent, w.Size, p)
	case bench.Packets:
		c.forth = most{payload: sent * float64(max(w.Size, leastFrame)), frames: sent, header: linkHeader - 14}
		if w.Sources > 1 {
			c.back.spare = refusals
		}
	case bench.Connect:
		c.packets *= leastOfConnection
		c.forth = questionsMost(sent, questionSize(w)+ticket, mostOfConnection, p)
		c.back = c.forth
	case bench.Request:
		size := questionSize(w)
		c.forth = questionsMost(sent, size, 1, p) // each may have an acknowledgement of its own
		if w.UDP {
			c.forth = datagramsMost(sent*float64(size), size, p)
		}
		c.back = c.forth
	case bench.Echo:
		c.forth = datagramsMost(sent*float64(w.Size+echoed), w.Size+echoed, p)
		c.back = c.forth
	}
	return c
}

// streamMost returns the most that a TCP stream may cause: its segments, with those that were sent
// again, and an acknowledgement for each. Acknowledgements report gaps where segments were lost.
func streamMost(sent float64, w bench.Workload, t bench.Totals, p bench.Path) (forth, back most) {
	segment := float64(t.Segment)
	if t.Segment <= 0 {
		segment = float64(mtuOf(p) - ipHeader(p) - tcpHeader)
	}
	forth = most{payload: sent + float64(t.Retransmits)*segment, header: float64(linkHeader + ipHeader(p) + tcpHeader)}
	filled := segment
	if size := float64(w.Size); size > 0 { // each write may end with a segment that it does not fill
		filled = size / math.Ceil(size/segment)
	}
	forth.frames = (1 + partFilled) * math.Ceil(forth.payload/filled)
	back = most{frames: forth.frames, header: forth.header}
	if t.Retransmits > 0 {
		back.header += blocks
	}
	return forth, back
}

// datagramsMost returns the most that datagrams of a size may cause, with so many bytes in all: the
// fragments of each. Size 0 is that of an engine, which is at least a TCP segment.
func datagramsMost(bytes float64, size int, p bench.Path) most {
	if size == 0 {
		size = mtuOf(p) - ipHeader(p) - tcpHeader
	}
	const fragment = 8 // the header of a fragment of IPv6, and the unit of its length
	each := mtuOf(p) - ipHeader(p) - fragment
	fragments := (size + udpHeader + each - 1) / each
	if size+udpHeader <= mtuOf(p)-ipHeader(p) {
		fragments = 1
	}
	return most{payload: bytes, frames: math.Ceil(bytes/float64(size)) * float64(fragments), header: float64(linkHeader + ipHeader(p) + udpHeader)}
}

// questionsMost returns the most that questions over TCP may cause in each direction: their data,
// and so many frames besides.
func questionsMost(n float64, size, besides int, p bench.Path) most {
	segment := mtuOf(p) - ipHeader(p) - tcpHeader
	return most{
		payload: n * float64(size), frames: n * float64(besides+(size+segment-1)/segment), header: float64(linkHeader + ipHeader(p) + tcpHeader),
	}
}

// questionSize returns the bytes of a question. A workload without a size has the engine's usual one.
func questionSize(w bench.Workload) int {
	if known, err := engine.Check(w); err == nil {
		return known.Size
	}
	return w.Size
}

// mtuOf returns the smaller MTU of a path's ends, or a usual one if none is known.
func mtuOf(p bench.Path) int {
	const usual, least = 1500, 576
	mtu := p.From.MTU
	if mtu == 0 || p.To.MTU > 0 && p.To.MTU < mtu {
		mtu = p.To.MTU
	}
	if mtu < least {
		return usual
	}
	return mtu
}

func ipHeader(p bench.Path) int {
	if p.From.Address.Is6() {
		return 40
	}
	return 20
}

func (c claims) addClaims(o claims) claims {
	return claims{c.bytes + o.bytes, c.packets + o.packets, c.known && o.known, c.forth.addMost(o.forth), c.back.addMost(o.back)}
}

func (m most) addMost(o most) most {
	return most{m.payload + o.payload, m.frames + o.frames, max(m.header, o.header), m.spare + o.spare}
}

// bytesOf returns the most bytes that a counter may show beside so many packets. An interface may
// count a packet for many segments, with one header, so that no more headers count than packets.
func (m most) bytesOf(packets float64) float64 { return m.payload + min(m.frames, packets)*m.header }

// rise is the increase of an interface's counters in one direction.
type rise struct{ bytes, packets float64 }

// slack is the traffic of others that may be beside that of a run in each direction.
func (c claims) slack(seconds float64) rise {
	bytes, packets := float64(idleBytes), float64(idlePackets)
	if c.packets > 0 && c.bytes == 0 && c.back.frames > 0 {
		bytes, packets = questionBytes, questionPackets
	}
	return rise{max(otherShare*c.forth.bytesOf(c.forth.frames), bytes*seconds), max(otherShare*c.forth.frames, packets*seconds)}
}
