package place

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/culvert-net/culvert/internal/guest/shell"
)

// guestMachine is a virtual machine on another machine, where a command gives a shell in it: over
// its network or without one, such as by a virtio channel.
type guestMachine struct {
	on starter
	by string
}

// startScript makes the shell run the script.
func (m guestMachine) startScript(ctx context.Context, script string) (*Pipe, error) {
	pipe, err := m.on.startScript(ctx, m.by)
	if err != nil {
		return nil, err
	}
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
