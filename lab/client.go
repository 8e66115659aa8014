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
		errs = append(errs, closeConn(c)) // the lab may be gone
	}
	return errors.Join(errs...)
}

// statusTime bounds the wait for an answer that costs the supervisor no work.
const statusTime = 20 * time.Second

// Status returns the present status of the lab.
func (l *Lab) Status() (Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTime)
	defer cancel()
	conn, answer, err := l.paths.sendRequest(ctx, request{Op: "status"})
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

// ContainerRoot returns the path of a folder of this host with the root of a container: bash,
// iproute2, ping, iperf3 and other tools of Debian, and busybox. The folder is a part of the
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
	return l.sendRequest(context.Background(), request{Op: "link", Node: node, PF: pf, Up: up})
}

// Kill cuts a node's power and leaves its disk as it is.
func (l *Lab) Kill(node string) error {
	return l.sendRequest(context.Background(), request{Op: "kill", Node: node})
}

// Start powers a node on that is off, and waits until it accepts commands.
func (l *Lab) Start(ctx context.Context, node string) error {
	return l.sendRequest(ctx, request{Op: "start", Node: node})
}

// Reboot shuts a node down cleanly, boots it, and waits until it accepts commands again. It
// powers a node on that is off.
func (l *Lab) Reboot(ctx context.Context, node string) error {
	return l.sendRequest(ctx, request{Op: "reboot", Node: node})
}

func (l *Lab) sendRequest(ctx context.Context, r request) error {
	conn, _, err := l.paths.sendRequest(ctx, r)
	if err != nil {
		return err
	}
	return conn.Close()
}

// A Cmd is a command for a node.
type Cmd struct {
	Argv           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer // nil drops them. They may be the same writer.
	// TTY is the terminal of the command; nil gives it none.
	TTY *TTY
}

// A TTY is a terminal for a command. Resized, if set, delivers new sizes.
type TTY struct {
	Term          string
	Width, Height int
	Resized       <-chan [2]int
}

// Exec runs a command on a node as root and returns its exit status: 128 plus
// the signal's number if one ended it. When ctx ends, the command is killed.
// Without Argv it runs the login shell.
func (l *Lab) Exec(ctx context.Context, node string, c Cmd) (exit int, err error) {
	session, err := l.openSession(ctx, node)
	if err != nil {
		return 0, fmt.Errorf("exec on %s: %w", node, err)
	}
	defer session.Close()
	session.Stdin = c.Stdin
	session.Stdout, session.Stderr = lockShared(c.Stdout, c.Stderr)
	if c.TTY != nil {
		if err := c.TTY.requestTerminal(session); err != nil {
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

func (t *TTY) requestTerminal(session *ssh.Session) error {
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

// openSession opens a session on the cached connection to the node, or on a new connection if
// that one is gone. It holds no lock meanwhile: a node that hangs delays only its own callers.
func (l *Lab) openSession(ctx context.Context, node string) (*ssh.Session, error) {
	c, drops := l.keptClient(node)
	if c != nil {
		if session, err := c.NewSession(); err == nil {
			return session, nil
		}
		l.dropClient(node, c)
	}
	c, err := l.dialNode(ctx, node)
	if err != nil {
		return nil, err
	}
	if c, err = l.keepClient(node, c, drops); err != nil {
		return nil, err
	}
	return c.NewSession()
}

// keptClient returns the cached connection to the node, or nil, and how often Close was called so
// far.
func (l *Lab) keptClient(node string) (c *ssh.Client, drops int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clients[node], l.drops
}

// dropClient closes a broken connection, and removes it from the cache.
func (l *Lab) dropClient(node string, c *ssh.Client) {
	l.mu.Lock()
	if l.clients[node] == c {
		delete(l.clients, node)
	}
	l.mu.Unlock()
	_ = closeConn(c) // if this fails, the node is gone, or the next connection fails too
}

// keepClient returns the connection that the node's sessions share: c, or one that another caller
// opened meanwhile. It closes c if it does not keep it. It fails if Close was called after the
// dial began.
func (l *Lab) keepClient(node string, c *ssh.Client, drops int) (*ssh.Client, error) {
	l.mu.Lock()
	other, dropped := l.clients[node], l.drops != drops
	if other == nil && !dropped {
		l.clients[node] = c
	}
	l.mu.Unlock()
	switch {
	case dropped:
		return nil, errors.Join(fmt.Errorf("the connections to the lab %s were closed", l.name), closeConn(c))
	case other != nil:
		_ = closeConn(c) // the connection carried nothing
		return other, nil
	}
	return c, nil
}

// dialNode opens an SSH connection to a node, until ctx ends.
func (l *Lab) dialNode(ctx context.Context, node string) (*ssh.Client, error) {
	host, err := l.paths.readHostKey()
	if err != nil {
		return nil, err
	}
	conn, _, err := l.paths.sendRequest(ctx, request{Op: "ssh", Node: node})
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
		return nil, errors.Join(err, closeConn(conn))
	}
	return ssh.NewClient(c, channels, requests), nil
}
