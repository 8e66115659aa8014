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

// fastNode is one run of a fast node. Apart from its snapshot the node has no files on the host:
// QEMU reads and writes descriptors that it inherits.
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

// prepareMachine makes the descriptors that QEMU inherits, and the machine that uses them.
func (f *fastNode) prepareMachine() error {
	f.machine = machine{
		Accel: f.accel, MemoryMiB: 1024, CPUs: max(f.o.CPUs, 1), IOMMU: true,
		Kernel: f.img.kernelPath(), Cmdline: kernelCmdline(f.accel) + " quiet",
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
		number := f.passFile(fds[1], name)
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
	if f.console, f.machine.Serial, err = f.makeMemoryFile("console"); err != nil {
		return err
	}
	_, f.machine.Files, err = f.makeMemoryFile("files")
	return err
}

// bootFrom gives the machine its initramfs.
func (f *fastNode) bootFrom() error {
	initramfs, path, err := f.makeMemoryFile("initramfs")
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

// passFile notes a descriptor for QEMU and returns its number there.
func (f *fastNode) passFile(fd int, name string) int {
	f.theirs = append(f.theirs, os.NewFile(uintptr(fd), name))
	return 2 + len(f.theirs)
}

// makeMemoryFile makes a file in memory, and returns its path in QEMU.
func (f *fastNode) makeMemoryFile(name string) (*os.File, string, error) {
	fd, err := unix.MemfdCreate("culvert-"+name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, "", fmt.Errorf("make room for the fast node's %s: %w", name, err)
	}
	number := f.passFile(fd, name)
	return f.theirs[len(f.theirs)-1], fmt.Sprintf("/proc/self/fd/%d", number), nil
}

func (f *fastNode) closeFiles() {
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
	defer f.closeFiles()
	if err := f.prepareMachine(); err != nil {
		return snapshot{}, err
	}
	on, err := identifyHypervisor()
	if err != nil {
		return snapshot{}, err
	}
	code, err := initramfsCode("fast-init")
	if err != nil {
		return snapshot{}, err
	}
	kernel, err := identifyFile(f.machine.Kernel)
	if err != nil {
		return snapshot{}, fmt.Errorf("find the fast node's kernel: %w", err)
	}
	key, err := hashKey("fast", f.machine.commandLine(), kernel, code, on)
	if err != nil {
		return snapshot{}, err
	}
	return findSnapshot(ctx, f.p, "fast-"+key, f.takeSnapshot)
}

// takeSnapshot boots the node until it waits for its command, and saves it in that state.
func (f *fastNode) takeSnapshot(ctx context.Context, s snapshot) error {
	f.p.Step("booting a fast node for a snapshot (%s; once, kept in %s)", f.accel, s.dir)
	memory, path, err := f.makeMemoryFile("memory")
	if err != nil {
		return err
	}
	f.machine.Memory = path
	if err := f.bootFrom(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bootTime, fmt.Errorf("the fast node has not booted after %s", bootTime))
	defer cancel()
	if err := f.startQEMU(ctx); err != nil {
		return err
	}
	defer f.stopQEMU()
	if word, _, err := readStatus(bufio.NewScanner(f.ends[statusChannel])); err != nil || word != "booted" {
		return f.explainFailure(errors.Join(fmt.Errorf("the fast node says %q", word), err, context.Cause(ctx)))
	}
	if err := f.monitor.saveMachine(ctx, s.statePath("fast")); err != nil {
		return f.explainFailure(err)
	}
	return s.keepMemory("fast", memory)
}

// runCommand starts the node, from the snapshot unless s is the zero value. It carries the
// command's streams and returns the command's exit status.
func (f *fastNode) runCommand(ctx context.Context, s snapshot) (int, error) {
	defer f.closeFiles()
	if err := f.prepareMachine(); err != nil {
		return 0, err
	}
	if err := f.fillFiles(); err != nil {
		return 0, err
	}
	restore := s != snapshot{}
	if restore {
		f.machine.Memory, f.machine.Restore = s.memoryPath("fast"), true
	} else if err := f.bootFrom(); err != nil {
		return 0, err
	}
	if err := f.startQEMU(ctx); err != nil {
		return 0, err
	}
	defer f.stopQEMU()
	if restore {
		if err := f.monitor.restoreMachine(ctx, s.statePath("fast")); err != nil {
			return 0, fmt.Errorf("%w: %w", errRestore, f.explainFailure(err))
		}
	}
	exit, err := f.carryStreams(restore)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err != nil {
		return 0, f.explainFailure(err)
	}
	return exit, nil
}

// startQEMU starts QEMU and opens its monitor.
func (f *fastNode) startQEMU(ctx context.Context) error {
	life, end := context.WithCancel(ctx)
	f.end = end
	cmd := exec.CommandContext(life, qemu, f.machine.commandLine()...)
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
	go func() { _ = f.monitor.readMessages() }() // ends with QEMU
	if err := f.monitor.negotiateCapabilities(); err != nil {
		f.stopQEMU()
		return f.explainFailure(err)
	}
	return nil
}

// stopQEMU ends QEMU and waits for it.
func (f *fastNode) stopQEMU() {
	f.end()
	<-f.ended
}

// carryStreams carries the command's streams until QEMU is gone.
func (f *fastNode) carryStreams(restored bool) (exit int, err error) {
	if restored {
		if err := f.releaseNode(); err != nil {
			return 0, err
		}
	}
	var g errgroup.Group
	stdout, stderr := lockShared(f.o.Stdout, f.o.Stderr)
	g.Go(func() error { return copyOut(stdout, f.ends[stdoutChannel]) })
	g.Go(func() error { return copyOut(stderr, f.ends[stderrChannel]) })
	g.Go(func() (err error) { exit, err = f.followStatus(); return err })
	err = g.Wait()
	return exit, err
}

// releaseNode sets the clock of a restored node, which stood still in the snapshot, and lets the
// node go on.
func (f *fastNode) releaseNode() error {
	_, err := fmt.Fprintf(f.ends[statusChannel], "go %d\n", time.Now().Unix())
	return err
}

// sendInput sends the input, and then closes the writing side of the stream. To close the whole
// channel would drop input that the guest has not read yet.
func (f *fastNode) sendInput(stdin net.Conn) {
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

// followStatus follows init: "booted" if it was not restored, then "ready", then "exit N".
func (f *fastNode) followStatus() (int, error) {
	in := bufio.NewScanner(f.ends[statusChannel])
	for {
		word, value, err := readStatus(in)
		if err != nil {
			return 0, err
		}
		switch word {
		case "booted":
			if err := f.releaseNode(); err != nil {
				return 0, err
			}
		case "ready":
			took := time.Since(f.start)
			f.p.Step("ready after %.2f s", took.Seconds())
			f.p.Close()
			if f.o.OnReady != nil {
				f.o.OnReady(took)
			}
			go f.sendInput(f.ends[stdinChannel]) // ends with the connection, or hangs in a Read of the caller's Stdin
		case "exit": // all output has arrived: a write in the guest ends only when QEMU has passed the data on
			f.end()
			return strconv.Atoi(value)
		}
	}
}

// explainFailure adds the end of QEMU's messages and of the console to err.
func (f *fastNode) explainFailure(err error) error {
	return fmt.Errorf("%w\nQEMU says: %s\nthe console ends with:\n%s", err,
		strings.TrimSpace(f.qemuErr.String()), readTail(fmt.Sprintf("/proc/self/fd/%d", f.console.Fd())))
}
