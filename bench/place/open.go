package place

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/culvert-net/culvert/internal/guest/shell"
	"github.com/culvert-net/culvert/internal/program"
)

// Program is the program culvert-bench, which has the agent.
type Program struct {
	Path    string // on this host
	Version string // "unknown" matches no other program's
}

// starter runs commands on a machine.
type starter interface {
	// startScript runs a script by sh, with a pipe. The script leaves at the end of its input.
	startScript(ctx context.Context, script string) (*Pipe, error)
}

// machine is a machine to which a program can be copied.
type machine interface {
	starter
	// putProgram copies the program there, and starts the command that run makes of its path. The
	// program is removed when the command ends.
	putProgram(ctx context.Context, p Program, run func(path string) string) (*Pipe, error)
}

// Open starts an agent at a place. The agent outlives ctx, so that a run that is
// interrupted ends in order: it leaves when the pipe is closed.
//
// Errors say which place, and what to do: no permission for the namespace, no such
// namespace, no way to reach the machine, a machine of another architecture.
func Open(ctx context.Context, s Spec, p Program) (*Pipe, error) {
	pipe, err := open(ctx, s, p)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s, err)
	}
	return pipe, nil
}

func open(ctx context.Context, s Spec, p Program) (*Pipe, error) {
	var m machine
	var on starter = hostMachine{}
	switch s.Kind {
	case SSH:
		m = sshMachine(s.Machine)
		on = m
	case Lab:
		node, err := findLab(ctx, s.Machine)
		if err != nil {
			return nil, err
		}
		m, on = node, node
	case Host:
		if s.VM == "" {
			return openHost(ctx, s.Netns, p)
		}
	}
	if s.VM != "" {
		m = guestMachine{on, s.By, answerTime}
	}
	return deployAgent(ctx, m, p, s.Netns)
}

// openHost starts the agent on this host.
func openHost(ctx context.Context, netns string, p Program) (*Pipe, error) {
	if netns != "" {
		if err := checkEnterable(netns); err != nil {
			return nil, err
		}
	}
	return hostMachine{}.startScript(ctx, agentScript(p.Path, netns))
}

// hostMachine is this host.
type hostMachine struct{}

func (hostMachine) startScript(ctx context.Context, script string) (*Pipe, error) {
	return startCommand(exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", script), func() error { return nil })
}

// agentScript runs the agent of a program, in a network namespace unless that is empty.
// In a network namespace /sys is mounted anew, except for the cgroups in it, since it shows the
// namespace of the process that mounted it.
func agentScript(path, netns string) string {
	if netns == "" {
		return "exec " + shell.Quote(path) + " agent"
	}
	return "exec nsenter --net=" + shell.Quote(netns) + ` unshare --mount sh -c '` + freshSys + `exec "$0" "$@"' ` + shell.Quote(path) + " agent"
}

// freshSys mounts /sys anew, and binds the former mount of the cgroups to its place there.
const freshSys = `if test -d /sys/fs/cgroup; then exec 9</sys/fs/cgroup; fi; mount -t sysfs -o ro sysfs /sys; ` +
	`if test -e /proc/self/fd/9; then mount -c --rbind /proc/self/fd/9 /sys/fs/cgroup 2>/dev/null; exec 9<&-; fi; `

// checkEnterable returns a clear error before nsenter would return a worse one.
func checkEnterable(netns string) error {
	f, err := os.Open(netns)
	switch {
	case errors.Is(err, os.ErrNotExist) && strings.HasPrefix(netns, "/run/netns/"):
		return fmt.Errorf("%w: ip netns list shows what there is", err)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: is the process still there?", err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: run it as root", err)
	case err != nil:
		return err
	}
	defer f.Close()
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s: entering a network namespace needs root: run it with sudo", netns)
	}
	return nil
}

// there is a machine's description of itself.
type there struct {
	version string // of its program culvert-bench; empty without one
	arch    string // as uname -m has it
	root    bool
}

// probe prints a machine's architecture, the user's number, and the version of culvert-bench there.
const probe = `echo "arch=$(uname -m)"; echo "uid=$(id -u)"; set -- $(culvert-bench version 2>/dev/null); echo "version=$2"`

func askMachine(ctx context.Context, m machine) (t there, err error) {
	pipe, err := m.startScript(ctx, probe)
	if err != nil {
		return t, err
	}
	var out bytes.Buffer
	stop := context.AfterFunc(ctx, func() { _ = pipe.Close() })
	_, err = io.Copy(&out, pipe)
	stop()
	if err := errors.Join(context.Cause(ctx), err, pipe.Close()); err != nil {
		return t, err
	}
	for line := range strings.Lines(out.String()) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "arch":
			t.arch = value
		case "uid":
			t.root = value == "0"
		case "version":
			t.version = value
		}
	}
	if t.arch == "" {
		return t, fmt.Errorf("no answer: %s", pipe.Said())
	}
	return t, nil
}

// archs are the names that uname -m has for Go's.
var archs = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// deployAgent starts the agent on another machine. It uses that machine's program if this has the
// same version as the calling one, and otherwise sends the calling program.
func deployAgent(ctx context.Context, m machine, p Program, netns string) (*Pipe, error) {
	t, err := askMachine(ctx, m)
	if err != nil {
		return nil, err
	}
	run := func(path string) string {
		script := agentScript(path, netns)
		if netns != "" && !t.root {
			script = "sudo -n sh -c " + shell.Quote(script)
		}
		return script
	}
	switch {
	case t.version == p.Version && p.Version != "unknown":
		return m.startScript(ctx, run(program.Bench))
	case t.arch != archs[runtime.GOARCH]:
		return nil, fmt.Errorf("it is of architecture %s, this host of %s, and it has no culvert-bench %s: install that version there",
			t.arch, archs[runtime.GOARCH], p.Version)
	}
	return m.putProgram(ctx, p, run)
}
