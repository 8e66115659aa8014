package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
)

// headerSize is the part of a datagram or a question that this package writes: the session and a
// sequence number from 0, both big-endian, 8 bytes each.
const headerSize = 16

func putHeader(b []byte, session, sequence uint64) {
	binary.BigEndian.PutUint64(b, session)
	binary.BigEndian.PutUint64(b[8:], sequence)
}

// parseHeader returns the sequence number. It returns false for a datagram without this session: a
// ticket that was sent again, or another program's datagram.
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

func (s *datagramSource) carryTraffic(ctx context.Context) error {
	defer closedBy(ctx, s.conns)()
	var g errgroup.Group
	for i, conn := range s.conns {
		g.Go(func() error {
			if err := s.sendDatagrams(ctx, conn, &s.sent[i]); err != nil {
				return reportEarlyEnd(ctx, fmt.Errorf("stream %d of %d: send a datagram of %d bytes: %w", i+1, len(s.conns), s.size, err))
			}
			return nil
		})
	}
	return g.Wait()
}

func (s *datagramSource) sendDatagrams(ctx context.Context, conn net.Conn, count *counter) error {
	descriptor, err := rawConn(conn)
	if err != nil {
		return err
	}
	if s.rate > 0 {
		defer wakePrecisely()()
	}
	b := newBatch(s.size)
	schedule := pace{rate: s.rate}
	sequence := uint64(0)
	for {
		n := schedule.nextDue(ctx, batchSize)
		if n == 0 {
			return nil
		}
		for i := range n {
			putHeader(b.data[i], s.session, sequence+uint64(i))
		}
		sent, err := b.sendBatch(descriptor, n)
		if err != nil && !isPassing(err) {
			return err
		}
		sequence += uint64(sent)
		count.Store(sequence)
	}
}

func (s *datagramSource) readTally() tally { return tally{sent: sumCounters(s.sent)} }

func (*datagramSource) markWindow(bool)             {}
func (*datagramSource) addFigures(*bench.Run) error { return nil }

// datagramSink counts datagrams, and finds lost ones by the gaps in their sequence. Datagrams
// that are lost at the very end leave no gap.
type datagramSink struct {
	conns   []net.Conn
	session uint64
	size    int
	counts  []datagramCount // by connection
}

// datagramCount has the counts of one connection. It keeps lost as a difference, since the two
// parts of that would be read at two moments.
type datagramCount struct{ bytes, packets, lost counter }

func newDatagramSink(conns []net.Conn, session uint64, size int) *datagramSink {
	return &datagramSink{conns: conns, session: session, size: size, counts: make([]datagramCount, len(conns))}
}

func (s *datagramSink) carryTraffic(ctx context.Context) error {
	defer closedBy(ctx, s.conns)()
	var g errgroup.Group
	for i, conn := range s.conns {
		g.Go(func() error {
			if err := s.receiveDatagrams(conn, &s.counts[i]); err != nil {
				return reportEarlyEnd(ctx, fmt.Errorf("stream %d of %d: receive: %w", i+1, len(s.conns), err))
			}
			return nil
		})
	}
	return g.Wait()
}

func (s *datagramSink) receiveDatagrams(conn net.Conn, count *datagramCount) error {
	descriptor, err := rawConn(conn)
	if err != nil {
		return err
	}
	b := newBatch(s.size)
	var next, packets, bytes uint64
	for {
		n, err := b.receiveBatch(descriptor)
		if err != nil && !isPassing(err) {
			return err
		}
		for i := range n {
			datagram := b.datagramAt(i)
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
		count.lost.Store(next - min(next, packets)) // a datagram that came twice hides a gap
	}
}

func (s *datagramSink) readTally() (t tally) {
	for i := range s.counts {
		c := &s.counts[i]
		t.bytes += c.bytes.Load()
		t.packets += c.packets.Load()
		t.lost += c.lost.Load()
	}
	return t
}

func (*datagramSink) markWindow(bool)             {}
func (*datagramSink) addFigures(*bench.Run) error { return nil }
