package place

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/internal/program"
)

// labMachine is a node of a running lab, reached by the program culvert-lab.
type labMachine struct {
	program   string // its path
	lab, node string
}

// labTime bounds a command of culvert-lab for a lab that is up.
const labTime = time.Minute

// findLab finds "LAB/NODE".
func findLab(ctx context.Context, machine string) (m labMachine, err error) {
	m.lab, m.node, _ = strings.Cut(machine, "/")
	if m.program, err = program.Find(program.Lab); err != nil {
		return m, err
	}
	out, err := m.runCommand(ctx, "status", "--output", "json")
	if err != nil {
		return m, err
	}
	var status struct {
		Nodes []struct {
			Name string `json:"name"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return m, fmt.Errorf("read the status of lab %s: %w", m.lab, err)
	}
	var names []string
	for _, n := range status.Nodes {
		names = append(names, n.Name)
	}
	if !slices.Contains(names, m.node) {
		return m, fmt.Errorf("lab %s has no node %s: it has %s", m.lab, m.node, strings.Join(names, ", "))
	}
	return m, nil
}

// makeCommand returns a command of culvert-lab for the lab. It has a process group of its own, so
// that Ctrl-C reaches only the calling program.
func (m labMachine) makeCommand(ctx context.Context, command string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, m.program, append([]string{command, "--name", m.lab}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// runCommand runs a command of culvert-lab and returns what it printed.
func (m labMachine) runCommand(ctx context.Context, command string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, labTime)
	defer cancel()
	var said bytes.Buffer
	cmd := m.makeCommand(ctx, command, args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("culvert lab %s: %w: %s", command, errors.Join(context.Cause(ctx), err), bytes.TrimSpace(said.Bytes()))
	}
	return out, nil
}

func (m labMachine) startScript(ctx context.Context, script string) (*Pipe, error) {
	return startCommand(m.makeCommand(context.WithoutCancel(ctx), "exec", m.node, "--", "sh", "-c", script), func() error { return nil })
}

// putProgram copies the program by the folder that the node shares with the host: that is
// several times as fast as SSH there.
func (m labMachine) putProgram(ctx context.Context, p Program, run func(string) string) (*Pipe, error) {
	dir := fmt.Sprintf("/run/culvert-bench-%d", time.Now().UnixNano())
	script := fmt.Sprintf("trap 'rm -rf %[1]s' EXIT\ntrap 'exit 1' HUP INT PIPE TERM\n(%s)", dir, run(dir+"/"+program.Bench))
	if _, err := m.runCommand(ctx, "cp", p.Path, m.node+":"+dir+"/"+program.Bench); err != nil {
		return nil, err
	}
	return m.startScript(ctx, script)
}

// LabEnds has the ends of a lab that was booted for a measurement. culvert-lab writes them, or the
// reason why there are none.
type LabEnds struct {
	From       []string `json:"from,omitempty"` // places, in the [Forms]
	To         []string `json:"to,omitempty"`
	Via        string   `json:"via,omitempty"`        // what forwards between them; empty: nothing
	Near       string   `json:"near,omitempty"`       // has a VF of the PF that the one sender's VF is of
	Management string   `json:"management,omitempty"` // the interface that nodes are managed by
	Error      string   `json:"error,omitempty"`
}

// BootedLab is a lab that was booted for a measurement.
type BootedLab struct {
	LabEnds
	pipe *Pipe
}

// downTime is how long a lab may take to go down, and a boot to be given up.
const downTime = time.Minute

// BootLab boots a lab with the given number of senders, or one whose ends are VFs that DPDK drives.
// culvert-lab shows its progress on standard error. Down takes the lab down, and so does the end of the calling program.
func BootLab(ctx context.Context, senders int, dpdk bool) (*BootedLab, error) {
	path, err := program.Find(program.Lab)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, "ends", "--senders", strconv.Itoa(senders), "--dpdk="+strconv.FormatBool(dpdk))
	cmd.Stderr = os.Stderr
	pipe, err := startCommand(cmd, func() error { return nil })
	if err != nil {
		return nil, err
	}
	pipe.patience = downTime
	b := &BootedLab{pipe: pipe}
	stop := context.AfterFunc(ctx, func() { _ = pipe.Close() })
	err = json.NewDecoder(pipe).Decode(&b.LabEnds)
	stop()
	if err == nil && b.Error != "" {
		err = errors.New(b.Error)
	}
	if err = errors.Join(context.Cause(ctx), err); err != nil {
		return nil, fmt.Errorf("boot a lab: %w", errors.Join(err, pipe.Close()))
	}
	return b, nil
}

// Down takes the lab down.
func (b *BootedLab) Down() error { return b.pipe.Close() }
