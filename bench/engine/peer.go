package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
)

// patience is how long the other end may take for work that it does at once.
const patience = 10 * time.Second

// errSilent is the error if the other end does not send the message that is due.
var errSilent = errors.New("it is silent")

// peer is the other end, over the control connection.
type peer struct {
	conn   net.Conn
	reader errgroup.Group
	got    chan message
	// lost says why got is closed. It is written before that.
	lost error
	stop func()
}

// listenTo makes conn, that has shown its ticket, a peer. The caller closes it.
func listenTo(ctx context.Context, conn net.Conn) *peer {
	ctx, cancel := context.WithCancel(ctx)
	p := &peer{conn: conn, got: make(chan message), stop: cancel}
	p.reader.Go(func() error {
		defer closedBy(ctx, []net.Conn{conn})()
		p.readMessages(ctx)
		return nil
	})
	return p
}

// close ends the control connection.
func (p *peer) close() {
	p.stop()
	p.conn.Close()
	_ = p.reader.Wait() // the reason why reading ended is in p.lost
}

// readMessages reads messages until the connection or ctx ends.
func (p *peer) readMessages(ctx context.Context) {
	defer close(p.got)
	lines := bufio.NewScanner(p.conn)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		m, err := parseMessage(lines.Bytes())
		if err == nil && m.Says == failed {
			err = fmt.Errorf("the other end, %s: %.500s", p.conn.RemoteAddr(), m.Error)
		}
		if err != nil {
			p.lost = err
			return
		}
		select {
		case p.got <- m:
		case <-ctx.Done():
			return
		}
	}
	err := lines.Err()
	if err == nil {
		err = io.EOF
	}
	p.lost = fmt.Errorf("the other end, %s, is gone: control connection: %w: see whether its program still runs and the path still carries", p.conn.RemoteAddr(), err)
}

func (p *peer) sendMessage(m message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("say %q: %w", m.Says, err)
	}
	_ = p.conn.SetWriteDeadline(time.Now().Add(patience)) // only a closed connection refuses, as Write reports
	if _, err := p.conn.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("tell the other end, %s: %w", p.conn.RemoteAddr(), err)
	}
	return nil
}

// reportFailure sends the other end the reason why there will be no figures, if it still reads.
func (p *peer) reportFailure(err error) { _ = p.sendMessage(message{Says: failed, Error: err.Error()}) }

// expectMessage waits for the one message that may come next.
func (p *peer) expectMessage(ctx context.Context, want said, within time.Duration) (message, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case m, open := <-p.got:
		switch {
		case !open && p.lost != nil:
			return m, p.lost
		case !open:
			return m, context.Cause(ctx)
		case m.Says != want:
			return m, fmt.Errorf("the other end, %s, says %q where %q is due: use one version of culvert at both ends", p.conn.RemoteAddr(), m.Says, want)
		}
		return m, nil
	case <-timer.C:
		return message{}, fmt.Errorf("the other end, %s, does not say %q within %s: %w", p.conn.RemoteAddr(), want, within, errSilent)
	case <-ctx.Done():
		return message{}, context.Cause(ctx)
	}
}

// waitQuietly lets d pass; it ends early with an error when ctx ends or the other end
// fails or speaks.
func (p *peer) waitQuietly(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case m, open := <-p.got:
		if open {
			return fmt.Errorf("the other end, %s, says %q in the middle of the window", p.conn.RemoteAddr(), m.Says)
		}
		return errors.Join(p.lost, context.Cause(ctx))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// causeOf returns the cause of ctx's end if ctx has ended, since errors of the connections that
// were closed for it do not explain anything. Otherwise it returns err.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
