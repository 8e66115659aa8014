package place

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/culvert-net/culvert/internal/guest/shell"
	"github.com/culvert-net/culvert/internal/program"
)

// sshMachine is a machine that the program ssh reaches by its own configuration: keys, ports and
// jumps are in ~/.ssh/config.
type sshMachine string

// startScript runs the script on the machine. The user's shell there, of any kind, hands it to sh.
func (m sshMachine) startScript(ctx context.Context, script string) (*Pipe, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "ssh",
		"-o", "BatchMode=yes", "-o", "ConnectTimeout=15", // no questions: standard input is the agent's
		"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", // ssh notices a dead machine after 15 s
		"--", string(m), "exec sh -c "+shell.Quote(script))
	pipe, err := startCommand(cmd, func() error { return nil })
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%w: install OpenSSH's client", err)
	}
	return pipe, err
}

func (m sshMachine) putProgram(ctx context.Context, p Program, run func(string) string) (*Pipe, error) {
	return send(ctx, m, p, run)
}

// send sends the program down the pipe before anything else. The folder is removed when the agent
// leaves, which it does at the end of its input, also if the connection breaks.
func send(ctx context.Context, m machine, p Program, run func(string) string) (*Pipe, error) {
	f, err := os.Open(p.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	pipe, err := m.startScript(ctx, receiveScript(info.Size(), run))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = pipe.Close() })
	defer stop()
	if _, err := io.Copy(pipe, f); err != nil {
		return nil, errors.Join(context.Cause(ctx), fmt.Errorf("send the program: %w: %s", err, pipe.Said()), pipe.Close())
	}
	return pipe, nil
}

// receiveScript returns a script that reads a program of that size from its input, and runs it on
// the rest. dd takes no more than its count, and BusyBox's dd is much faster than its head. The
// caller sends no more until the program has spoken.
func receiveScript(size int64, run func(string) string) string {
	const block = 64 << 10
	return fmt.Sprintf(`d=$(mktemp -d) || exit 1
trap 'rm -rf "$d"' EXIT
trap 'exit 1' HUP INT PIPE TERM
{ dd bs=%[1]d count=%[2]d iflag=fullblock 2>/dev/null && head -c %[3]d; } >"$d/%[5]s" && chmod 700 "$d/%[5]s" && cd "$d" && (%[4]s)`,
		block, size/block, size%block, run("./"+program.Bench), program.Bench)
}
