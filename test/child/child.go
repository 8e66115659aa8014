// Package child starts programs for tests that must not outlive the test's process.
package child

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start starts a program, which the kernel kills when this process ends. The caller waits for it.
//
// The kernel sends the signal when the thread ends that started the program, not when its process
// ends (prctl(2), PR_SET_PDEATHSIG), and netns.Run ends threads. So the thread stays until the
// program has ended.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	go func() { // ends with the program
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err != nil {
			started <- err
			return
		}
		pid := cmd.Process.Pid
		started <- nil
		for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		}
	}()
	return <-started
}
