package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is an engine's process, in a process group of its own.
type child struct {
	name   string
	cmd    *exec.Cmd
	out    output        // its standard output
	said   output        // its standard error
	ended  chan struct{} // closed when err is set
	err    error
	ending sync.Once
}

// startChild starts a program that the kernel ends when this process dies.
func startChild(path string, args ...string) (*child, error) { return newChild(path, args).start() }

// startCommanded starts a program that takes commands, with more variables in its environment. Its
// input ends when the caller closes it, or this process dies.
func startCommanded(path string, env []string, args ...string) (*child, io.WriteCloser, error) {
	c := newChild(path, args)
	c.cmd.Env = append(c.cmd.Env, env...)
	commands, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	c, err = c.start()
	return c, commands, err
}

func newChild(path string, args []string) *child {
	c := &child{name: path, cmd: exec.Command(path, args...), ended: make(chan struct{})} //nolint:noctx // stop ends it, with its group
	c.cmd.Env = append(os.Environ(), "LC_ALL=C")
	return c
}

// start starts the program in a process group of its own.
func (c *child) start() (*child, error) {
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.said
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// Should a process outside the group hold the pipes, Wait does not wait for it.
	c.cmd.WaitDelay = time.Second
	begun := make(chan error)
	go func() { // ends with the child
		// Pdeathsig is sent when the thread ends that started the child (prctl(2)).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		begun <- err
		if err == nil {
			c.err = c.cmd.Wait()
			close(c.ended)
		}
	}()
	if err := <-begun; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	return c, nil
}

// stopGroup ends the child and its group, and waits for it.
func (c *child) stopGroup() {
	c.ending.Do(func() {
		const grace = 2 * time.Second
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGTERM) // it may have ended
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-c.ended:
		case <-timer.C:
		}
		select {
		case <-c.ended:
		default:
			_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		}
	})
	<-c.ended
}

// waitForEnd waits for the child's end and returns its standard output. An error has the last lines
// of its standard error.
func (c *child) waitForEnd(ctx context.Context) ([]byte, error) {
	select {
	case <-c.ended:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c.err != nil {
		return c.out.copyBytes(), c.explainFailure(c.err)
	}
	if c.out.over {
		return nil, fmt.Errorf("%s wrote more than %d bytes", c.name, maxOutput)
	}
	return c.out.copyBytes(), nil
}

// explainFailure returns err with the last lines that the child printed.
func (c *child) explainFailure(err error) error {
	said := strings.TrimSpace(string(c.said.copyBytes()))
	if said == "" {
		said = strings.TrimSpace(string(c.out.copyBytes()))
	}
	const most = 300
	if len(said) > most {
		said = said[len(said)-most:]
	}
	if said == "" {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return fmt.Errorf("%s: %w: it said %q", c.name, err, said)
}

// maxOutput bounds the output of a child: 128 streams at 20 lines each are 2 MB.
const maxOutput = 64 << 20

// output keeps the text that a child writes. It drops and notes output beyond the bound, so that
// the child does not block.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	over bool
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.text.Len()+len(b) > maxOutput {
		o.over = true
		return len(b), nil
	}
	return o.text.Write(b)
}

func (o *output) copyBytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.text.Bytes())
}
