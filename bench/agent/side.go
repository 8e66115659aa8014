package agent

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/excerpt"
)

// Setting is a command that sets up a side of an A/B measurement, and the one that undoes it.
type Setting struct {
	Side string `json:"side"` // CULVERT_SIDE of the command
	Do   string `json:"do"`
	Undo string `json:"undo"`
}

// SettingTime bounds a command that sets up a side or undoes it.
const SettingTime = 5 * time.Minute

// setUp runs the command of a side and returns the last line that it printed. The agent keeps the
// command that undoes it, and runs that when its conductor is gone before it asked to undo.
func (a *agent) setUp(ctx context.Context, s Setting) (says string, err error) {
	a.setting.Lock()
	defer a.setting.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.mu.Lock()
	a.stop = func() { cancel(errors.New("it was interrupted")) }
	undone := a.undone
	a.mu.Unlock()
	if undone {
		return "", errors.New("the sides are undone already")
	}
	a.undo = s.Undo
	return runSetting(ctx, s.Do, s.Side)
}

// stopSetting ends a command that sets up a side. A command that was asked for before, and has not
// begun, does not begin any more: on a slow machine the request to undo may overtake it.
func (a *agent) stopSetting() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.undone = true
	if a.stop != nil {
		a.stop()
	}
}

// undoSetting runs the command that undoes what setUp did, if it did anything. A command that ctx ends
// is still to be run.
func (a *agent) undoSetting(ctx context.Context) error {
	a.setting.Lock()
	defer a.setting.Unlock()
	if a.undo == "" {
		return nil
	}
	_, err := runSetting(ctx, a.undo, bench.SideNames[0])
	if ctx.Err() == nil {
		a.undo = ""
	}
	return err
}

// runSetting runs a command by sh in this network namespace, and returns the last line that it
// printed. The command ends with ctx, and its process group with it. It does not end with the agent:
// half a setting is worse than a whole one.
func runSetting(ctx context.Context, command, side string) (says string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, SettingTime, fmt.Errorf("it did not end within %s", SettingTime))
	defer cancel()
	var out, said output
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = append(cmd.Environ(), "CULVERT_SIDE="+side)
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for a process outside the group that holds its output
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return "", fmt.Errorf("%s: %w: %s", excerpt.Line(command), errors.Join(context.Cause(ctx), err), excerpt.Line(strings.TrimSpace(string(said.copyBytes()))))
	}
	lines := strings.Split(strings.TrimSpace(string(out.copyBytes())), "\n")
	return excerpt.Line(strings.TrimSpace(lines[len(lines)-1])), nil
}

// SetUp runs the command of a side in the agent's network namespace and returns the last line that it
// printed.
func (c *Client) SetUp(ctx context.Context, s Setting) (says string, err error) {
	err = c.askAgent(ctx, request{Do: setUp, Setting: &s}, &says)
	return says, err
}

// Undo ends a command that SetUp runs, and runs the one that undoes what it did. When the pipe closes before, the agent runs it by
// itself.
func (c *Client) Undo(ctx context.Context) error {
	return c.askAgent(ctx, request{Do: undo}, nil)
}
