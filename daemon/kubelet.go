package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/culvert-net/culvert/intake/deviceplugin"
	"github.com/culvert-net/culvert/kernel/dirwatch"
	"github.com/culvert-net/culvert/kubelet"
	"github.com/culvert-net/culvert/vf"
)

// DefaultKubeletDir is a kubelet's root folder (its flag --root-dir).
const DefaultKubeletDir = "/var/lib/kubelet"

// lookWithin is how soon after an event the hardware is listed for the kubelet,
// which is to know of it within a second.
const lookWithin = 500 * time.Millisecond

// DevicePlugin makes the node's pools resources of the kubelet with the given
// root folder, once the plugin runs; requests that name no VF leave alone what
// that kubelet has given out, from now on.
func (n *Node) DevicePlugin(root string, log *slog.Logger) *deviceplugin.Plugin {
	p := deviceplugin.New(deviceplugin.Config{
		Dir:     filepath.Join(root, "device-plugins"),
		InfoDir: deviceplugin.DefaultInfoDir, CDIDir: deviceplugin.DefaultCDIDir,
		Hardware: n.Inventory, Ledger: n.Ledger,
		Kubelet: kubelet.New(podResources(root)),
		Spec:    n.WatchSpec, Watch: dirwatch.Watch, Log: log,
	})
	n.Engine.Given = p.Given
	return p
}

// podResources is the socket of a kubelet's PodResources API.
func podResources(root string) string { return filepath.Join(root, "pod-resources", "kubelet.sock") }

// givenBound is how long who asks for the node's status waits for the kubelet.
const givenBound = time.Second

// given are the VFs that the kubelet has given to pods; nil where there is no
// kubelet, or none that answers: what Culvert itself has done is in the ledger.
func (s *Server) given(ctx context.Context) map[vf.PCIAddr]string {
	if s.pods == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, givenBound)
	defer cancel()
	given, err := s.pods.Kubelet.Given(ctx)
	if err != nil {
		s.Log.Debug("which pods have VFs without a network is not known", "err", err)
	}
	return given
}

// serveKubelet runs the device plugin. After a boot it waits until the VFs are
// made: a kubelet that hears of no VF refuses the pods that it starts again. VFs
// of this boot are shown at once, however long others take (I7).
func (s *Server) serveKubelet(ctx context.Context, p *deviceplugin.Plugin) error {
	records, err := s.node.records()
	if err != nil || len(records) == 0 {
		if !s.settled(ctx) {
			return nil
		}
	}
	return p.Run(ctx)
}

// followHardware keeps the inventory fresh for those who show it to others.
func (s *Server) followHardware(ctx context.Context) error {
	wake, err := s.kernel.Watch(ctx)
	if err != nil {
		return fmt.Errorf("watch the kernel: %w", err)
	}
	s.node.Inventory.Follow(ctx, wake, lookWithin, func(err error) { s.Log.Error("list the NICs", "err", err) })
	return nil
}
