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

// fastNode is one life of a fast node. Apart from its snapshot it has no files on the host: QEMU
// reads and writes descriptors that it inherits.
type fastNode struct {
	o     FastOptions
	p     *Steps
	start time.Time
	img   image
	accel string

	machine machine
	monitor *monitor
	ends    [len(fastChannels)]net.Conn // ours
	theirs  []*os.File                  // QEMU's: the n-th is its descriptor 3+n
	console *os.File
	qemuErr bytes.Buffer
	end     context.CancelFunc // ends QEMU
	ended   chan error         // how QEMU ended
}

var fastChannels = [...]string{"stdin", "stdout", "stderr", "status", "monitor"}

// The places of channels in fastChannels.
const (
	stdinChannel = iota
	stdoutChannel
	stderrChannel
	statusChannel
	monitorChannel
)

// prepare makes the descriptors that QEMU inherits, and the machine that uses them.
func (f *fastNode) prepare() error {
	f.machine = machine{
		Accel: f.accel, MemoryMiB: 1024, CPUs: max(f.o.CPUs, 1), IOMMU: true,
		Kernel: f.img.kernel(), Cmdline: kernelCmdline(f.accel) + " quiet",
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
		number := f.inherit(fds[1], name)
		if i == monitorChannel {
			f.machine.QMPFD = number
		} else {
			f.machine.Channels = append(f.machine.Channels, channel{name, number})
		}
		ours := os.NewFile(uintptr(fds[0]), name)
		f.ends[i], err = net.FileConn(ours)
		if err = errors.Join(err, ours.Close()); err != nil {
			return fmt.Errorf("make the fast node's channel %s: %w", name, err)
		}
	}
	var err error
	if f.console, f.machine.Serial, err = f.memory("console"); err != nil {
		return err
	}
	_, f.machine.Files, err = f.memory("files")
	return err
}

// bootFrom gives the machine its initramfs.
func (f *fastNode) bootFrom() error {
	initramfs, path, err := f.memory("initramfs")
	if err != nil {
		return err
	}
	if err := fillInitramfs(initramfs, func(a *archive) error { return fillFast(a, f.img) }); err != nil {
		return fmt.Errorf("write the fast node's initramfs: %w", err)
	}
	f.machine.Initrd = path
	return nil
}

