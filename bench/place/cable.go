package place

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// PullCable pulls the cable of a machine's PF, or plugs it in again.
type PullCable func(ctx context.Context, machine, pf string, in bool) error

// LabCable returns the function that pulls the cables of a lab. It returns nil unless all places are
// nodes of one lab.
func LabCable(specs []Spec) PullCable {
	name := ""
	for _, s := range specs {
		of, _, _ := strings.Cut(s.Machine, "/")
		if s.Kind != Lab || name != "" && of != name {
			return nil
		}
		name = of
	}
	if name == "" {
		return nil
	}
	return func(ctx context.Context, machine, pf string, in bool) error {
		if pf == "" {
			return fmt.Errorf("the interface on %s is no VF, so its cable is not known", machine)
		}
		m, err := findLab(ctx, name+"/"+machine)
		if err != nil {
			return err
		}
		_, err = m.runCommand(ctx, "link", machine, pf, map[bool]string{true: "up", false: "down"}[in])
		return err
	}
}

// CableCommands returns the function that pulls a cable by a person's command, and plugs it in by
// another. sh runs each on this host, with the PF as $1 and the machine as $2.
func CableCommands(pull, plug string) PullCable {
	return func(ctx context.Context, machine, pf string, in bool) error {
		command := pull
		if in {
			command = plug
		}
		cmd := exec.CommandContext(ctx, "sh", "-c", command, "sh", pf, machine)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches the calling program alone, which plugs the cable in
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = time.Second // for what holds its output
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", excerpt.Line(command), errors.Join(context.Cause(ctx), err), excerpt.Line(strings.TrimSpace(string(out))))
		}
		return nil
	}
}
