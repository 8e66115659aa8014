package gather

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/internal/admin/doctor"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/guest/shell"
)

// Agent is the name for QEMU's guest agent in place of a command that opens a shell.
const Agent = "agent"

// Bounds on a guest's answer.
const (
	insideBound = time.Minute
	leaveBound  = time.Second // for a command whose output is read, after its input has ended
	mostInside  = 256 << 10   // bytes
	agentPause  = 200 * time.Millisecond
)

// Inside asks a guest what it sees of itself: by a command, for sh on this host, whose input and output
// are those of a shell in the guest, or by QEMU's guest agent. It never fails: Err of the answer has the
// reason why there is none.
func Inside(ctx context.Context, guest, by string) doctor.Inside {
	ctx, cancel := context.WithTimeout(ctx, insideBound)
	defer cancel()
	run := func(ctx context.Context) (string, error) { return runInShell(ctx, by, doctor.InsideScript) }
	if by == Agent {
		run = func(ctx context.Context) (string, error) { return runByAgent(ctx, guest, doctor.InsideScript) }
	}
	text, err := run(ctx)
	if err != nil {
		return doctor.Inside{Err: excerpt.Error(errors.Join(err, ctx.Err()))}
	}
	return doctor.ParseInside(text)
}

// runInShell runs a script in the shell that a command opens, and returns its output.
func runInShell(ctx context.Context, by, script string) (_ string, err error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", by)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with the processes that it started
	cmd.WaitDelay = leaveBound
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	text, err := readScript(out, in, script)
	leave := time.AfterFunc(leaveBound, func() { _ = cmd.Cancel() }) // a virtio channel stays open
	_ = in.Close()                                                   // a program that has gone has closed it
	ended := cmd.Wait()
	leave.Stop()
	if err != nil {
		return "", fmt.Errorf("%s gives no shell: %w: %s", by, errors.Join(err, ended), excerpt.Line(said.String()))
	}
	return text, nil
}

// readScript runs a script by a shell's output and input, and returns what it prints.
func readScript(out io.Reader, in io.Writer, script string) (string, error) {
	prints, err := shell.Start(struct {
		io.Reader
		io.Writer
	}{out, in}, script)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(prints, mostInside))
	return string(text), err
}

// runByAgent runs a script by QEMU's guest agent, which virsh asks (qemu-ga's guest-exec), and returns
// its output.
func runByAgent(ctx context.Context, guest, script string) (string, error) {
	var started struct {
		PID int `json:"pid"`
	}
	run := map[string]any{"path": "/bin/sh", "arg": []string{"-c", script}, "capture-output": true}
	if err := askAgent(ctx, guest, "guest-exec", run, &started); err != nil {
		return "", err
	}
	for {
		var now struct {
			Exited bool   `json:"exited"`
			Out    string `json:"out-data"`
		}
		if err := askAgent(ctx, guest, "guest-exec-status", map[string]any{"pid": started.PID}, &now); err != nil {
			return "", err
		}
		if now.Exited {
			text, err := base64.StdEncoding.DecodeString(now.Out)
			return string(text), err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(agentPause):
		}
	}
}

// askAgent makes one call of the guest agent.
func askAgent(ctx context.Context, guest, call string, arguments, answer any) error {
	request, err := json.Marshal(map[string]any{"execute": call, "arguments": arguments})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "virsh", "qemu-agent-command", "--domain", guest, "--cmd", string(request))
	var said strings.Builder
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("guest agent of %s: %s: %w: %s: the guest needs qemu-guest-agent, with %[2]s allowed, and the channel org.qemu.guest_agent.0", guest, call, err, excerpt.Line(said.String()))
	}
	if err := json.Unmarshal(text, &struct {
		Return any `json:"return"`
	}{answer}); err != nil {
		return fmt.Errorf("guest agent of %s: %s: %w", guest, call, err)
	}
	return nil
}
