package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// connector asks each question on a TCP connection of its own, which the other end closes: so
// no port of this end is left waiting (TIME_WAIT), however many questions there are. Each
// stream has one connection at a time.
type connector struct {
	*asker
	dial  func(ctx context.Context, dscp int, stream uint32, question []byte) (net.Conn, error)
	dscp  int
	space namespace
}

// openConnector returns a connector for the network namespace of the calling goroutine's thread. The
// caller must close its space.
func (c client) openConnector(w bench.Workload) (*connector, error) {
	space, err := openNamespace()
	return &connector{asker: newAsker(make([]net.Conn, w.Streams), c.session, w), dial: c.dialQuestion, dscp: w.DSCP, space: space}, err
}

func (c *connector) carryTraffic(ctx context.Context) error {
	defer close(c.finished)
	var g errgroup.Group
	begun := time.Now()
	for i := range c.counts {
		g.Go(func() error {
			question, answer := make([]byte, c.size), make([]byte, c.size)
			err := c.space.runInside(func() error {
				return c.askQuestions(ctx, c.firstDue(begun, i), &c.counts[i], func(number uint64) error {
					putHeader(question, c.session, number)
					return c.askOne(ctx, uint32(i), question, answer, number)
				})
			})
			if err != nil {
				return reportEarlyEnd(ctx, fmt.Errorf("stream %d of %d: connect and ask: %w", i+1, len(c.counts), err))
			}
			return nil
		})
	}
	return g.Wait()
}

// askOne connects, asks, and waits for the answer and the end of the connection, for connectTime at most.
func (c *connector) askOne(ctx context.Context, stream uint32, question, answer []byte, number uint64) error {
	until := time.Now().Add(connectTime)
	bounded, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	conn, err := c.dial(bounded, c.dscp, stream, question)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer closedBy(ctx, []net.Conn{conn})()
	_ = conn.SetDeadline(until) // only a closed one refuses, as Read reports
	if err := waitForAnswer(conn, answer, c.session, number); err != nil {
		return err
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("after the answer came %d bytes and not the end of the connection: %w", n, err)
	}
	return nil
}

// namespace is the network namespace of a thread. The zero value is that of the process.
type namespace struct{ file *os.File }

// openNamespace opens the network namespace of the calling goroutine's thread. Without privileges
// all threads are in that of the process, as in an agent.
func openNamespace() (namespace, error) {
	process, err := os.Stat("/proc/self/ns/net")
	if err != nil {
		return namespace{}, err
	}
	thread, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil || os.SameFile(process, thread) {
		return namespace{}, err
	}
	f, err := os.Open("/proc/thread-self/ns/net")
	return namespace{f}, err
}

// runInside calls a function in the namespace.
func (n namespace) runInside(fn func() error) error {
	if n.file == nil {
		return fn()
	}
	return netns.Run(fmt.Sprintf("/proc/self/fd/%d", n.file.Fd()), fn)
}

func (n namespace) close() error {
	if n.file == nil {
		return nil
	}
	return n.file.Close()
}

// answerOnce sends one question back and closes the connection. The end that asks reports the error
// of a connection that fails.
func answerOnce(ctx context.Context, conn net.Conn, size int) {
	defer conn.Close()
	defer closedBy(ctx, []net.Conn{conn})()
	question := make([]byte, size)
	_ = conn.SetDeadline(time.Now().Add(patience)) // only a closed one refuses, as ReadFull reports
	if _, err := io.ReadFull(conn, question); err == nil {
		_, _ = conn.Write(question)
	}
}
