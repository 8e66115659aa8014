package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// MaxNodes is the most nodes that a lab can have.
const MaxNodes = 4

// Options describes the lab to bring up. The zero value means the lab "culvert" with two nodes.
type Options struct {
	Name  string
	Nodes int
	// Names has a name for each node; the default is worker01 and up.
	Names []string
	// CPUs is the number of processors of each node; 0 means 1.
	CPUs int
	// Addition is what the nodes' image has besides that of all nodes.
	Addition Addition
	// AppArmor turns AppArmor on in the nodes' kernel. Only container runtimes load a profile
	// there.
	AppArmor bool
	// PCIRoots is the number of PCIe roots above the PFs of a node: 2, or 1 which is the
	// default.
	PCIRoots int
	// JoinWires links the two switches, so that all PFs are on one L2 segment.
	JoinWires bool
	// NoSnapshot makes the nodes boot. Otherwise they start from a snapshot, which the first lab
	// of this kind takes.
	NoSnapshot bool
	// Progress receives a line for each step; nil shows nothing.
	Progress io.Writer
	// Up calls Prepare before it makes the lab. Prepare returns the software that the nodes have
	// besides that of their image.
	Prepare func(ctx context.Context, step func(format string, args ...any)) (Software, error)
	// Up calls Finish when the nodes accept commands, while the lab still depends on the calling
	// process. If Finish fails, or the process dies in it, the supervisor removes the lab. Up
	// shows the text given to step as progress.
	Finish func(ctx context.Context, l *Lab, step func(format string, args ...any)) error
	// Bound makes the lab go down when the calling process ends for any reason. Otherwise it
	// stays up until [Down].
	Bound bool

	base       string // the file that the nodes' disks are layered on, if it is known already
	keepMemory bool   // for a lab that a snapshot is taken of
}

// nodeHostName matches a label of RFC 1123, as Kubernetes demands.
var nodeHostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// nameNodes sets the defaults of the number of nodes and their names, and checks them.
func (o *Options) nameNodes() error {
	if o.Nodes == 0 {
		if o.Nodes = len(o.Names); o.Nodes == 0 {
			o.Nodes = 2
		}
	}
	if o.Nodes < 1 || o.Nodes > MaxNodes {
		return fmt.Errorf("%d nodes: want 1 to %d", o.Nodes, MaxNodes)
	}
	if o.PCIRoots < 0 || o.PCIRoots > 2 {
		return fmt.Errorf("%d PCIe roots: want 1 or 2", o.PCIRoots)
	}
	if len(o.Names) == 0 {
		for i := range o.Nodes {
			o.Names = append(o.Names, nodeName(i+1))
		}
	}
	if len(o.Names) != o.Nodes {
		return fmt.Errorf("%d names for %d nodes: want one each", len(o.Names), o.Nodes)
	}
	for i, name := range o.Names {
		if !nodeHostName.MatchString(name) {
			return fmt.Errorf("node name %q: want lower-case letters, digits and dashes within, at most 63", name)
		}
		if slices.Contains(o.Names[:i], name) || name == "localhost" {
			return fmt.Errorf("node name %q: it is taken", name)
		}
	}
	return nil
}

// ErrDown is returned for a lab that is not up.
var ErrDown = errors.New("the lab is not up")

// A Lab is a connection to a lab that is up. It is safe for use by several goroutines. Close
// leaves the lab up.
type Lab struct {
	name  string
	paths paths

	lifeline io.Closer // of a bound lab, which goes down when lifeline is closed

	mu      sync.Mutex // guards what follows; it is not held while a node is asked
	clients map[string]*ssh.Client
	drops   int // how often Close was called
}

