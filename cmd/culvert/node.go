package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
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
// answer and root, the host's root folder, has neither a unit of it nor its ledger.
func hintAbsence(root string, err error) string {
	if !errors.Is(err, rpc.ErrNoDaemon) || isInstalled(root) {
		return ""
	}
	return `culvertd is not installed on this host. Next steps:
  culvert doctor            checks whether the host is fit for VFs
  culvert host install      installs Culvert on it
  culvert status --cluster  asks the Kubernetes cluster of your kubeconfig
  culvert lab up            boots machines with emulated NICs, to try Culvert
`
}

// isInstalled reports whether culvertd was installed: systemd knows its unit, or it has kept a ledger. On
// a node of a cluster it runs in a pod, and has no unit.
func isInstalled(root string) bool {
	files := []string{journal.DefaultPath}
	for _, dir := range []string{"etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"} {
		files = append(files, filepath.Join(dir, "culvertd.service"))
	}
	return slices.ContainsFunc(files, func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return err == nil
	})
}
