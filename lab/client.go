package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"
)

// Name returns the lab's name.
func (l *Lab) Name() string { return l.name }

// Close drops the connections to the lab, with those that Exec is opening. The lab stays up.
func (l *Lab) Close() error {
	l.mu.Lock()
	clients := l.clients
	l.clients, l.drops = make(map[string]*ssh.Client), l.drops+1
	l.mu.Unlock()
	var errs []error
	for _, c := range clients {
		errs = append(errs, closed(c)) // the lab may be gone
	}
	return errors.Join(errs...)
}

// statusTime bounds the wait for a supervisor that has nothing to do for it.
const statusTime = 20 * time.Second

// Status asks the lab what it looks like.
func (l *Lab) Status() (Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTime)
	defer cancel()
	conn, answer, err := l.paths.ask(ctx, request{Op: "status"})
	if err != nil {
		return Status{}, err
	}
	defer conn.Close()
	return *answer.Status, nil
}

// Nodes returns the lab's nodes as they are now.
func (l *Lab) Nodes() ([]Node, error) {
	st, err := l.Status()
	return st.Nodes, err
}

// ContainerRoot names a folder of this host with the root of a container: Debian's
// bash, iproute2, ping, iperf3 and their like, and busybox. It is a part of the
// nodes' image.
func (l *Lab) ContainerRoot() (string, error) {
	st, err := l.Status()
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	return filepath.Join(cache, "images", st.Image, "lab", "container"), err
}

// Link plugs the cable of a node's PF in, or pulls it. The PF is "pf1" or
// "pf2", or its interface or PCI address.
func (l *Lab) Link(node, pf string, up bool) error {
	return l.do(context.Background(), request{Op: "link", Node: node, PF: pf, Up: up})
}

// Kill cuts a node's power. Its disk stays as it is.
func (l *Lab) Kill(node string) error {
	return l.do(context.Background(), request{Op: "kill", Node: node})
}

// Start powers a node on that is off, and waits until it takes commands.
func (l *Lab) Start(ctx context.Context, node string) error {
	return l.do(ctx, request{Op: "start", Node: node})
}

// Reboot reboots a node in order, and waits until it takes commands again. A
// node that is off is powered on.
func (l *Lab) Reboot(ctx context.Context, node string) error {
	return l.do(ctx, request{Op: "reboot", Node: node})
}

func (l *Lab) do(ctx context.Context, r request) error {
	conn, _, err := l.paths.ask(ctx, r)
	if err != nil {
		return err
	}
	return conn.Close()
}

// A Cmd is a command for a node.
type Cmd struct {
	Argv           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer // nil drops them
	// TTY gives the command a terminal of this kind and size.
	TTY *TTY
}

// A TTY is a terminal for a command. Resized, if set, tells new sizes.
type TTY struct {
	Term          string
	Width, Height int
	Resized       <-chan [2]int
}

// Exec runs a command on a node as root and returns its exit status: 128 plus
// the signal's number if one ended it. When ctx ends, the command is killed.
// Without Argv it runs the login shell.
func (l *Lab) Exec(ctx context.Context, node string, c Cmd) (exit int, err error) {
	session, err := l.session(ctx, node)
	if err != nil {
		return 0, fmt.Errorf("exec on %s: %w", node, err)
	}
	defer session.Close()
	session.Stdin, session.Stdout, session.Stderr = c.Stdin, c.Stdout, c.Stderr
	if c.TTY != nil {
		if err := c.TTY.request(session); err != nil {
			return 0, fmt.Errorf("exec on %s: %w", node, err)
		}
	}
	if len(c.Argv) == 0 {
		err = session.Shell()
	} else {
		err = session.Start(quoteArgs(c.Argv))
	}
	if err != nil {
		return 0, fmt.Errorf("exec on %s: %w", node, err)
	}
	stop := context.AfterFunc(ctx, func() {
		_ = session.Signal(ssh.SIGKILL)
		_ = session.Close()
	})
	defer stop()
	err = session.Wait()
	var failed *ssh.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("exec on %s: %w", node, context.Cause(ctx))
	case errors.As(err, &failed):
		return failed.ExitStatus(), nil
	case err != nil:
		return 0, fmt.Errorf("exec on %s: %w", node, err)
	}
	return 0, nil
}

func (t *TTY) request(session *ssh.Session) error {
	if err := session.RequestPty(t.Term, t.Height, t.Width, ssh.TerminalModes{}); err != nil {
		return err
	}
	if t.Resized != nil {
		go func() { // ends with the caller's channel
			for size := range t.Resized {
				_ = session.WindowChange(size[1], size[0])
			}
		}()
	}
	return nil
}

// session opens a session on the connection that is kept to the node, and on a new one if
// that is gone. It holds no lock meanwhile: a node that hangs delays only its own callers.
func (l *Lab) session(ctx context.Context, node string) (*ssh.Session, error) {
	c, drops := l.client(node)
	if c != nil {
		if session, err := c.NewSession(); err == nil {
			return session, nil
		}
		l.drop(node, c)
	}
	c, err := l.dial(ctx, node)
	if err != nil {
		return nil, err
	}
	if c, err = l.keep(node, c, drops); err != nil {
		return nil, err
	}
	return c.NewSession()
}

// client returns the connection that is kept to the node, or nil, and how often Close was
// called before.
func (l *Lab) client(node string) (c *ssh.Client, drops int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clients[node], l.drops
}

// drop closes a connection that is gone, and forgets it.
func (l *Lab) drop(node string, c *ssh.Client) {
	l.mu.Lock()
	if l.clients[node] == c {
		delete(l.clients, node)
	}
	l.mu.Unlock()
	_ = closed(c) // the node is gone, or the caller hears of it as it connects again
}

// keep returns the connection that the node's sessions share: c, or the one that another
// caller opened meanwhile. It closes a connection that it does not keep. Close makes it fail
// if it was called after the dial began.
func (l *Lab) keep(node string, c *ssh.Client, drops int) (*ssh.Client, error) {
	l.mu.Lock()
	other, dropped := l.clients[node], l.drops != drops
	if other == nil && !dropped {
		l.clients[node] = c
	}
	l.mu.Unlock()
	switch {
	case dropped:
		return nil, errors.Join(fmt.Errorf("the connections to the lab %s were closed", l.name), closed(c))
	case other != nil:
		_ = closed(c) // it carried nothing
		return other, nil
	}
	return c, nil
}

// dial opens an SSH connection to a node, until ctx ends.
func (l *Lab) dial(ctx context.Context, node string) (*ssh.Client, error) {
	host, err := l.paths.readHostKey()
	if err != nil {
		return nil, err
	}
	conn, _, err := l.paths.ask(ctx, request{Op: "ssh", Node: node})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, node, &ssh.ClientConfig{
		User: "root", HostKeyCallback: ssh.FixedHostKey(host),
	})
	if !stop() {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return nil, errors.Join(err, closed(conn))
	}
	return ssh.NewClient(c, channels, requests), nil
}
