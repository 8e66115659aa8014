package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/intake/cni/place"
	"github.com/culvert-net/culvert/internal/node/intake/pod"
)

// InstallPlugin copies the CNI plugin that lies beside this program into dir, where the
// runtime looks for it. An init container of the DaemonSet calls it.
func InstallPlugin(dir string) error {
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the CNI plugin: %w", err)
	}
	return place.Install(filepath.Join(filepath.Dir(own), "culvert-cni"), dir)
}

// leaveHost takes Culvert off a host whose DaemonSet was deleted. The runtime gets back the default
// network's own configuration. The CNI plugin goes, and so do the results that would call it, the tables and programs that balance
// connections to Services, and the node's ResourceSlices. VFs and the ledger stay as they are, for the next installation of
// Culvert. Everything stays unless culvertd has seen that the DaemonSet was deleted: an API server
// that refuses culvertd's credential is no proof of that.
func (s *Server) leaveHost(ctx context.Context) error {
	if s.PluginDir == "" || s.Cluster.DaemonSet == "" || s.cluster == nil {
		return nil
	}
	gone, err := s.cluster.Uninstalled(ctx)
	if err != nil {
		s.Log.Warn("whether Culvert is uninstalled is not known: the CNI plugin and its configuration stay; after an uninstall run \"culvert host uninstall --parts cni\" here", "err", err)
		return nil
	}
	if !gone {
		return nil
	}
	s.Log.Info("the DaemonSet was deleted: taking the CNI plugin away", "dir", s.PluginDir)
	// The kubelet deletes the ResourceSlices too, 30 s after the driver has gone.
	return errors.Join(pod.Leave(s.Cluster.ConfDir), place.Remove(s.PluginDir), place.ForgetResults(netconf.ResultsDir), s.removeServices(), s.cluster.Slices.Delete(ctx))
}
