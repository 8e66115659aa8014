package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"
)

// A supervisor is the process that owns a lab. It was started by [Up] in a
// network namespace of its own; bridges and taps live as long as that, and the
// machines as long as the supervisor.
type supervisor struct {
	conf  config
	since time.Time
	nodes []*node
	keys  labKeys
	host  keyPair // what serveSSH shows
	stop  context.CancelFunc
	life  errgroup.Group // all that runs as long as the lab

	programs programs
}

// An event is a line from the supervisor to the process that started it.
type event struct {
	Step  string `json:"step,omitempty"`
	Ready bool   `json:"ready,omitempty"`
	Error string `json:"error,omitempty"`
	// Restore says that the error is of a snapshot that does not load.
	Restore bool `json:"restore,omitempty"`
}

// Supervise is the main function of a lab's supervisor: the run folder of the
// lab is dir. It tells its progress on out, and when the lab is ready waits for
// one byte on lifeline. Without that byte, when whoever brings the lab up gave
// up or died, it takes the lab down and returns.
func Supervise(ctx context.Context, dir string, lifeline io.Reader, out io.Writer) error {
	// Go ends a process that writes to a closed standard output, as ours is
	// when the starter died: this one has a lab to take down first.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	s := &supervisor{since: time.Now()}
	if err := readJSON(paths{run: dir}.config(), &s.conf); err != nil {
		return err
	}
	ctx, s.stop = context.WithCancel(ctx)
	defer s.stop()
	err := s.serve(ctx, lifeline, out)
	s.stop()
	for _, n := range s.nodes {
		if n.status().State != Off {
			err = errors.Join(err, n.kill())
		}
	}
	err = errors.Join(err, s.programs.endAll())
	_ = s.life.Wait()
	if err != nil {
		_ = writeLine(out, event{Error: err.Error(), Restore: errors.Is(err, errRestore)})
	}
	return errors.Join(err, s.conf.paths().remove())
}

func (s *supervisor) serve(ctx context.Context, lifeline io.Reader, out io.Writer) error {
	committed := make(chan struct{})
	go func() { // ends when the starter has spoken or is gone
		if n, _ := lifeline.Read(make([]byte, 1)); n == 1 {
			close(committed)
			return
		}
		s.stop()
	}()
	if err := layWires(len(s.conf.Nodes), s.conf.Joined); err != nil {
		return err
	}
	listener, err := net.Listen("unix", s.conf.paths().socket())
	if err != nil {
		return fmt.Errorf("open the control socket: %w", err)
	}
	defer listener.Close() // however serve ends: accept waits for it
	stopListening := context.AfterFunc(ctx, func() { listener.Close() })
	defer stopListening()
	if err := s.prepare(); err != nil {
		return errors.Join(err, listener.Close())
	}
	s.life.Go(func() error { s.accept(ctx, listener); return nil })
	if err := s.bootAll(ctx, out); err != nil {
		return err
	}
	if err := writeLine(out, event{Ready: true}); err != nil {
		return err
	}
	select {
	case <-committed:
	case <-ctx.Done():
		return nil
	}
	<-ctx.Done()
	return nil
}

// prepare makes the keys and disks of all nodes.
func (s *supervisor) prepare() (err error) {
	if s.host, err = newKeyPair("supervisor"); err != nil {
		return err
	}
	if err := os.WriteFile(s.conf.paths().hostKey(), s.host.public, 0o600); err != nil {
		return fmt.Errorf("keep the supervisor's host key: %w", err)
	}
	if s.conf.Snapshot == "" {
		s.keys, err = newLabKeys(s.conf.Nodes)
	} else if err = readJSON(s.conf.snapshot().keys(), &s.keys); err != nil {
		err = fmt.Errorf("%w: %w", errRestore, err)
	}
	if err != nil {
		return err
	}
	for i := range s.conf.Nodes {
		n := newNode(s.conf, i+1, s.keys)
		if err := n.prepare(); err != nil {
			return err
		}
		s.nodes = append(s.nodes, n)
	}
	return nil
}

func (s *supervisor) bootAll(ctx context.Context, out io.Writer) error {
	from, does := snapshot{}, "booting"
	if s.conf.Snapshot != "" {
		from, does = s.conf.snapshot(), "restoring"
	}
	_ = writeLine(out, event{Step: fmt.Sprintf("%s %d nodes (%s)", does, len(s.nodes), s.conf.Accel)})
	var g errgroup.Group
	for _, n := range s.nodes {
		g.Go(func() error {
			if err := s.start(ctx, n, from); err != nil {
				s.stop()
				return err
			}
			return writeLine(out, event{Step: n.seen.Name + " takes commands"})
		})
	}
	return g.Wait()
}

// start powers a node on, from the snapshot unless that is the zero one, and waits until it takes
// commands. From then on, for the lab's life, which is that of ctx, the node is powered on again
// whenever it asks for a reboot.
func (s *supervisor) start(ctx context.Context, n *node, from snapshot) error {
	r, err := n.powerOn(from)
	if err != nil {
		return err
	}
	s.life.Go(func() error { s.keep(ctx, n, r); return nil })
	return n.await(ctx, r)
}

