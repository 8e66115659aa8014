package tuning

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestFlowHash: igb hashes UDP's addresses alone, so that flows that differ in ports share a queue.
func TestFlowHash(t *testing.T) {
	masks := map[uint32]uint64{1: 0xf0, 2: 0x30, 6: 0}
	a := asker{func(b []byte) error {
		mask, known := masks[binary.NativeEndian.Uint32(b[4:])]
		if binary.NativeEndian.Uint32(b) != unix.ETHTOOL_GRXFH || !known {
			return unix.EOPNOTSUPP
		}
		binary.NativeEndian.PutUint64(b[8:], mask)
		return nil
	}}
	want := [][2]string{{"tcp4", "source, destination, source port, destination port"}, {"udp4", "source, destination"}, {"udp6", "none"}}
	if diff := cmp.Diff(want, a.askFlowHash()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got, err := FlowHash("lo"); err != nil || len(got) != 0 {
		t.Errorf("lo: %v, %v", got, err)
	}
}
