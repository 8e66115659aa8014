package segment

import (
	"bytes"
	"crypto/sha256"

	"github.com/culvert-net/culvert/vf"
)

// Station is a PF of a node that runs culvertd, as its frames name it.
type Station struct {
	Node NodeID
	PF   vf.MAC // the PF's permanent address
}

// NodeID tells the nodes apart. It says nothing about a node.
type NodeID [16]byte

// NewNodeID makes a NodeID of a host's boot ID. It hashes the boot ID, so that frames do not tell
// it.
func NewNodeID(bootID string) (id NodeID) {
	sum := sha256.Sum256([]byte("culvert segment\n" + bootID))
	copy(id[:], sum[:])
	return id
}

// magic begins the payload of each frame. Its last byte is the version of what follows.
var magic = []byte("culvert\x01")

// frameSize is the length of a frame's payload, without what the NIC pads it with.
const frameSize = 8 + len(NodeID{}) + len(vf.MAC{})

// Encode returns the payload of the frame that a station sends.
func (s Station) Encode() []byte {
	b := append(make([]byte, 0, frameSize), magic...)
	return append(append(b, s.Node[:]...), s.PF[:]...)
}

// parseFrame reads a payload. Padding after it may have any content.
func parseFrame(payload []byte) (s Station, ok bool) {
	if len(payload) < frameSize || !bytes.HasPrefix(payload, magic) {
		return Station{}, false
	}
	rest := payload[len(magic):]
	copy(s.Node[:], rest)
	copy(s.PF[:], rest[len(s.Node):])
	return s, !s.PF.IsZero() && s.PF[0]&1 == 0
}
