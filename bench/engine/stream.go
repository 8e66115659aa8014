package engine

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
)

// counter is written by one goroutine. It has a cache line of its own.
type counter struct {
	atomic.Uint64
	_ [56]byte
}

func sumCounters(counters []counter) (n uint64) {
	for i := range counters {
		n += counters[i].Load()
	}
	return n
}

// streamSource writes to TCP connections, as much as they take or at a rate.
type streamSource struct {
	conns []net.Conn
	size  int       // of a write, bytes
	rate  float64   // writes a second of each connection; 0: as many as it takes
	bytes []counter // that the kernel took, by connection
}

func newStreamSource(conns []net.Conn, w bench.Workload) *streamSource {
	return &streamSource{
		conns: conns, size: w.Size, bytes: make([]counter, len(conns)),
		rate: w.Rate / 8 / float64(w.Size) / float64(len(conns)),
	}
}

func (s *streamSource) carryTraffic(ctx context.Context) error {
	defer closedBy(ctx, s.conns)()
	var g errgroup.Group
	for i, conn := range s.conns {
		g.Go(func() error {
			// Go turns Nagle's algorithm off. Small writes must be sent as for a program that sets
			// no option.
			_ = conn.(*net.TCPConn).SetNoDelay(false) // only a closed connection refuses, as Write reports
			if err := s.writeTo(ctx, conn, &s.bytes[i]); err != nil {
				return reportEarlyEnd(ctx, fmt.Errorf("stream %d of %d: send: %w", i+1, len(s.conns), err))
			}
			return nil
		})
	}
	return g.Wait()
}

// writeTo writes to one connection until ctx ends.
func (s *streamSource) writeTo(ctx context.Context, conn net.Conn, bytes *counter) error {
	if s.rate > 0 {
		defer wakePrecisely()()
	}
	data, schedule := make([]byte, s.size), pace{rate: s.rate}
	for schedule.nextDue(ctx, 1) > 0 {
		n, err := conn.Write(data)
		bytes.Add(uint64(n))
		if err != nil {
			return err
		}
	}
	return nil
}

// readTally asks the kernel for the number of retransmitted segments, and the size of a full one
// (tcpi_total_retrans, tcpi_snd_mss).
func (s *streamSource) readTally() (t tally) {
	t.bytes = sumCounters(s.bytes)
	for _, conn := range s.conns {
		_ = onConn(conn, func(fd int) error { // a closed one has sent nothing more
			info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			if err == nil {
				t.retransmits += uint64(info.Total_retrans)
				if size := int(info.Snd_mss); t.segment == 0 || size < t.segment {
					t.segment = size
				}
			}
			return err
		})
	}
	return t
}

func (*streamSource) markWindow(bool)             {}
func (*streamSource) addFigures(*bench.Run) error { return nil }

// streamSink reads from TCP connections and counts.
type streamSink struct {
	conns []net.Conn
	bytes []counter // by connection
}

func newStreamSink(conns []net.Conn) *streamSink {
	return &streamSink{conns: conns, bytes: make([]counter, len(conns))}
}

func (s *streamSink) carryTraffic(ctx context.Context) error {
	const most = 256 << 10 // of a read, bytes
	defer closedBy(ctx, s.conns)()
	var g errgroup.Group
	for i, conn := range s.conns {
		g.Go(func() error {
			data := make([]byte, most)
			for {
				n, err := conn.Read(data)
				s.bytes[i].Add(uint64(n))
				if err != nil {
					return reportEarlyEnd(ctx, fmt.Errorf("stream %d of %d: receive: %w", i+1, len(s.conns), err))
				}
			}
		})
	}
	return g.Wait()
}

func (s *streamSink) readTally() tally { return tally{bytes: sumCounters(s.bytes)} }

func (*streamSink) markWindow(bool)             {}
func (*streamSink) addFigures(*bench.Run) error { return nil }
