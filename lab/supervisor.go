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

// A supervisor is the process that owns a lab. [Up] starts it in a network namespace of its own.
// Bridges and taps exist as long as that namespace, and the machines as long as the supervisor.
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
	// Restore says that the error is about a snapshot that cannot be loaded.
	Restore bool `json:"restore,omitempty"`
}

// Supervise is the main function of a lab's supervisor; dir is the run folder of the lab. It
// writes its progress to out. When the lab is ready, Supervise waits for one byte on lifeline. If
// lifeline ends without that byte, because the starter gave up or died, Supervise takes the lab
// down and returns.
func Supervise(ctx context.Context, dir string, lifeline io.Reader, out io.Writer) error {
	// Go would end a process that writes to a closed standard output, as the supervisor's is
	// after the starter's death. The supervisor has to take the lab down first.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	s := &supervisor{since: time.Now()}
	if err := readJSON(paths{run: dir}.configPath(), &s.conf); err != nil {
		return err
	}
	ctx, s.stop = context.WithCancel(ctx)
	defer s.stop()
	err := s.serveLab(ctx, lifeline, out)
	s.stop()
	for _, n := range s.nodes {
		if n.currentStatus().State != Off {
			err = errors.Join(err, n.cutPower())
		}
	}
	err = errors.Join(err, s.programs.endAll())
	_ = s.life.Wait()
	if err != nil {
		_ = writeLine(out, event{Error: err.Error(), Restore: errors.Is(err, errRestore)})
	}
	return errors.Join(err, s.conf.labPaths().removeFiles())
}

func (s *supervisor) serveLab(ctx context.Context, lifeline io.Reader, out io.Writer) error {
	committed := make(chan struct{})
	go func() { // ends when the starter has sent the byte or is gone
		if n, _ := lifeline.Read(make([]byte, 1)); n == 1 {
			close(committed)
			return
		}
		s.stop()
	}()
	if err := layWires(len(s.conf.Nodes), s.conf.Joined); err != nil {
		return err
	}
	listener, err := net.Listen("unix", s.conf.labPaths().socketPath())
	if err != nil {
		return fmt.Errorf("open the control socket: %w", err)
	}
	defer listener.Close() // however serveLab ends: acceptRequests waits for it
	stopListening := context.AfterFunc(ctx, func() { listener.Close() })
	defer stopListening()
	if err := s.prepareNodes(); err != nil {
		return errors.Join(err, listener.Close())
	}
	s.life.Go(func() error { s.acceptRequests(ctx, listener); return nil })
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

// prepareNodes makes the keys and disks of all nodes.
func (s *supervisor) prepareNodes() (err error) {
	if s.host, err = newKeyPair("supervisor"); err != nil {
		return err
	}
	if err := os.WriteFile(s.conf.labPaths().hostKey(), s.host.public, 0o600); err != nil {
		return fmt.Errorf("keep the supervisor's host key: %w", err)
	}
	if s.conf.Snapshot == "" {
		s.keys, err = newLabKeys(s.conf.Nodes)
	} else if err = readJSON(s.conf.startSnapshot().keysPath(), &s.keys); err != nil {
		err = fmt.Errorf("%w: %w", errRestore, err)
	}
	if err != nil {
		return err
	}
	for i := range s.conf.Nodes {
		n := newNode(s.conf, i+1, s.keys)
		if err := n.makeDisk(); err != nil {
			return err
		}
		s.nodes = append(s.nodes, n)
	}
	return nil
}

func (s *supervisor) bootAll(ctx context.Context, out io.Writer) error {
	from, does := snapshot{}, "booting"
	if s.conf.Snapshot != "" {
		from, does = s.conf.startSnapshot(), "restoring"
	}
	_ = writeLine(out, event{Step: fmt.Sprintf("%s %d nodes (%s)", does, len(s.nodes), s.conf.Accel)})
	var g errgroup.Group
	for _, n := range s.nodes {
		g.Go(func() error {
			if err := s.startNode(ctx, n, from); err != nil {
				s.stop()
				return err
			}
			return writeLine(out, event{Step: n.seen.Name + " takes commands"})
		})
	}
	return g.Wait()
}

// startNode powers a node on, from the snapshot unless from is the zero value, and waits until
// the node accepts commands. From then on until ctx ends, startNode powers the node on again
// whenever it asks for a reboot.
func (s *supervisor) startNode(ctx context.Context, n *node, from snapshot) error {
	r, err := n.powerOn(from)
	if err != nil {
		return err
	}
	s.life.Go(func() error { s.keepNode(ctx, n, r); return nil })
	return n.awaitReady(ctx, r)
}

// saveNodes writes all nodes to a snapshot, and then ends the programs, so that no node sees a
// program end. All are off afterwards.
func (s *supervisor) saveNodes(ctx context.Context, to snapshot) error {
	var g errgroup.Group
	for _, n := range s.nodes {
		g.Go(func() error { return n.saveNode(ctx, to) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return errors.Join(s.programs.endAll(), writeJSON(to.keysPath(), s.keys))
}

// keepNode serves a node, through its reboots, until it is off.
func (s *supervisor) keepNode(ctx context.Context, n *node, r *run) {
	for {
		n.attendRun(ctx, r)
		if !r.reset.Load() || ctx.Err() != nil {
			return
		}
		next, err := n.powerOn(snapshot{})
		if err != nil {
			n.noteError(err)
			return
		}
		r = next
	}
}

// rebootNode shuts a node down cleanly, boots it, and waits until it accepts commands again. It
// powers a node on that is off.
func (s *supervisor) rebootNode(ctx context.Context, n *node) error {
	if n.currentStatus().State == Off {
		return s.startNode(ctx, n, snapshot{})
	}
	client, r, err := n.currentConnection()
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
			n.seen.Name, rebootTime, n.seen.Name, readTail(n.conf.labPaths().consolePath(n.seen.Name)))
	}
	return n.awaitReady(ctx, nil)
}

// rebootTime bounds the shutdown of a node.
const rebootTime = 2 * time.Minute

// acceptRequests serves the control socket until the lab goes down.
func (s *supervisor) acceptRequests(ctx context.Context, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // closed
		}
		s.life.Go(func() error {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			defer conn.Close()
			return s.answerRequest(ctx, conn)
		})
	}
}

