package place

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/culvert-net/culvert/internal/guest/shell"
)

// guestMachine is a virtual machine on another machine, where a command gives a shell in it: over
// its network or without one, such as by a virtio channel.
type guestMachine struct {
	on     starter
	by     string
	answer time.Duration // in which a shell has to answer
}

// answerTime is how long a shell in a guest may take to answer, and answerTries how often a new
// connection is made. The shell of an earlier connection to a virtio channel, as it ends, can swallow the
// first lines of the next one.
const (
	answerTime  = 30 * time.Second
	answerTries = 3
)

// errSilent is in the error of a shell that did not answer in time.
var errSilent = errors.New("it does not answer")

// startScript makes the shell run the script.
func (m guestMachine) startScript(ctx context.Context, script string) (pipe *Pipe, err error) {
	for range answerTries {
		if pipe, err = m.tryScript(ctx, script); !errors.Is(err, errSilent) {
			break
		}
	}
	return pipe, err
}

func (m guestMachine) tryScript(ctx context.Context, script string) (*Pipe, error) {
	pipe, err := m.on.startScript(ctx, m.by)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.answer, fmt.Errorf("%w within %s", errSilent, m.answer))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = pipe.Close() })
	defer stop()
	out, err := shell.Start(struct {
		io.Reader
		io.Writer
	}{pipe.Reader, pipe}, script)
	if err != nil {
		_ = pipe.Close() // now it has said all
		return nil, errors.Join(context.Cause(ctx), fmt.Errorf("%s gives no shell: %w: %s", m.by, err, pipe.Said()))
	}
	pipe.Reader = out
	return pipe, nil
}

func (m guestMachine) putProgram(ctx context.Context, p Program, run func(string) string) (*Pipe, error) {
	return send(ctx, m, p, run)
}
