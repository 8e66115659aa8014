package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Plugin is a CNI plugin with the arguments of a runtime's call.
type Plugin struct {
	Path      string // of the program
	Config    []byte // the network's configuration, for standard input
	Netns     string // path of the network namespace to attach to
	Interface string // name of the interface there
}

// AttachTimes has the duration of each call, from the start of the program to its end, as a
// runtime waits for it.
type AttachTimes struct {
	Add []time.Duration `json:"add"`
	Del []time.Duration `json:"del"`
}

// Attachments attaches and detaches times times, one after the other, each as
// a container of its own. It stops at the first call that fails. After an ADD that failed it calls
// DEL.
func Attachments(ctx context.Context, p Plugin, times int) (t AttachTimes, err error) {
	for i := range times {
		container := fmt.Sprintf("bench-%d-%d", os.Getpid(), i)
		add, err := p.callPlugin(ctx, "ADD", container)
		if err != nil {
			_, undo := p.callPlugin(context.WithoutCancel(ctx), "DEL", container)
			return t, errors.Join(err, undo)
		}
		del, err := p.callPlugin(ctx, "DEL", container)
		if err != nil {
			return t, err
		}
		t.Add, t.Del = append(t.Add, add), append(t.Del, del)
	}
	return t, nil
}

// callTime bounds one call. A runtime waits longer, but nothing that takes
// longer is worth measuring.
const callTime = time.Minute

// callPlugin runs the plugin once (CNI specification 1.1, section 2).
func (p Plugin) callPlugin(ctx context.Context, command, container string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Path)
	cmd.Env = []string{
		"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + container, "CNI_NETNS=" + p.Netns,
		"CNI_IFNAME=" + p.Interface, "CNI_PATH=/opt/cni/bin",
	}
	cmd.Stdin = bytes.NewReader(p.Config)
	var said bytes.Buffer // a plugin that fails says why on standard output
	cmd.Stdout, cmd.Stderr = &said, &said
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if err != nil {
		return took, fmt.Errorf("CNI %s of %s: %w: %s", command, container, err, strings.TrimSpace(said.String()))
	}
	return took, nil
}
