//go:build lab

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ownMark is the variable that says how far runOwn has come: "start" in the process that is new in
// its namespaces, "done" once these are set up.
const ownMark = "CULVERT_LAB_TEST_OWN"

func TestMain(m *testing.M) {
	Reexec()
	exit, err := runOwn()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "run the tests in namespaces of their own:", err)
		os.Exit(1)
	case exit >= 0:
		os.Exit(exit)
	}
	os.Exit(m.Run())
}

// runOwn runs this program again in a mount namespace and a network namespace of its own, so that
// the tests see only the mounts, links and named network namespaces that they made. It returns the
// exit status, or -1 in the process whose tests are to run. A user without rights makes none of
// these, so the tests of one run where they are.
//
// The namespace has no way out, so runOwn first builds the image, which takes packages.
func runOwn() (exit int, err error) {
	switch {
	case os.Getenv(ownMark) == "start":
		return -1, errors.Join(os.Setenv(ownMark, "done"), setUpOwn())
	case os.Getenv(ownMark) == "done" || os.Geteuid() != 0:
		return -1, nil
	}
	if _, err := findImage(context.Background(), nil, ""); err != nil {
		return 0, err
	}
	if err := os.Mkdir(netnsFolder, 0o755); err == nil {
		defer os.Remove(netnsFolder) // stays if another program has a namespace there by then
	}
	runtime.LockOSThread() // Pdeathsig looks at the thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), ownMark+"=start")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Unshareflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET}
	var failed *exec.ExitError
	switch err := cmd.Run(); {
	case errors.As(err, &failed):
		return max(1, failed.ExitCode()), nil // -1: a signal ended it
	case err != nil:
		return 0, err
	}
	return 0, nil
}

// netnsFolder has the named network namespaces, ip-netns(8).
const netnsFolder = "/run/netns"

// setUpOwn hides the names of other programs' network namespaces, and takes the loopback up.
func setUpOwn() error {
	if err := unix.Mount("culvert-test", netnsFolder, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount a file system of the tests' own on %s: %w", netnsFolder, err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback: %w", err)
	}
	return netlink.LinkSetUp(lo)
}
