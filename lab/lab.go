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

// Options says what lab to bring up. The zero value means the lab "culvert"
// with two nodes.
type Options struct {
	Name  string
	Nodes int
	// Names of the nodes, as many as there shall be; worker01 and up unless told.
	Names []string
	// CPUs of each node: 1 unless told.
	CPUs int
	// Guests makes the nodes run guests of their own: they have libvirt, QEMU and a
	// small guest (/boot/guest). It goes with no layer.
	Guests bool
	// AppArmor makes the kernel of the nodes confine what is started with a profile. Only
	// container runtimes load one.
	AppArmor bool
	// PCIRoots is how many PCIe roots the PFs of a node hang on: 1 unless told, or 2.
	PCIRoots int
	// JoinWires links the two switches, so that all PFs are on one L2 segment.
	JoinWires bool
	// NoSnapshot boots the nodes. Else they start from a snapshot, which the first start takes.
	NoSnapshot bool
	// Progress takes a line a step; nil is silent.
	Progress io.Writer
	// Prepare is called before anything of the lab is there. It returns what the nodes
	// have besides their image's.
	Prepare func(ctx context.Context, step func(format string, args ...any)) (Software, error)
	// Finish is called when the nodes take commands, before Up lets go of the
	// lab: when it fails, or the calling process dies in it, nothing of the lab
	// is left. What both step is shown as progress.
	Finish func(ctx context.Context, l *Lab, step func(format string, args ...any)) error
	// Bound takes the lab down when the calling process ends, however it does. Else
	// it stays until [Down].
	Bound bool

	base       string // the file that the nodes' disks are layered on, if it is known already
	keepMemory bool   // for a lab that a snapshot is taken of
}

// nodeHostName is a label of RFC 1123, which is what Kubernetes takes.
var nodeHostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// nameNodes completes the number of nodes and their names.
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

// A Lab is a lab that is up. It is safe for use by several goroutines, and
// closing it leaves the lab up.
type Lab struct {
	name  string
	paths paths

	lifeline io.Closer // of a bound lab: it goes down when this is closed

	mu      sync.Mutex // guards what follows; it is not held while a node is asked
	clients map[string]*ssh.Client
	drops   int // how often Close was called
}

// Up brings a lab up and returns when its nodes take commands. If that very lab
// is up already, it is returned as it is. When ctx ends first, or the calling
// process dies, nothing of the lab is left.
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
	if err := paths.clear(); err != nil {
		return nil, fmt.Errorf("clear what an earlier lab %s left: %w", o.Name, err)
	}
	if err := l.create(ctx, p, o); err != nil {
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
	if o.Guests && !st.Guests {
		return fmt.Errorf("bring up the lab %s: it is up with nodes that run no guests; take it down first, or give another --name", o.Name)
	}
	if slices.Equal(have, o.Names) {
		return nil
	}
	return fmt.Errorf("bring up the lab %s with %s: it is up with %s; take it down first, or give another --name",
		o.Name, strings.Join(o.Names, ", "), strings.Join(have, ", "))
}

// create makes the lab's folders and starts its supervisor.
func (l *Lab) create(ctx context.Context, p *Steps, o Options) error {
	var software Software
	if o.Prepare != nil {
		var err error
		if software, err = o.Prepare(ctx, p.Step); err != nil {
			return err
		}
	}
	img, err := findImage(ctx, p, o.Guests)
	if err != nil {
		return err
	}
	base := o.base
	if base == "" {
		if base, err = software.Layer.disk(ctx, p, img); err != nil {
			return err
		}
	}
	conf := config{
		Name: o.Name, Nodes: o.Names, CPUs: max(o.CPUs, 1), Guests: o.Guests, AppArmor: o.AppArmor, Image: img.hash, Dir: img.dir, Base: base,
		Run: l.paths.run, Disks: l.paths.disks, PCIRoots: max(o.PCIRoots, 1), Joined: o.JoinWires, KeepMemory: o.keepMemory,
		Acceleration: probeAccel(ctx, img),
	}
	if o.NoSnapshot {
		return l.begin(ctx, p, o, conf, software.Setup)
	}
	for try := 1; ; try++ {
		s, err := conf.findSnapshot(ctx, p, software.Setup)
		if err != nil {
			return err
		}
		conf.Snapshot = s.dir
		err = l.begin(ctx, p, o, conf, software.Setup)
		if !errors.Is(err, errRestore) || try == 2 {
			return err
		}
		p.Step("%v: it is taken anew", err)
		if err := s.discard(); err != nil {
			return err
		}
	}
}

