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
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// fastNode is a run of a fast node. It has no files on the host: what QEMU
// reads and writes are descriptors that it inherits.
type fastNode struct {
	o       FastOptions
	p       *progress
	start   time.Time
	machine machine
	ends    [len(fastChannels)]net.Conn // ours
	theirs  []*os.File                  // QEMU's: the n-th is its descriptor 3+n
	console *os.File
	qemuErr bytes.Buffer
	end     context.CancelFunc // ends QEMU
}

var fastChannels = [...]string{"stdin", "stdout", "stderr", "status"}

// prepare makes all that QEMU inherits, and its command line.
func (f *fastNode) prepare(img image, accel string) error {
	f.machine = machine{
		Accel: accel, MemoryMiB: 1024, CPUs: max(f.o.CPUs, 1), IOMMU: true,
		Kernel: img.kernel(), Cmdline: kernelCmdline(accel) + " quiet",
		PFs: []port{
			{ID: "pf1", MAC: macAddr(1, 1), Backend: "hubport,hubid=0"},
			{ID: "pf2", MAC: macAddr(1, 2), Backend: "hubport,hubid=0"},
		},
	}
	for i, name := range fastChannels {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("make the fast node's channel %s: %w", name, err)
		}
		f.machine.Channels = append(f.machine.Channels, channel{name, f.inherit(fds[1], name)})
		ours := os.NewFile(uintptr(fds[0]), name)
		f.ends[i], err = net.FileConn(ours)
		if err = errors.Join(err, ours.Close()); err != nil {
			return fmt.Errorf("make the fast node's channel %s: %w", name, err)
		}
	}
	var err error
	if _, f.machine.Serial, err = f.memory("console"); err != nil {
		return err
	}
	f.console = f.theirs[len(f.theirs)-1]
	var initramfs *os.File
	if initramfs, f.machine.Initrd, err = f.memory("initramfs"); err != nil {
		return err
	}
	if err := fillInitramfs(initramfs, func(a *archive) error { return fillFast(a, img, f.o) }); err != nil {
		return fmt.Errorf("write the fast node's initramfs: %w", err)
	}
	return nil
}

// inherit notes a descriptor for QEMU and returns its number there.
func (f *fastNode) inherit(fd int, name string) int {
	f.theirs = append(f.theirs, os.NewFile(uintptr(fd), name))
	return 2 + len(f.theirs)
}

// memory makes a file in memory, and tells its path in QEMU.
func (f *fastNode) memory(name string) (*os.File, string, error) {
	fd, err := unix.MemfdCreate("culvert-"+name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, "", fmt.Errorf("make room for the fast node's %s: %w", name, err)
	}
	number := f.inherit(fd, name)
	return f.theirs[len(f.theirs)-1], fmt.Sprintf("/proc/self/fd/%d", number), nil
}

func (f *fastNode) close() {
	for _, end := range f.ends {
		if end != nil {
			_ = end.Close()
		}
	}
	for _, file := range f.theirs {
		_ = file.Close()
	}
}

// run starts QEMU, streams, and returns the command's exit status.
func (f *fastNode) run(ctx context.Context) (int, error) {
	life, end := context.WithCancel(ctx)
	defer end()
	f.end = end
	cmd := exec.CommandContext(life, qemu, f.machine.args()...)
	cmd.ExtraFiles = f.theirs
	cmd.Stderr = &f.qemuErr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error, 1), make(chan error, 1) // what QEMU has to say is on its stderr
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
	for _, file := range f.theirs[:len(fastChannels)] {
		_ = file.Close() // or the streams would not end with QEMU
	}
	exit, err := f.stream()
	end()
	<-ended
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err != nil {
		return 0, f.explain(err)
	}
	return exit, nil
}

// stream carries the command's streams until QEMU is gone.
func (f *fastNode) stream() (exit int, err error) {
	go f.feed(f.ends[0]) // ends with the connection, or hangs in a Read of the caller's own
	var g errgroup.Group
	g.Go(func() error { return copyOut(f.o.Stdout, f.ends[1]) })
	g.Go(func() error { return copyOut(f.o.Stderr, f.ends[2]) })
	g.Go(func() (err error) { exit, err = f.status(f.ends[3]); return err })
	err = g.Wait()
	return exit, err
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
		case "exit": // all output is out by now: a write in the guest ends when QEMU has passed it on
			f.end()
			return strconv.Atoi(value)
		}
	}
	return 0, errors.New("the fast node ended without an exit status")
}

// explain adds the end of QEMU's messages and of the console to err.
func (f *fastNode) explain(err error) error {
	return fmt.Errorf("%w\nQEMU says: %s\nthe console ends with:\n%s", err,
		strings.TrimSpace(f.qemuErr.String()), tail(fmt.Sprintf("/proc/self/fd/%d", f.console.Fd())))
}
