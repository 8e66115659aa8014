package engine

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// frameSocket counts frames if no eBPF program can discard them.
//
// It is a packet socket without a reader. The kernel counts the frames that pass the filter, also
// those that no longer fit into the socket (PACKET_STATISTICS in packet(7)). So a slow counter
// misses no frame, unlike a socket that is read, and no frame is copied. The count is taken before
// GRO's frames are split and before the firewall; frames that the NIC, the driver or the backlog
// dropped are not in it.
type frameSocket struct {
	fd int
	// total is the sum of all readings so far: the kernel's own count has 32 bits and begins anew
	// with each reading.
	total uint64
}

func countFrames(index int, a arriving) (*frameSocket, error) {
	fd, err := packetSocket(a.makeFilter())
	if err != nil {
		return nil, err
	}
	// The least buffer that there is.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1); err != nil {
		return nil, errors.Join(fmt.Errorf("count frames: %w", err), unix.Close(fd))
	}
	if err := bindPacket(fd, index); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &frameSocket{fd: fd}, nil
}

func (c *frameSocket) close() error { return unix.Close(c.fd) }

// countFrames returns how many frames arrived since the counter was made. Call it at least once
// for every 2^32 frames.
func (c *frameSocket) countFrames() (uint64, error) {
	s, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return c.total, fmt.Errorf("count frames: %w", err)
	}
	c.total += uint64(s.Packets)
	return c.total, nil
}

// makeFilter passes the session's frames as they come in.
func (a arriving) makeFilter() []bpf.Instruction {
	return slices.Concat([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 1},
		bpf.RetConstant{},
		bpf.LoadExtension{Num: bpf.ExtVLANTag},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: vlanID, SkipTrue: 1},
		bpf.RetConstant{},
	}, a.matchFields())
}

// matchFields passes frames that have all fields of the session.
func (a arriving) matchFields() (all []bpf.Instruction) {
	for _, f := range a.listFields() {
		all = append(all,
			bpf.LoadAbsolute{Off: f.at, Size: int(f.size)},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: f.mask},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: f.value, SkipTrue: 1},
			bpf.RetConstant{},
		)
	}
	return append(all, bpf.RetConstant{Val: 1})
}
