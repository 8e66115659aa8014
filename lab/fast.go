package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// FastOptions says what a fast node runs.
type FastOptions struct {
	// Argv is the command. It runs as root, and finds what a PATH of the usual
	// four folders holds: busybox, iproute2, ethtool, kmod, nft, iperf3, tcpdump, strace.
	Argv []string
	// Files puts the host's files and trees (the values) into the node (the keys).
	Files map[string]string
	// Env adds KEY=value to the command's environment.
	Env []string
	// Dir is where the command starts: / unless told.
	Dir string
	// Stdin may be nil. Stdout and Stderr are streamed; nil drops them.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Progress takes step lines; nil is silent.
	Progress io.Writer
	// CPUs is 1 unless told.
	CPUs int
	// OnReady, if set, is told how long it took until the command could start.
	OnReady func(time.Duration)
}

// Fast boots a node from an initramfs, runs one command in it and powers it
// off. The exit status is the command's; 128 plus the signal's number if one
// ended it. Its two PFs, eth0 and eth1 (0000:01:00.0 and 0000:02:00.0), are on
// one wire and are up with carrier when the command starts. There is no udev.
func Fast(ctx context.Context, o FastOptions) (exit int, err error) {
	if len(o.Argv) == 0 {
		return 0, errors.New("run a fast node: no command")
	}
	p := newProgress(o.Progress)
	defer p.Close()
	img, err := findImage(ctx, p)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "culvert-fast-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	accel := probeAccel(ctx, img)
	p.Step("booting a fast node (%s)", accel.Accel)
	start := time.Now()
	initrd := filepath.Join(dir, "initrd")
	if err := writeInitramfs(initrd, func(a *archive) error { return fillFast(a, img, o) }); err != nil {
		return 0, fmt.Errorf("write the fast node's initramfs: %w", err)
	}
	f := fastNode{
		o: o, p: p, start: start,
		machine: machine{
			Accel: accel.Accel, MemoryMiB: 1024, CPUs: max(o.CPUs, 1), IOMMU: true,
			Kernel: img.kernel(), Initrd: initrd, Serial: filepath.Join(dir, "console"),
			Cmdline: kernelCmdline(accel.Accel) + " quiet",
			PFs: []port{
				{ID: "pf1", MAC: macAddr(1, 1), Backend: "hubport,hubid=0"},
				{ID: "pf2", MAC: macAddr(1, 2), Backend: "hubport,hubid=0"},
			},
		},
	}
	return f.run(ctx)
}

// kernelCmdline is what all machines boot with. The lab has no secrets: what
// guards the kernel against its users only costs time here, and under
// emulation much of it.
func kernelCmdline(accel string) string {
	line := "console=ttyS0 panic=-1 intel_iommu=on iommu=pt mitigations=off nokaslr init_on_alloc=0 lsm= audit=0"
	if accel == "tcg" {
		line += " tsc=reliable no_timer_check random.trust_cpu=on nowatchdog"
	}
	return line
}

// fastNode is a run of a fast node.
type fastNode struct {
	o       FastOptions
	p       *progress
	start   time.Time
	machine machine
	ends    []*os.File // the host's ends of the channels, in the order of fastChannels
	qemuErr bytes.Buffer
}

var fastChannels = [...]string{"stdin", "stdout", "stderr", "status"}

func (f *fastNode) run(ctx context.Context) (int, error) {
	var theirs []*os.File
	defer func() {
		for _, file := range append(theirs, f.ends...) {
			file.Close()
		}
	}()
	for i, name := range fastChannels {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return 0, fmt.Errorf("make the channel %s: %w", name, err)
		}
		f.ends = append(f.ends, os.NewFile(uintptr(fds[0]), name))
		theirs = append(theirs, os.NewFile(uintptr(fds[1]), name))
		f.machine.Channels = append(f.machine.Channels, channel{name, 3 + i})
	}
	cmd := exec.CommandContext(ctx, qemu, f.machine.args()...)
	cmd.ExtraFiles = theirs
	cmd.Stderr = &f.qemuErr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error, 1), make(chan error, 1)
	onThread(func() {
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	})
	if err := <-started; err != nil {
		return 0, fmt.Errorf("start a fast node: %w", err)
	}
	for _, file := range theirs {
		file.Close()
	}
	theirs = nil
	exit, err := f.stream()
	qemuErr := <-ended
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err != nil {
		return 0, f.explain(errors.Join(err, qemuErr))
	}
	return exit, nil
}

// stream carries the command's streams until QEMU closes them.
func (f *fastNode) stream() (exit int, err error) {
	var conns [len(fastChannels)]net.Conn
	for i, end := range f.ends {
		if conns[i], err = net.FileConn(end); err != nil {
			return 0, err
		}
		defer conns[i].Close()
	}
	go f.feed(conns[0]) // ends with the connection, or hangs in a Read of the caller's own
	var g errgroup.Group
	g.Go(func() error { return copyOut(f.o.Stdout, conns[1]) })
	g.Go(func() error { return copyOut(f.o.Stderr, conns[2]) })
	g.Go(func() (err error) { exit, err = f.status(conns[3]); return err })
	return exit, g.Wait()
}

// feed sends the input. Its end is the end of the stream's writing side: to
// close the channel would drop what the guest has not yet read.
func (f *fastNode) feed(stdin net.Conn) {
	if f.o.Stdin != nil {
		_, _ = io.Copy(stdin, f.o.Stdin)
	}
	_ = stdin.(*net.UnixConn).CloseWrite()
}

// status reads what init has to say: "ready SECONDS", then "exit N".
func (f *fastNode) status(r io.Reader) (int, error) {
	in := bufio.NewScanner(r)
	for in.Scan() {
		word, value, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "ready":
			f.p.Step("ready: %s s after power-on", value)
			f.p.Close()
			if f.o.OnReady != nil {
				f.o.OnReady(time.Since(f.start))
			}
		case "exit":
			return strconv.Atoi(value)
		}
	}
	return 0, errors.New("the fast node ended without an exit status")
}

// explain adds the end of QEMU's messages and of the console to err.
func (f *fastNode) explain(err error) error {
	console, _ := os.ReadFile(f.machine.Serial)
	if len(console) > 2000 {
		console = console[len(console)-2000:]
	}
	return fmt.Errorf("%w\nQEMU says: %s\nthe console ends with:\n%s", err, strings.TrimSpace(f.qemuErr.String()), console)
}
