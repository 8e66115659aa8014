package engine

import (
	"context"
	"fmt"
	"io"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
)

// answerer sends every question back.
type answerer struct {
	conns   []net.Conn
	session uint64
	size    int
}

func (a *answerer) carryTraffic(ctx context.Context) error {
	defer closedBy(ctx, a.conns)()
	var g errgroup.Group
	for i, conn := range a.conns {
		g.Go(func() error {
			echo := a.echoStream
			if _, datagrams := conn.(*net.UDPConn); datagrams {
				echo = a.echoDatagrams
			}
			return reportEarlyEnd(ctx, fmt.Errorf("stream %d of %d: answer: %w", i+1, len(a.conns), echo(conn)))
		})
	}
	return g.Wait()
}

func (a *answerer) echoStream(conn net.Conn) error {
	question := make([]byte, a.size)
	for {
		if _, err := io.ReadFull(conn, question); err != nil {
			return err
		}
		if _, err := conn.Write(question); err != nil {
			return err
		}
	}
}

func (a *answerer) echoDatagrams(conn net.Conn) error {
	question := make([]byte, a.size)
	for {
		n, err := conn.Read(question)
		if err != nil && !isPassing(err) {
			return err
		}
		if _, ok := parseHeader(question[:n], a.session); !ok {
			continue
		}
		if _, err := conn.Write(question[:n]); err != nil && !isPassing(err) {
			return err
		}
	}
}

func (*answerer) readTally() tally            { return tally{} }
func (*answerer) markWindow(bool)             {}
func (*answerer) addFigures(*bench.Run) error { return nil }