// answerRequest serves one request.
func (s *supervisor) answerRequest(ctx context.Context, conn net.Conn) error {
	var r request
	if err := readLine(conn, &r); err != nil {
		return err
	}
	if r.Op == "down" {
		return s.takeDown(conn)
	}
	client, err := s.handleRequest(ctx, r, conn)
	var answer response
	if err != nil {
		answer.Error = err.Error()
	} else {
		status := s.labStatus()
		answer.Status = &status
	}
	if err := writeLine(conn, answer); err != nil || client == nil {
		return err
	}
	return serveSSH(conn, s.host.signer, client)
}

// takeDown ends the lab. It answers first, and the client then waits until this process has
// ended.
func (s *supervisor) takeDown(conn net.Conn) error {
	err := writeLine(conn, response{})
	s.stop()
	return err
}

// handleRequest carries out a request. For "ssh" it returns the node's client, whose channels the
// caller carries.
func (s *supervisor) handleRequest(ctx context.Context, r request, conn net.Conn) (*ssh.Client, error) {
	switch r.Op {
	case "status":
		return nil, nil
	case "run":
		return nil, s.programs.runProgram(*r.Program, s.conf.labPaths().programLogPath(r.Program.Name))
	case "end":
		return nil, s.programs.endProgram(r.Program.Name)
	case "relay":
		return nil, s.relaySocket(ctx, conn, r.Target)
	case "route":
		return nil, addRoute(r.Target, s.conf.Nodes, r.Node)
	case "save":
		return nil, s.saveNodes(ctx, snapshot{r.Target})
	}
	n, err := s.findNode(r.Node)
	if err != nil {
		return nil, err
	}
	switch r.Op {
	case "link":
		return nil, n.setCable(r.PF, r.Up)
	case "kill":
		return nil, n.cutPower()
	case "start":
		return nil, s.startNode(ctx, n, snapshot{})
	case "reboot":
		return nil, s.rebootNode(ctx, n)
	case "ssh":
		client, _, err := n.currentConnection()
		return client, err
	}
	return nil, fmt.Errorf("unknown request %q", r.Op)
}

func (s *supervisor) findNode(name string) (*node, error) {
	for _, n := range s.nodes {
		if n.seen.Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("no node %q in the lab %s, which has %s", name, s.conf.Name, strings.Join(s.conf.Nodes, ", "))
}

func (s *supervisor) labStatus() Status {
	st := Status{Name: s.conf.Name, Image: s.conf.Image, Addition: s.conf.Addition, Supervisor: os.Getpid(), Since: s.since, Acceleration: s.conf.Acceleration,
		RunDir: filepath.Clean(s.conf.Run)}
	for _, n := range s.nodes {
		st.Nodes = append(st.Nodes, n.currentStatus())
	}
	st.Programs = s.programs.listPrograms()
	return st
}
