package child

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// KillInTheMiddle runs the calling test again in a process of its own, in which an environment variable
// has that value. It kills this process, and the programs that it started, by signal 9 as soon as
// isThere returns true. The test must not be a subtest.
func KillInTheMiddle(t *testing.T, variable, value string, isThere func() bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=2m")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append(os.Environ(), variable+"="+value)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	if err := Start(cmd); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !isThere() {
		select {
		case err := <-ended:
			t.Fatalf("the process ended before it was in the middle: %v\n%s", err, out.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-ended
}