// Up brings a lab up and returns when its nodes accept commands. If a lab of the same name and
// kind is up already, Up returns that one. If ctx ends first, or the calling process dies, the
// lab is removed.
//
// The lab's supervisor is the calling program run again: see [Reexec].
func Up(ctx context.Context, o Options) (*Lab, error) {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if err := o.nameNodes(); err != nil {
		return nil, fmt.Errorf("bring up the lab %s: %w", o.Name, err)
	}
	paths, err := labPaths(o.Name)
	if err != nil {
		return nil, err
	}
	p, end := stepsTo(o.Progress)
	defer end()
	if err := os.MkdirAll(filepath.Dir(paths.lock), 0o755); err != nil {
		return nil, fmt.Errorf("bring up the lab %s: %w", o.Name, err)
	}
	unlock, err := lockFile(ctx, paths.lock, func() { p.Step("another command brings the lab up or down: waiting for it") })
	if err != nil {
		return nil, fmt.Errorf("bring up the lab %s: %w", o.Name, err)
	}
	defer unlock()
	l := &Lab{name: o.Name, paths: paths, clients: make(map[string]*ssh.Client)}
	if st, err := l.Status(); err == nil {
		return l, sameLab(st, o)
	}
	if err := paths.endLab(); err != nil {
		return nil, fmt.Errorf("clear what an earlier lab %s left: %w", o.Name, err)
	}
	if err := l.createLab(ctx, p, o); err != nil {
		return nil, fmt.Errorf("bring up the lab %s: %w", o.Name, err)
	}
	p.Step("the lab %s is up", o.Name)
	return l, nil
}

func sameLab(st Status, o Options) error {
	var have []string
	for _, n := range st.Nodes {
		have = append(have, n.Name)
	}
	if o.Addition != "" && o.Addition != st.Addition {
		return fmt.Errorf("bring up the lab %s: it is up with nodes of an image without %s; take it down first, or give another --name", o.Name, o.Addition)
	}
	if slices.Equal(have, o.Names) {
		return nil
	}
	return fmt.Errorf("bring up the lab %s with %s: it is up with %s; take it down first, or give another --name",
		o.Name, strings.Join(o.Names, ", "), strings.Join(have, ", "))
}

// createLab makes the lab's folders and starts its supervisor.
func (l *Lab) createLab(ctx context.Context, p *Steps, o Options) error {
	var software Software
	if o.Prepare != nil {
		var err error
		if software, err = o.Prepare(ctx, p.Step); err != nil {
			return err
		}
	}
	img, err := findImage(ctx, p, o.Addition)
	if err != nil {
		return err
	}
	base := o.base
	if base == "" {
		if base, err = software.Layer.findDisk(ctx, p, img, o.Addition); err != nil {
			return err
		}
	}
	conf := config{
		Name: o.Name, Nodes: o.Names, CPUs: max(o.CPUs, 1), Addition: o.Addition, AppArmor: o.AppArmor, Image: img.hash, Dir: img.dir, Base: base,
		Run: l.paths.run, Disks: l.paths.disks, PCIRoots: max(o.PCIRoots, 1), Joined: o.JoinWires, KeepMemory: o.keepMemory,
		Acceleration: probeAccel(ctx, img),
	}
	if o.NoSnapshot {
		return l.startLab(ctx, p, o, conf, software.Setup)
	}
	for try := 1; ; try++ {
		s, err := conf.findSnapshot(ctx, p, software.Setup)
		if err != nil {
			return err
		}
		conf.Snapshot = s.dir
		err = l.startLab(ctx, p, o, conf, software.Setup)
		if !errors.Is(err, errRestore) || try == 2 || ctx.Err() != nil {
			return err
		}
		p.Step("%v: it is taken anew", err)
		if err := s.removeFiles(); err != nil {
			return err
		}
	}
}