// save writes all nodes to a snapshot, and ends the programs. All are off afterwards. The nodes come
// first, so that none of them sees a program end.
func (s *supervisor) save(ctx context.Context, to snapshot) error {
	var g errgroup.Group
	for _, n := range s.nodes {
		g.Go(func() error { return n.save(ctx, to) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return errors.Join(s.programs.endAll(), writeJSON(to.keys(), s.keys))
}

// keep attends to a node, through its reboots, until it is off.
func (s *supervisor) keep(ctx context.Context, n *node, r *run) {
	for {
		n.attend(ctx, r)
		if !r.reset.Load() || ctx.Err() != nil {
			return
		}
		next, err := n.powerOn(snapshot{})
		if err != nil {
			n.note(err)
			return
		}
		r = next
	}
}

// reboot reboots a node in order and waits until it takes commands again. A
// node that is off is powered on.
func (s *supervisor) reboot(ctx context.Context, n *node) error {
	if n.status().State == Off {
		return s.start(ctx, n, snapshot{})
	}
	client, r, err := n.connected()
	if err != nil {
		return fmt.Errorf("reboot %s: %w", n.seen.Name, err)
	}
	session, err := client.NewSession()
	if err != nil {
		return fmt.Errorf("reboot %s: %w", n.seen.Name, err)
	}
	_ = session.Run("systemctl reboot") // the connection may end before the command does
	session.Close()
	select {
	case <-r.ended:
	case <-ctx.Done():
		return fmt.Errorf("reboot %s: %w", n.seen.Name, context.Cause(ctx))
	case <-time.After(rebootTime):
		return fmt.Errorf("reboot %s: still on after %s; culvert lab kill %s cuts its power. Its console ends with:\n%s",
			n.seen.Name, rebootTime, n.seen.Name, tail(n.conf.paths().console(n.seen.Name)))
	}
	return n.await(ctx, nil)
}

// rebootTime bounds a node's way down.
const rebootTime = 2 * time.Minute

// accept serves the control socket until the lab goes down.
func (s *supervisor) accept(ctx context.Context, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // closed
		}
		s.life.Go(func() error {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			defer conn.Close()
			return s.answer(ctx, conn)
		})
	}
}

// answer serves one request.
func (s *supervisor) answer(ctx context.Context, conn net.Conn) error {
	var r request
	if err := readLine(conn, &r); err != nil {
		return err
	}
	if r.Op == "down" {
		return s.down(conn)
	}
	client, err := s.handle(ctx, r, conn)
	var answer response
	if err != nil {
		answer.Error = err.Error()
	} else {
		status := s.status()
		answer.Status = &status
	}
	if err := writeLine(conn, answer); err != nil || client == nil {
		return err
	}
	return serveSSH(conn, s.host.signer, client)
}

// down ends the lab. The answer comes before the end: the client then waits
// for this process to be gone.
func (s *supervisor) down(conn net.Conn) error {
	err := writeLine(conn, response{})
	s.stop()
	return err
}

// handle does what a request asks. A client to carry is returned for "ssh".
func (s *supervisor) handle(ctx context.Context, r request, conn net.Conn) (*ssh.Client, error) {
	switch r.Op {
	case "status":
		return nil, nil
	case "run":
		return nil, s.programs.run(*r.Program, s.conf.paths().program(r.Program.Name))
	case "end":
		return nil, s.programs.end(r.Program.Name)
	case "relay":
		return nil, s.relay(ctx, conn, r.Target)
	case "route":
		return nil, addRoute(r.Target, s.conf.Nodes, r.Node)
	case "save":
		return nil, s.save(ctx, snapshot{r.Target})
	}
	n, err := s.find(r.Node)
	if err != nil {
		return nil, err
	}
	switch r.Op {
	case "link":
		return nil, n.link(r.PF, r.Up)
	case "kill":
		return nil, n.kill()
	case "start":
		return nil, s.start(ctx, n, snapshot{})
	case "reboot":
		return nil, s.reboot(ctx, n)
	case "ssh":
		client, _, err := n.connected()
		return client, err
	}
	return nil, fmt.Errorf("unknown request %q", r.Op)
}

func (s *supervisor) find(name string) (*node, error) {
	for _, n := range s.nodes {
		if n.seen.Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("no node %q in the lab %s, which has %s", name, s.conf.Name, strings.Join(s.conf.Nodes, ", "))
}

func (s *supervisor) status() Status {
	st := Status{Name: s.conf.Name, Image: s.conf.Image, Guests: s.conf.Guests, Supervisor: os.Getpid(), Since: s.since, Acceleration: s.conf.Acceleration,
		RunDir: filepath.Clean(s.conf.Run)}
	for _, n := range s.nodes {
		st.Nodes = append(st.Nodes, n.status())
	}
	st.Programs = s.programs.status()
	return st
}
