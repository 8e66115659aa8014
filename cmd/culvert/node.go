package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
)

// node is the culvertd that the commands ask.
type node struct{ socket string }

// statusBound bounds the time to read the state of nodes, completionBound the time that a
// person waits after Tab.
const (
	statusBound     = 30 * time.Second
	completionBound = 2 * time.Second
)

func (n *node) readStatus(ctx context.Context) (st api.NodeStatus, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusBound)
	defer cancel()
	err = rpc.Call(ctx, n.socket, api.MethodStatus, nil, &st)
	return st, err
}

// hintAbsence returns the next steps for a host without culvertd, if err says that culvertd does not
// answer and root, the host's root folder, has no unit of it.
func hintAbsence(root string, err error) string {
	if !errors.Is(err, rpc.ErrNoDaemon) || hasUnit(root) {
		return ""
	}
	return `culvertd is not installed on this host. Next steps:
  culvert doctor            checks whether the host is fit for VFs
  culvert host install      installs Culvert on it
  culvert status --cluster  asks the Kubernetes cluster of your kubeconfig
  culvert lab up            boots machines with emulated NICs, to try Culvert
`
}

// hasUnit reports whether systemd knows a unit of culvertd. On a node of a cluster culvertd runs in a
// pod and has none, but answers on the same socket.
func hasUnit(root string) bool {
	for _, dir := range []string{"etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"} {
		if _, err := os.Stat(filepath.Join(root, dir, "culvertd.service")); err == nil {
			return true
		}
	}
	return false
}
