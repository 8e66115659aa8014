package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/dirwatch"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/intake/deviceplugin"
	"github.com/culvert-net/culvert/internal/node/kubelet"
)

// DefaultKubeletDir is a kubelet's root folder (its flag --root-dir).
const DefaultKubeletDir = "/var/lib/kubelet"

// listingDelay is the time from an event to the listing of the hardware for the kubelet, which
// has to receive the change within a second.
const listingDelay = 500 * time.Millisecond

// newDevicePlugin returns the plugin that makes the node's pools resources of the kubelet with the
// given root folder. From now on, a request that names no VF never gets a VF that the kubelet gave
// to a pod.
func newDevicePlugin(n *node.Node, root string, log *slog.Logger) *deviceplugin.Plugin {
	p := deviceplugin.New(deviceplugin.Config{
		Dir:     filepath.Join(root, "device-plugins"),
		InfoDir: deviceplugin.DefaultInfoDir, CDIDir: deviceplugin.DefaultCDIDir,
		Hardware: n.Inventory, Ledger: n.Ledger,
		Kubelet: kubelet.New(podResources(root)),
		Spec:    n.WatchSpec,
		IsDark:  n.VFs.IsDark, IsDoubtful: n.VFs.IsDoubtful, HostUse: n.VFs.HostUse,
		Watch: dirwatch.Watch, Log: log,
	})
	n.VFs.Given = p.Given
	return p
}

// podResources returns the socket of a kubelet's PodResources API.
func podResources(root string) string { return filepath.Join(root, "pod-resources", "kubelet.sock") }

// serveKubelet runs the device plugin. After a boot it waits until the VFs are made: a
// kubelet that is offered no VF refuses the pods that it restarts. VFs of this boot are
// offered at once, however long other parts take (I7).
func (s *Server) serveKubelet(ctx context.Context) error {
	records, err := s.node.Records()
	if (err != nil || len(records) == 0) && !s.awaitVFs(ctx) {
		return nil
	}
	return s.pods.Run(ctx)
}

// followHardware lists the hardware after the kernel's events.
func (s *Server) followHardware(ctx context.Context) error {
	wake, err := s.kernel.Watch(ctx)
	if err != nil {
		return fmt.Errorf("watch the kernel: %w", err)
	}
	s.node.Inventory.Follow(ctx, wake, listingDelay, func(err error) { s.Log.Error("list the NICs", "err", err) })
	return nil
}
