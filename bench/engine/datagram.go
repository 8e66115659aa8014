package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
)

// headerSize is how much of a datagram or a question this package writes: the
// session and a sequence number from 0, both big-endian, 8 bytes each.
const headerSize = 16

func putHeader(b []byte, session, sequence uint64) {
	binary.BigEndian.PutUint64(b, session)
	binary.BigEndian.PutUint64(b[8:], sequence)
}

// parseHeader returns the sequence number. False is none of this session's: a ticket
// that was sent again, or somebody else's datagram.
func parseHeader(b []byte, session uint64) (sequence uint64, ok bool) {
	if len(b) < headerSize || binary.BigEndian.Uint64(b) != session {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[8:]), true
}

// datagramSource sends datagrams, each by itself: no segmentation offload, since
// the datagrams are counted.
type datagramSource struct {
	conns   []net.Conn
	session uint64
	size    int
	rate    float64   // datagrams a second of each connection; 0: as many as go
	sent    []counter // by connection
}

func newDatagramSource(conns []net.Conn, session uint64, w bench.Workload) *datagramSource {
	return &datagramSource{
		conns: conns, session: session, size: w.Size,
		rate: w.Rate / 8 / float64(w.Size) / float64(len(conns)),
		sent: make([]counter, len(conns)),
	}
}

func (s *datagramSource) run(ctx context.Context) error {
	defer closedBy(ctx, s.conns)()
	var g errgroup.Group
	for i, conn := range s.conns {
		g.Go(func() error {
			if err := s.send(ctx, conn, &s.sent[i]); err != nil {
				return early(ctx, fmt.Errorf("stream %d of %d: send a datagram of %d bytes: %w", i+1, len(s.conns), s.size, err))
			}
			return nil
		})
	}
	return g.Wait()
}

func (s *datagramSource) send(ctx context.Context, conn net.Conn, count *counter) error {
	descriptor, err := raw(conn)
	if err != nil {
		return err
	}
	if s.rate > 0 {
		defer precise()()
	}
	b := newBatch(s.size)
	schedule := pace{rate: s.rate}
	sequence := uint64(0)
	for {
		n := schedule.next(ctx, batchSize)
		if n == 0 {
			return nil
		}
		for i := range n {
			putHeader(b.data[i], s.session, sequence+uint64(i))
		}
		sent, err := b.send(descriptor, n)
		if err != nil && !passing(err) {
			return err
		}
		sequence += uint64(sent)
		count.Store(sequence)
	}
}

func (s *datagramSource) tally() tally { return tally{sent: sum(s.sent)} }

func (*datagramSource) mark(bool)            {}
func (*datagramSource) add(*bench.Run) error { return nil }

// datagramSink counts datagrams, and by the gaps in their sequence those that are lost. What
// is lost at the very end, with nothing behind it, shows no gap.
type datagramSink struct {
	conns   []net.Conn
	session uint64
	size    int
	counts  []datagramCount // by connection
}

// datagramCount is of one connection. Lost is kept as a difference, for its parts
// would be read at two moments.
type datagramCount struct{ bytes, packets, lost counter }

func newDatagramSink(conns []net.Conn, session uint64, size int) *datagramSink {
	return &datagramSink{conns: conns, session: session, size: size, counts: make([]datagramCount, len(conns))}
}

func (s *datagramSink) run(ctx context.Context) error {
	defer closedBy(ctx, s.conns)()
	var g errgroup.Group
	for i, conn := range s.conns {
		g.Go(func() error {
			if err := s.receive(conn, &s.counts[i]); err != nil {
				return early(ctx, fmt.Errorf("stream %d of %d: receive: %w", i+1, len(s.conns), err))
			}
			return nil
		})
	}
	return g.Wait()
}

func (s *datagramSink) receive(conn net.Conn, count *datagramCount) error {
	descriptor, err := raw(conn)
	if err != nil {
		return err
	}
	b := newBatch(s.size)
	var next, packets, bytes uint64
	for {
		n, err := b.receive(descriptor)
		if err != nil && !passing(err) {
			return err
		}
		for i := range n {
			datagram := b.received(i)
			sequence, ok := parseHeader(datagram, s.session)
			if !ok {
				continue
			}
			next = max(next, sequence+1)
			packets++
			bytes += uint64(len(datagram))
		}
		count.packets.Store(packets)
		count.bytes.Store(bytes)
		count.lost.Store(next - min(next, packets)) // one that came twice hides a gap
	}
}

func (s *datagramSink) tally() (t tally) {
	for i := range s.counts {
		c := &s.counts[i]
		t.bytes += c.bytes.Load()
		t.packets += c.packets.Load()
		t.lost += c.lost.Load()
	}
	return t
}

func (*datagramSink) mark(bool)            {}
func (*datagramSink) add(*bench.Run) error { return nil }
