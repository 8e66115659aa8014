package place

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/culvert-net/culvert/lab"
)

// labMachine is a node of a running lab.
type labMachine struct {
	lab  *lab.Lab
	node string
}

// openLab finds "LAB/NODE".
func openLab(machine string) (*lab.Lab, string, error) {
	name, node, _ := strings.Cut(machine, "/")
	l, err := lab.Open(name)
	if err != nil {
		return nil, "", err
	}
	nodes, err := l.Nodes()
	if err != nil {
		return nil, "", errors.Join(err, l.Close())
	}
	var names []string
	for _, n := range nodes {
		if n.Name == node {
			return l, node, nil
		}
		names = append(names, n.Name)
	}
	return nil, "", errors.Join(fmt.Errorf("the lab %s has no node %s: it has %s", name, node, strings.Join(names, ", ")), l.Close())
}

func (m labMachine) start(ctx context.Context, script string) (*Pipe, error) {
	return startFunc(ctx, func(ctx context.Context, in io.Reader, out, said io.Writer) error {
		_, err := m.lab.Exec(ctx, m.node, lab.Cmd{Argv: []string{"sh", "-c", script}, Stdin: in, Stdout: out, Stderr: said})
		return err
	}), nil
}

// put copies the program by the folder that the node shares with the host: that is
// several times as fast as SSH there.
func (m labMachine) put(ctx context.Context, p Program, run func(string) string) (*Pipe, error) {
	dir := fmt.Sprintf("/run/culvert-bench-%d", time.Now().UnixNano())
	script := fmt.Sprintf("trap 'rm -rf %[1]s' EXIT\ntrap 'exit 1' HUP INT PIPE TERM\n(%s)", dir, run(dir+"/culvert"))
	if err := m.lab.Copy(ctx, m.node, p.Path, dir+"/culvert"); err != nil {
		return nil, err
	}
	return m.start(ctx, script)
}

// startFunc is startCommand for what runs a command itself until the command ends
// or its context does.
func startFunc(ctx context.Context, run func(ctx context.Context, in io.Reader, out, said io.Writer) error) *Pipe {
	ctx, kill := context.WithCancel(context.WithoutCancel(ctx))
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	said, done := &tail{}, make(chan struct{})
	go func() { // ends with the command
		err := run(ctx, inR, outW, said)
		if err == nil {
			err = io.EOF
		}
		_ = inR.CloseWithError(err)
		_ = outW.CloseWithError(err)
		close(done)
	}()
	end := func(impatient <-chan time.Time) error {
		defer kill()
		_ = outR.Close() // nobody reads any more: what is said now must not hold it up
		select {
		case <-done:
			return nil
		case <-impatient:
			kill()
			<-done
			return fmt.Errorf("the agent did not leave within %s of being told to, and was killed: %s", goodbye, said)
		}
	}
	return newPipe(outR, inW, said, end, func() error { return nil })
}
