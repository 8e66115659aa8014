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

// Close drops the connections to the lab. The lab stays up.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for name, c := range l.clients {
		errs = append(errs, closed(c)) // the lab may be gone
		delete(l.clients, name)
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
	session, err := l.session(node)
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

// session opens a session on the connection that is kept to the node, and on
// a new one if that is gone.
func (l *Lab) session(node string) (*ssh.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.clients[node]; c != nil {
		if session, err := c.NewSession(); err == nil {
			return session, nil
		}
		c.Close()
		delete(l.clients, node)
	}
	c, err := l.dial(node)
	if err != nil {
		return nil, err
	}
	l.clients[node] = c
	return c.NewSession()
}

// Dial opens an SSH connection to a node, for what Exec does not do.
func (l *Lab) dial(node string) (*ssh.Client, error) {
	conn, _, err := l.paths.ask(context.Background(), request{Op: "ssh", Node: node})
	if err != nil {
		return nil, err
	}
	// The socket's folder is the caller's alone: there is nobody to tell apart.
	c, channels, requests, err := ssh.NewClientConn(conn, node, &ssh.ClientConfig{
		User: "root", HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return ssh.NewClient(c, channels, requests), nil
}
