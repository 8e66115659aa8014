package beacon

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// run carries out a filter on a frame, as the kernel does, and returns the bytes that it keeps.
func run(t *testing.T, frame []byte, tagged uint32) uint32 {
	t.Helper()
	var a uint32
	program := filter()
	for at := 0; at < len(program); at++ {
		switch i := program[at]; i.Code {
		case unix.BPF_LD | unix.BPF_ABS | unix.BPF_B:
			a = tagged
		case unix.BPF_LD | unix.BPF_ABS | unix.BPF_H:
			if int(i.K)+2 > len(frame) {
				return 0
			}
			a = uint32(binary.BigEndian.Uint16(frame[i.K:]))
		case unix.BPF_LD | unix.BPF_ABS | unix.BPF_W:
			if int(i.K)+4 > len(frame) {
				return 0
			}
			a = binary.BigEndian.Uint32(frame[i.K:])
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			if a == i.K {
				at += int(i.Jt)
			} else {
				at += int(i.Jf)
			}
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		default:
			t.Fatalf("instruction %+v", i)
		}
	}
	t.Fatal("the filter does not end")
	return 0
}

// The filter keeps the first bytes of untagged frames to the group address, and no others.
func TestFilter(t *testing.T) {
	good := append(append(append([]byte{}, group[:]...), 2, 0, 0, 0, 0, 1), 0x88, 0xb5)
	good = append(good, make([]byte, 1400)...)
	changed := func(at int) []byte {
		b := append([]byte{}, good...)
		b[at] ^= 1
		return b
	}
	for name, tc := range map[string]struct {
		frame  []byte
		tagged uint32
		want   uint32
	}{
		"ours": {good, 0, mostFrame}, "tagged": {good, 1, 0}, "another EtherType": {changed(13), 0, 0},
		"another group": {changed(0), 0, 0}, "another group's end": {changed(5), 0, 0}, "from elsewhere": {changed(11), 0, mostFrame}, "short": {good[:13], 0, 0},
	} {
		if got := run(t, tc.frame, tc.tagged); got != tc.want {
			t.Errorf("%s: %d bytes, want %d", name, got, tc.want)
		}
	}
}
