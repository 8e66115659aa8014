package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal of 100 columns (pty(7)) with culvert at its other end.
type terminal struct {
	lines           // what culvert writes, and the echo of what is typed
	keys   *os.File // the end of the person
	screen *os.File // the end of culvert
	read   chan struct{}
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{keys: os.NewFile(uintptr(fd), "ptmx"), read: make(chan struct{})}
	t.Cleanup(func() { _ = term.keys.Close() }) // a test may have closed it
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0), unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}))
	if err == nil {
		term.screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() { // until culvert has ended, or keys is closed
		defer close(term.read)
		_, _ = io.Copy(term, term.keys) // the end is EIO
	}()
	return term
}

// start starts culvert as a process of its own, which has the terminal as a shell gives it: Ctrl-C
// interrupts it, and it gets a SIGHUP when the terminal is closed.
func (term *terminal) start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Args[0] = "culvert" // TestMain calls main
	cmd.Env = append(os.Environ(), "TERM=dumb", "TZ=UTC")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = term.screen, term.screen, term.screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := errors.Join(cmd.Start(), term.screen.Close()); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func (term *terminal) typeKeys(t *testing.T, keys string) {
	t.Helper()
	if _, err := term.keys.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// wait waits until culvert has ended, and returns all that the terminal has shown.
func (term *terminal) wait(cmd *exec.Cmd) (shown string, err error) {
	err = cmd.Wait()
	<-term.read
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.b.String(), err
}