// fillFiles fills the disk that has the command and the caller's files. The node unpacks it
// before it starts the command.
func (f *fastNode) fillFiles() error {
	file := f.theirs[len(fastChannels)+1]
	if err := fillArchive(file, func(a *archive) error { return fillCommand(a, f.o) }); err != nil {
		return fmt.Errorf("write the fast node's files: %w", err)
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	const sector = 512
	return file.Truncate((size + sector - 1) / sector * sector)
}

// inherit notes a descriptor for QEMU and returns its number there.
func (f *fastNode) inherit(fd int, name string) int {
	f.theirs = append(f.theirs, os.NewFile(uintptr(fd), name))
	return 2 + len(f.theirs)
}

// memory makes a file in memory, and returns its path in QEMU.
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

// findSnapshot returns the snapshot that fast nodes like this one start from, and takes it if
// the cache has none.
func (f *fastNode) findSnapshot(ctx context.Context) (snapshot, error) {
	defer f.close()
	if err := f.prepare(); err != nil {
		return snapshot{}, err
	}
	on, err := hypervisor()
	if err != nil {
		return snapshot{}, err
	}
	code, err := initramfsCode("fast-init")
	if err != nil {
		return snapshot{}, err
	}
	key, err := hashKey("fast", f.machine.args(), code, on)
	if err != nil {
		return snapshot{}, err
	}
	return findSnapshot(ctx, f.p, "fast-"+key, f.take)
}

// take boots the node until it waits for its command, and keeps it like that.
func (f *fastNode) take(ctx context.Context, s snapshot) error {
	f.p.Step("booting a fast node for a snapshot (%s; once, kept in %s)", f.accel, s.dir)
	memory, path, err := f.memory("memory")
	if err != nil {
		return err
	}
	f.machine.Memory = path
	if err := f.bootFrom(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bootTime, fmt.Errorf("the fast node has not booted after %s", bootTime))
	defer cancel()
	if err := f.launch(ctx); err != nil {
		return err
	}
	defer f.finish()
	if word, _, err := readStatus(bufio.NewScanner(f.ends[statusChannel])); err != nil || word != "booted" {
		return f.explain(errors.Join(fmt.Errorf("the fast node says %q", word), err, context.Cause(ctx)))
	}
	if err := f.monitor.save(ctx, s.state("fast")); err != nil {
		return f.explain(err)
	}
	return s.keepMemory("fast", memory)
}

// run starts the node, from the snapshot unless that is the zero one, streams, and returns the
// command's exit status.
func (f *fastNode) run(ctx context.Context, s snapshot) (int, error) {
	defer f.close()
	if err := f.prepare(); err != nil {
		return 0, err
	}
	if err := f.fillFiles(); err != nil {
		return 0, err
	}
	restore := s != snapshot{}
	if restore {
		f.machine.Memory, f.machine.Restore = s.memory("fast"), true
	} else if err := f.bootFrom(); err != nil {
		return 0, err
	}
	if err := f.launch(ctx); err != nil {
		return 0, err
	}
	defer f.finish()
	if restore {
		if err := f.monitor.restore(ctx, s.state("fast")); err != nil {
			return 0, fmt.Errorf("%w: %w", errRestore, f.explain(err))
		}
	}
	exit, err := f.stream(restore)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err != nil {
		return 0, f.explain(err)
	}
	return exit, nil
}

// launch starts QEMU and opens its monitor.
func (f *fastNode) launch(ctx context.Context) error {
	life, end := context.WithCancel(ctx)
	f.end = end
	cmd := exec.CommandContext(life, qemu, f.machine.args()...)
	cmd.ExtraFiles = f.theirs
	cmd.Stderr = &f.qemuErr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	f.ended = make(chan error, 1) // QEMU's reason is on its stderr
	f.monitor = newMonitor(f.ends[monitorChannel], func(string, string) {})
	onThread(func() {
		err := cmd.Start()
		started <- err
		if err == nil {
			f.ended <- cmd.Wait()
		}
	})
	if err := <-started; err != nil {
		end()
		return fmt.Errorf("start a fast node: %w", err)
	}
	for _, file := range f.theirs[:len(fastChannels)] {
		_ = file.Close() // or the streams would not end with QEMU
	}
	go func() { _ = f.monitor.read() }() // ends with QEMU
	if err := f.monitor.start(); err != nil {
		f.finish()
		return f.explain(err)
	}
	return nil
}

// finish ends QEMU and waits for it.
func (f *fastNode) finish() {
	f.end()
	<-f.ended
}

// stream carries the command's streams until QEMU is gone.
func (f *fastNode) stream(restored bool) (exit int, err error) {
	if restored {
		if err := f.release(); err != nil {
			return 0, err
		}
	}
	var g errgroup.Group
	g.Go(func() error { return copyOut(f.o.Stdout, f.ends[stdoutChannel]) })
	g.Go(func() error { return copyOut(f.o.Stderr, f.ends[stderrChannel]) })
	g.Go(func() (err error) { exit, err = f.status(); return err })
	err = g.Wait()
	return exit, err
}

// release lets a node that has booted go on. Its clock stood still in the snapshot.
func (f *fastNode) release() error {
	_, err := fmt.Fprintf(f.ends[statusChannel], "go %d\n", time.Now().Unix())
	return err
}

// feed sends the input. Its end is the end of the stream's writing side: to
// close the channel would drop what the guest has not yet read.
func (f *fastNode) feed(stdin net.Conn) {
	if f.o.Stdin != nil {
		_, _ = io.Copy(stdin, f.o.Stdin)
	}
	_ = stdin.(*net.UnixConn).CloseWrite()
}

// readStatus reads one line of init's: a word and perhaps a value.
func readStatus(in *bufio.Scanner) (word, value string, err error) {
	if !in.Scan() {
		return "", "", errors.Join(errors.New("the fast node ended without an exit status"), in.Err())
	}
	word, value, _ = strings.Cut(in.Text(), " ")
	return word, value, nil
}

// status follows init: "booted" if it was not restored, then "ready", then "exit N".
func (f *fastNode) status() (int, error) {
	in := bufio.NewScanner(f.ends[statusChannel])
	for {
		word, value, err := readStatus(in)
		if err != nil {
			return 0, err
		}
		switch word {
		case "booted":
			if err := f.release(); err != nil {
				return 0, err
			}
		case "ready":
			took := time.Since(f.start)
			f.p.Step("ready after %.2f s", took.Seconds())
			f.p.Close()
			if f.o.OnReady != nil {
				f.o.OnReady(took)
			}
			go f.feed(f.ends[stdinChannel]) // ends with the connection, or hangs in a Read of the caller's own
		case "exit": // all output is out by now: a write in the guest ends when QEMU has passed it on
			f.end()
			return strconv.Atoi(value)
		}
	}
}

// explain adds the end of QEMU's messages and of the console to err.
func (f *fastNode) explain(err error) error {
	return fmt.Errorf("%w\nQEMU says: %s\nthe console ends with:\n%s", err,
		strings.TrimSpace(f.qemuErr.String()), tail(fmt.Sprintf("/proc/self/fd/%d", f.console.Fd())))
}
