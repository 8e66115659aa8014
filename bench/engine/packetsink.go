package engine

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
)

// packetSink counts frames. The kernel does all the work.
type packetSink struct {
	port    *net.UDPConn
	size    int // of a frame, bytes
	by      bench.Mechanism
	mu      sync.Mutex
	counter frameCounter // guarded by mu
}

// frameCounter counts the frames of a session as they come out of the interface.
type frameCounter interface {
	countFrames() (uint64, error) // since it was made
	close() error
}

// newPacketSink opens the counter on the calling thread. The frames go to port. It receives none of
// them, but without it the kernel would answer the frames that are not discarded before. The caller
// closes the sink, and the port.
func newPacketSink(r route, port *net.UDPConn, session uint64, size int) (*packetSink, error) {
	if err := onConn(port, func(fd int) error { return attachFilter(fd, []bpf.Instruction{bpf.RetConstant{}}) }); err != nil {
		return nil, err
	}
	a := arriving{netip.AddrPortFrom(r.from, uint16(port.LocalAddr().(*net.UDPAddr).Port)), session}
	d, refused := discardFrames(r.index, a)
	if refused == nil {
		return &packetSink{port: port, size: size, counter: d, by: bench.Mechanism{Name: byDiscard}}, nil
	}
	c, err := countFrames(r.index, a)
	if err != nil {
		return nil, err
	}
	return &packetSink{port: port, size: size, counter: c, by: bench.Mechanism{Name: bySocket, Instead: refused.Error()}}, nil
}

// The mechanisms by which frames are counted. A receiver with the packet socket receives a fifth to
// two fifths fewer frames: the way of a frame through IP to the port costs more than all before it.
const (
	byDiscard = "eBPF at the interface"
	bySocket  = "packet socket"
)

func (s *packetSink) nameMechanism() bench.Mechanism { return s.by }

func (s *packetSink) close() error {
	return errors.Join(s.counter.close(), onConn(s.port, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
	}))
}

// carryTraffic reads the counter each second, so that it does not wrap between two readings.
func (s *packetSink) carryTraffic(ctx context.Context) error {
	often := time.NewTicker(time.Second)
	defer often.Stop()
	for {
		select {
		case <-often.C:
			if _, err := s.countFrames(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *packetSink) countFrames() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counter.countFrames()
}

func (s *packetSink) readTally() tally {
	n, _ := s.countFrames() // carryTraffic returns the error
	return tally{packets: n, bytes: n * uint64(s.size)}
}

func (*packetSink) markWindow(bool)             {}
func (*packetSink) addFigures(*bench.Run) error { return nil }