// startLab makes the lab's folders, starts its supervisor, and waits until the nodes are set up.
func (l *Lab) startLab(ctx context.Context, p *Steps, o Options, conf config, setup *Setup) error {
	if err := l.paths.makeRun(); err != nil {
		return err
	}
	for _, dir := range []string{l.paths.disks, l.paths.sharePath()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	err := writeJSON(l.paths.configPath(), conf)
	if err == nil && setup != nil && conf.Snapshot != "" {
		err = snapshot{conf.Snapshot}.restoreFolder(filepath.Join(l.paths.disks, setup.Folder))
		setup = nil // the snapshot was taken after the setup
	}
	if err == nil {
		err = l.startSupervisor(ctx, p, o, setup)
	}
	if err != nil {
		return errors.Join(err, l.paths.endLab())
	}
	return nil
}

// startSupervisor starts the supervisor, waits until it reports that the lab is ready, and runs
// setup and Finish. Only then does the supervisor outlive the calling process, and that of a
// bound lab never does.
func (l *Lab) startSupervisor(ctx context.Context, p *Steps, o Options, setup *Setup) (err error) {
	log, err := os.OpenFile(l.paths.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe", supervise, l.paths.run)
	cmd.Args[0] = "culvert-lab"
	cmd.Dir = "/"
	cmd.Stderr = log
	cmd.SysProcAttr = supervisorAttr()
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer func() {
		if l.lifeline == nil {
			lifeline.Close()
		}
	}()
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	owner, err := findProcess(cmd.Process.Pid)
	if err == nil {
		err = writeJSON(l.paths.ownerPath(), owner)
	}
	if err == nil {
		stop := context.AfterFunc(ctx, func() { lifeline.Close() }) // the supervisor then takes the lab down
		err = showEvents(events, p)
		if err == nil {
			err = setup.runSetup(ctx, l, p.Step)
		}
		if err == nil && o.Finish != nil {
			err = o.Finish(ctx, l, p.Step)
		}
		stop()
	}
	if err == nil && ctx.Err() == nil && !o.Bound {
		_, err = lifeline.Write([]byte{1})
	}
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		lifeline.Close()
		return errors.Join(err, awaitSupervisor(cmd, owner))
	}
	if o.Bound {
		l.lifeline = lifeline
	}
	return cmd.Process.Release()
}

// awaitSupervisor waits until a supervisor that takes its lab down has ended.
func awaitSupervisor(cmd *exec.Cmd, owner process) error {
	impatient := time.AfterFunc(downTime, func() { _ = owner.killAndWait(unix.SIGKILL, 0) })
	defer impatient.Stop()
	_ = cmd.Wait() // the supervisor's events have the reason of its end
	return nil
}

// downTime bounds the time in which a supervisor takes its lab down by itself.
const downTime = 15 * time.Second

// supervisorAttr gives the supervisor its namespaces: one for the network, and
// without root a user namespace that allows it.
func supervisorAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// showEvents shows a supervisor's events until the lab is ready.
func showEvents(r io.Reader, p *Steps) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return fmt.Errorf("the supervisor says %q: %w", in.Text(), err)
		}
		switch {
		case e.Restore:
			return fmt.Errorf("%w: %s", errRestore, e.Error)
		case e.Error != "":
			return errors.New(e.Error)
		case e.Ready:
			return nil
		}
		p.Step("%s", e.Step)
	}
	return errors.New("the supervisor ended")
}

// Open returns a lab that is up. The error is [ErrDown] if it is not.
func Open(name string) (*Lab, error) {
	if name == "" {
		name = DefaultName
	}
	paths, err := labPaths(name)
	if err != nil {
		return nil, err
	}
	l := &Lab{name: name, paths: paths, clients: make(map[string]*ssh.Client)}
	if _, err := l.Status(); err != nil {
		return nil, fmt.Errorf("open the lab %s: %w (culvert lab up brings it up): %w", name, ErrDown, err)
	}
	return l, nil
}

// Down takes the lab down: machines, disks, sockets and logs. It also removes the remains of a
// lab whose supervisor was killed. It does nothing if the lab does not exist.
func Down(ctx context.Context, name string) error {
	if name == "" {
		name = DefaultName
	}
	paths, err := labPaths(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(paths.lock), 0o755); err != nil {
		return err
	}
	unlock, err := lockFile(ctx, paths.lock, nil)
	if err != nil {
		return fmt.Errorf("take down the lab %s: %w", name, err)
	}
	defer unlock()
	if err := paths.endLab(); err != nil {
		return fmt.Errorf("take down the lab %s: %w", name, err)
	}
	return nil
}

// Down takes the lab down.
func (l *Lab) Down(ctx context.Context) error { return errors.Join(l.Close(), Down(ctx, l.name)) }

// endLab ends the lab's supervisor and removes the lab's files on the host. The machines end with
// their supervisor.
func (p paths) endLab() error {
	var owner process
	err := readJSON(p.ownerPath(), &owner)
	if errors.Is(err, os.ErrNotExist) {
		return p.removeFiles()
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), downTime)
	defer cancel()
	if conn, _, err := p.sendRequest(ctx, request{Op: "down"}); err == nil {
		conn.Close()
		for end := time.Now().Add(downTime); owner.isAlive() && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		}
	}
	if err := owner.killAndWait(unix.SIGKILL, 5*time.Second); err != nil {
		return err
	}
	return p.removeFiles()
}

// Reexec turns the process into a lab's supervisor if [Up] started it as one, and then does not
// return. A program that calls Up must call Reexec first; a test calls it in TestMain.
func Reexec() {
	if len(os.Args) != 3 || os.Args[1] != supervise {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := Supervise(ctx, os.Args[2], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "culvert-lab supervise:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// supervise is the first argument of a process that Reexec turns into a
// supervisor; the run folder of the lab follows.
const supervise = "supervise"
