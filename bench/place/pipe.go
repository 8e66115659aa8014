package place

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Pipe is a connection to a program's standard input and output. Its methods may
// be called concurrently.
type Pipe struct {
	io.Reader
	in    io.WriteCloser
	said  *tail
	end   func(impatient <-chan time.Time) error // waits for the program; kills it after that
	close func() error                           // once

	patience time.Duration // goodbye
}

// goodbye is how long a program may take to end after its pipe was closed.
const goodbye = 10 * time.Second

// newPipe returns a Pipe. undo removes the files that were made for the program, after its end.
func newPipe(out io.Reader, in io.WriteCloser, said *tail, end func(<-chan time.Time) error, undo func() error) *Pipe {
	p := &Pipe{Reader: out, in: in, said: said, end: end, patience: goodbye}
	p.close = sync.OnceValue(func() error {
		_ = p.in.Close() // a program that is gone has closed it
		patience := time.NewTimer(p.patience)
		defer patience.Stop()
		return errors.Join(p.end(patience.C), undo())
	})
	return p
}

func (p *Pipe) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close closes the program's input, waits until it has left, and kills it when it
// takes longer than ten seconds. Close takes back the files that were made for it.
func (p *Pipe) Close() error { return p.close() }

// Said returns the end of the program's standard error, which mostly has the reason why it ended.
func (p *Pipe) Said() string { return p.said.String() }

// startCommand starts cmd with a pipe, in a process group of its own, so that Ctrl-C
// reaches the calling program alone, which ends the run in order. The text of cmd on
// standard error is in the pipe, unless it goes somewhere already.
func startCommand(cmd *exec.Cmd, undo func() error) (*Pipe, error) {
	said := &tail{}
	if cmd.Stderr == nil {
		cmd.Stderr = said
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	end := func(impatient <-chan time.Time) error {
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }() // ends with the process
		select {
		case <-done: // its status adds nothing to its protocol
			return nil
		case <-impatient:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-done
			return fmt.Errorf("%s did not leave in time after its input ended, and was killed: %s", cmd.Path, said)
		}
	}
	return newPipe(out, in, said, end, undo), nil
}

// tail is a writer that keeps the end of its text.
type tail struct {
	mu   sync.Mutex // guards text
	text []byte
}

// tailSize is as much as helps in a message.
const tailSize = 2000

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - tailSize; over > 0 {
		t.text = bytes.Clone(t.text[over:])
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
