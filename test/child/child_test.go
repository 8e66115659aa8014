package child

import (
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The program outlives every thread that ends while it runs, as threads of netns.Run do.
func TestStartOutlivesThreads(t *testing.T) {
	cmd := exec.Command("sleep", "3600")
	if err := Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 100 {
		endThread()
	}
	if info := (unix.Siginfo{}); unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) != nil || info.Signo != 0 {
		t.Errorf("the program has ended: %+v", info)
	}
}

// endThread ends one thread of this process.
func endThread() {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		close(done)
	}()
	<-done
	time.Sleep(time.Millisecond)
}

func TestStartFails(t *testing.T) {
	if err := Start(exec.Command("/no/such/program")); err == nil {
		t.Error("a program that is not there was started")
	}
}
