package segment

import (
	"bytes"
	"crypto/sha256"

	"github.com/culvert-net/culvert/internal/vf"
)

// Station is a PF of a node that runs culvertd, as its frames name it.
type Station struct {
	Node NodeID
	PF   vf.MAC // the PF's permanent address
}

// NodeID distinguishes nodes. It reveals nothing about a node.
type NodeID [16]byte

// NewNodeID derives a NodeID from a host's boot ID. It hashes the boot ID, so that frames do not
// reveal it.
func NewNodeID(bootID string) (id NodeID) {
	sum := sha256.Sum256([]byte("culvert segment\n" + bootID))
	copy(id[:], sum[:])
	return id
}

// magic begins the payload of each frame. Its last byte is the version of the format that follows.
var magic = []byte("culvert\x01")

// frameSize is the length of a frame's payload in bytes, without padding.
const frameSize = 8 + len(NodeID{}) + len(vf.MAC{})

// Encode returns the payload of the frame that a station sends.
func (s Station) Encode() []byte {
	b := append(make([]byte, 0, frameSize), magic...)
	return append(append(b, s.Node[:]...), s.PF[:]...)
}

// parseFrame parses the payload of a frame, and ignores any padding after it. ok is false if the
// payload is not a frame of Culvert.
func parseFrame(payload []byte) (s Station, ok bool) {
	if len(payload) < frameSize || !bytes.HasPrefix(payload, magic) {
		return Station{}, false
	}
	rest := payload[len(magic):]
	copy(s.Node[:], rest)
	copy(s.PF[:], rest[len(s.Node):])
	return s, !s.PF.IsZero() && s.PF[0]&1 == 0
}
