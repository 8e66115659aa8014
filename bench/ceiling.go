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
	tcpHeader  = 20
	timestamps = 12
)

// Wire is the medium that a path's frames go through.
type Wire struct {
	SpeedMbps int // 1e6 bits a second
	MTU       int // of the path's interface, bytes
	// Encapsulation is the number of bytes that an overlay adds to each packet: 50 for VXLAN over
	// IPv4 (RFC 7348), with the inner Ethernet header.
	Encapsulation int
	VLANs         int // tags of each frame, of 4 bytes (IEEE 802.1Q)
	IPv6          bool
	NoTimestamps  bool // TCP segments have no timestamps option (net.ipv4.tcp_timestamps is 0 at an end)
}

// Ceiling returns the most of a workload that the wire can carry: payload in 1e9 bits a second,
// and frames (or datagrams) a second. 0 means unknown, or that the workload has no such figure.
func (w Wire) Ceiling(load Workload) (gbps, pps float64) {
	if w.SpeedMbps <= 0 || w.MTU <= w.ipHeader()+w.tcpLength() {
		return 0, 0
	}
	switch load.Kind {
	case Stream:
		return w.tcpCeiling(), 0
	case Datagram:
		return w.udpCeiling(load.Size)
	case Packets:
		pps = w.bitsPerSecond() / float64(8*(max(load.Size, leastFrame)+w.bytesAround()+frameCheck+preambleGap))
		return pps * float64(8*load.Size) / 1e9, pps
	case Request, Connect, Echo: // bound by time, not by the wire
	}
	return 0, 0
}

func (w Wire) bitsPerSecond() float64 { return float64(w.SpeedMbps) * 1e6 }

// vlanTag is the length of a VLAN tag in bytes.
const vlanTag = 4

// bytesAround returns how many bytes each frame has on the wire beside those that the path's
// interface sends.
func (w Wire) bytesAround() int { return w.Encapsulation + w.VLANs*vlanTag }

func (w Wire) ipHeader() int {
	if w.IPv6 {
		return ipv6Header
	}
	return ipv4Header
}

func (w Wire) tcpLength() int {
	if w.NoTimestamps {
		return tcpHeader
	}
	return tcpHeader + timestamps
}

// tcpCeiling returns (MTU-52)/(MTU+38) of the wire's speed over IPv4: full segments with
// timestamps. Without these it is (MTU-40)/(MTU+38).
func (w Wire) tcpCeiling() float64 {
	return w.bitsPerSecond() / 1e9 * float64(w.MTU-w.ipHeader()-w.tcpLength()) / float64(w.MTU+w.bytesAround()+etherOverhead)
}

// udpCeiling counts the fragments that a datagram above the MTU becomes. Each but
// the last carries a multiple of eight bytes (RFC 791, section 3.2).
func (w Wire) udpCeiling(size int) (gbps, pps float64) {
	if size <= 0 {
		return 0, 0
	}
	whole, header := size+udpHeader, w.ipHeader()
	fragments := 1
	if whole > w.MTU-header {
		if w.IPv6 {
			header += 8 // the fragment header
		}
		each := (w.MTU - header) / 8 * 8
		fragments = (whole + each - 1) / each
	}
	bytes := whole + fragments*(header+w.bytesAround()+etherOverhead)
	bytes = max(bytes, leastFrame+w.bytesAround()+frameCheck+preambleGap)
	pps = w.bitsPerSecond() / float64(8*bytes)
	return pps * float64(8*size) / 1e9, pps
}
