package bench

// Bytes on a wire that are not in an Ethernet frame's payload: header and frame
// check sequence (IEEE 802.3, clause 3), preamble with delimiter, gap.
const (
	etherHeader   = 14
	frameCheck    = 4
	preambleGap   = 8 + 12
	leastFrame    = 60 // with its header, without its checksum
	etherOverhead = etherHeader + frameCheck + preambleGap
)

// Bytes of headers above Ethernet (RFC 791, 8200, 768, 9293; the timestamps option
// of RFC 7323 takes 12 with its padding).
const (
	ipv4Header = 20
	ipv6Header = 40
	udpHeader  = 8
	tcpHeader  = 20 + 12
)

// Wire is what a path's frames go through.
type Wire struct {
	SpeedMbps int // 1e6 bits a second
	MTU       int // of the path's interface, bytes
	// Encapsulation is what an overlay adds to each packet: 50 bytes for VXLAN over
	// IPv4 (RFC 7348), inner Ethernet header and all.
	Encapsulation int
	IPv6          bool
}

// Ceiling is what the wire can carry of a workload: payload in 1e9 bits a second,
// and frames (or datagrams) a second. 0 is unknown, or not what the workload is about.
func (w Wire) Ceiling(load Workload) (gbps, pps float64) {
	if w.SpeedMbps <= 0 || w.MTU <= w.ip()+tcpHeader {
		return 0, 0
	}
	switch load.Kind {
	case Stream:
		return w.tcp(), 0
	case Datagram:
		return w.udp(load.Size)
	case Packets:
		pps = w.bits() / float64(8*(max(load.Size, leastFrame)+w.Encapsulation+frameCheck+preambleGap))
		return pps * float64(8*load.Size) / 1e9, pps
	case Request, Echo: // bound by time, not by the wire
	}
	return 0, 0
}

func (w Wire) bits() float64 { return float64(w.SpeedMbps) * 1e6 }

func (w Wire) ip() int {
	if w.IPv6 {
		return ipv6Header
	}
	return ipv4Header
}

// tcp is (MTU-52)/(MTU+38) of the wire over IPv4: full segments with timestamps.
func (w Wire) tcp() float64 {
	return w.bits() / 1e9 * float64(w.MTU-w.ip()-tcpHeader) / float64(w.MTU+w.Encapsulation+etherOverhead)
}

// udp counts the fragments that a datagram above the MTU becomes. Each but
// the last carries a multiple of eight bytes (RFC 791, section 3.2).
func (w Wire) udp(size int) (gbps, pps float64) {
	if size <= 0 {
		return 0, 0
	}
	whole, header := size+udpHeader, w.ip()
	fragments := 1
	if whole > w.MTU-header {
		if w.IPv6 {
			header += 8 // the fragment header
		}
		each := (w.MTU - header) / 8 * 8
		fragments = (whole + each - 1) / each
	}
	bytes := whole + fragments*(header+w.Encapsulation+etherOverhead)
	bytes = max(bytes, leastFrame+w.Encapsulation+frameCheck+preambleGap)
	pps = w.bits() / float64(8*bytes)
	return pps * float64(8*size) / 1e9, pps
}
