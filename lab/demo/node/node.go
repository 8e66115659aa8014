// Package node works on one node of a lab as its administrator and as a
// container runtime would: it installs Culvert, joins the node to an overlay
// as Flannel makes it, and starts containers on network namespaces.
//
// In go a lab that is up and the programs of a source tree ([FindParts]); out
// come what commands print, or an [ExitError]. Package demo and the end-to-end
// tests call it.
package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/culvert-net/culvert/lab"
)

// Node is one machine of a lab.
type Node struct {
	Lab    *lab.Lab
	Name   string
	Number int // from 1
}

// Of returns the first count nodes of a lab.
func Of(l *lab.Lab, count int) []Node {
	nodes := make([]Node, count)
	for i := range nodes {
		nodes[i] = Node{Lab: l, Name: fmt.Sprintf("worker%02d", i+1), Number: i + 1}
	}
	return nodes
}

// Place returns the place of a network namespace of the node for culvert bench run. Without a name
// it is the node's own.
func (n Node) Place(netns string) string {
	place := fmt.Sprintf("lab:%s/%s", n.Lab.Name(), n.Name)
	if netns != "" {
		place += ",netns=" + netns
	}
	return place
}

// ExitError is a command that ran on a node and failed.
type ExitError struct {
	Node           string
	Command        string
	Status         int
	Stdout, Stderr string
}

func (e *ExitError) Error() string {
	said := strings.TrimSpace(e.Stderr)
	if out := strings.TrimSpace(e.Stdout); said == "" || strings.HasPrefix(out, "{") { // CNI plugins say why on standard output
		said = strings.TrimSpace(said + "\n" + out)
	}
	return fmt.Sprintf("%s: %s: exit status %d: %s", e.Node, e.Command, e.Status, lastPart(said))
}

// lastPart returns the end of a command's output, which says most.
func lastPart(s string) string {
	const most = 2000
	if len(s) > most {
		return "... " + s[len(s)-most:]
	}
	return s
}

// Run runs a command on the node as root and returns what it printed. The
// error is an *ExitError when its status is not 0; the output comes with it.
func (n Node) Run(ctx context.Context, argv ...string) ([]byte, error) {
	return n.runWithInput(ctx, nil, argv[0], argv)
}

// Script runs a bash script with the positional parameters args, stopping at the first command
// that fails. Errors begin with the argument what.
func (n Node) Script(ctx context.Context, what, script string, args ...string) ([]byte, error) {
	return n.runWithInput(ctx, nil, what, append([]string{"bash", "-euo", "pipefail", "-c", script, what}, args...))
}

// Feed runs a script like Script, with a standard input.
func (n Node) Feed(ctx context.Context, in io.Reader, what, script string, args ...string) ([]byte, error) {
	return n.runWithInput(ctx, in, what, append([]string{"bash", "-euo", "pipefail", "-c", script, what}, args...))
}

func (n Node) runWithInput(ctx context.Context, in io.Reader, what string, argv []string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	exit, err := n.Lab.Exec(ctx, n.Name, lab.Cmd{Argv: argv, Stdin: in, Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		return stdout.Bytes(), fmt.Errorf("%s: %w", what, err)
	}
	if exit != 0 {
		return stdout.Bytes(), &ExitError{Node: n.Name, Command: what, Status: exit, Stdout: stdout.String(), Stderr: stderr.String()}
	}
	return stdout.Bytes(), nil
}

// WriteFile writes a file of the node, with its folder.
func (n Node) WriteFile(ctx context.Context, path string, content []byte) error {
	_, err := n.Feed(ctx, bytes.NewReader(content), "write "+path, `mkdir -p "${1%/*}" && cat >"$1.new" && mv "$1.new" "$1"`, path)
	return err
}