// begin makes the lab's folders, starts its supervisor, and sees the nodes set up.
func (l *Lab) begin(ctx context.Context, p *Steps, o Options, conf config, setup *Setup) error {
	if err := l.paths.makeRun(); err != nil {
		return err
	}
	for _, dir := range []string{l.paths.disks, l.paths.share()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	err := writeJSON(l.paths.config(), conf)
	if err == nil && setup != nil && conf.Snapshot != "" {
		err = snapshot{conf.Snapshot}.restoreFolder(filepath.Join(l.paths.disks, setup.Folder))
		setup = nil // the nodes have it behind them
	}
	if err == nil {
		err = l.supervise(ctx, p, o, setup)
	}
	if err != nil {
		return errors.Join(err, l.paths.clear())
	}
	return nil
}

// supervise starts the supervisor and waits until it says that the lab is
// ready and Finish is through. It lets go of it only then, and of a bound lab not
// at all.
func (l *Lab) supervise(ctx context.Context, p *Steps, o Options, setup *Setup) (err error) {
	log, err := os.OpenFile(l.paths.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
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
		err = writeJSON(l.paths.owner(), owner)
	}
	if err == nil {
		stop := context.AfterFunc(ctx, func() { lifeline.Close() }) // it then takes the lab down
		err = follow(events, p)
		if err == nil {
			err = setup.run(ctx, l, p.Step)
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
		return errors.Join(err, reap(cmd, owner))
	}
	if o.Bound {
		l.lifeline = lifeline
	}
	return cmd.Process.Release()
}

// reap waits for a supervisor that is on its way down.
func reap(cmd *exec.Cmd, owner process) error {
	impatient := time.AfterFunc(downTime, func() { _ = owner.kill(unix.SIGKILL, 0) })
	defer impatient.Stop()
	_ = cmd.Wait() // how it ended was in its events
	return nil
}

// downTime is what a supervisor may take to go down by itself.
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

// follow shows a supervisor's events until the lab is ready.
func follow(r io.Reader, p *Steps) error {
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

// Down takes the lab down: machines, disks, sockets and logs. It also clears
// away what a lab left whose supervisor was killed. A lab that is not there is
// down already.
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
	if err := paths.clear(); err != nil {
		return fmt.Errorf("take down the lab %s: %w", name, err)
	}
	return nil
}

// Down takes the lab down.
func (l *Lab) Down(ctx context.Context) error { return errors.Join(l.Close(), Down(ctx, l.name)) }

// clear ends the lab's supervisor and removes all that the lab has on the
// host. The machines end with their supervisor.
func (p paths) clear() error {
	var owner process
	err := readJSON(p.owner(), &owner)
	if errors.Is(err, os.ErrNotExist) {
		return p.remove()
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), downTime)
	defer cancel()
	if conn, _, err := p.ask(ctx, request{Op: "down"}); err == nil {
		conn.Close()
		for end := time.Now().Add(downTime); owner.alive() && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		}
	}
	if err := owner.kill(unix.SIGKILL, 5*time.Second); err != nil {
		return err
	}
	return p.remove()
}

// Reexec turns the process into a lab's supervisor if [Up] started it as one:
// then it does not return. A program that calls Up calls this first, a test in its
// TestMain.
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

// supervise is what a process's first argument is that Reexec turns into a
// supervisor; the run folder of the lab follows.
const supervise = "supervise"
