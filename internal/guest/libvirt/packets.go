package libvirt

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/culvert-net/culvert/internal/vf"
)

// Sizes of libvirt's packets in bytes (src/rpc/virnetprotocol.x): the length and the header's
// six words, and VIR_NET_MESSAGE_MAX.
const (
	packetHead = 28
	packetMax  = 32 << 20
)

// Procedures whose answer begins with the length of a list (src/remote/remote_protocol.x).
const (
	procedureAuthList       = 66
	procedureListAllDomains = 273
)

// packets is a connection that returns whole packets, and fails at a packet that the protocol's
// decoder cannot handle. The decoder allocates whatever lengths a packet states, and panics at a
// packet that is shorter than its header.
type packets struct {
	net.Conn
	rest []byte // of the packet that is being read
}

// Read implements io.Reader. One goroutine of the protocol's calls it.
func (p *packets) Read(to []byte) (int, error) {
	if len(p.rest) == 0 {
		packet, err := readPacket(p.Conn)
		if err != nil {
			return 0, err
		}
		p.rest = packet
	}
	n := copy(to, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// readPacket reads one packet, its length included. Errors: vf.ErrInvalid.
func readPacket(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head)
	if length < packetHead || length > packetMax {
		return nil, fmt.Errorf("packet of libvirt: %w: %d bytes, want %d to %d", vf.ErrInvalid, length, packetHead, packetMax)
	}
	packet := make([]byte, length)
	copy(packet, head)
	if _, err := io.ReadFull(r, packet[4:]); err != nil {
		return nil, err
	}
	return packet, checkLengths(packet)
}

// checkLengths refuses a packet that states a list, a guest's name or an error's message longer
// than itself. The protocol's decoder goes by the procedure of the call, and this check by that of
// the answer. So it misses an answer under another procedure's number.
func checkLengths(packet []byte) error {
	procedure, status := binary.BigEndian.Uint32(packet[12:]), binary.BigEndian.Uint32(packet[24:])
	body, fits := packet[packetHead:], true
	switch {
	case status == 1: // an error: code, domain, present, message
		fits = len(body) >= 12
		if fits {
			_, fits = cutText(body[12:])
		}
	case procedure == procedureAuthList && len(body) >= 4:
		fits = uint64(binary.BigEndian.Uint32(body))*4 <= uint64(len(body)-4)
	case procedure == procedureListAllDomains && len(body) >= 4:
		fits = domainsFit(body)
	}
	if !fits {
		return fmt.Errorf("packet of libvirt: %w: a length in procedure %d is larger than its %d bytes", vf.ErrInvalid, procedure, len(body))
	}
	return nil
}

// domainsFit reports whether a list of domains is whole: of each its name, UUID and number.
func domainsFit(body []byte) bool {
	n, rest := binary.BigEndian.Uint32(body), body[4:]
	for range n {
		after, ok := cutText(rest)
		if !ok || len(after) < 16+4 {
			return false
		}
		rest = after[16+4:]
	}
	return true
}

// cutText returns what follows a text of XDR: its length, its bytes, and zeros up to a word.
func cutText(b []byte) (after []byte, ok bool) {
	if len(b) < 4 {
		return nil, false
	}
	size := (uint64(binary.BigEndian.Uint32(b)) + 3) &^ 3
	if size > uint64(len(b)-4) {
		return nil, false
	}
	return b[4+size:], true
}
