package daemon

import (
	"context"

	"github.com/culvert-net/culvert/internal/kernel/dirwatch"
	"github.com/culvert-net/culvert/internal/node/intake/claim"
	"github.com/culvert-net/culvert/internal/node/intake/claim/metadata"
	"github.com/culvert-net/culvert/internal/node/intake/deviceplugin"
	"github.com/culvert-net/culvert/internal/node/kubelet"
)

// newClaimDriver returns the driver that prepares ResourceClaims for the kubelet. It needs a connection to
// the cluster.
func (s *Server) newClaimDriver(resources *kubelet.PodResources) *claim.Driver {
	return claim.New(claim.Config{
		Node: s.Cluster.NodeName, KubeletDir: s.KubeletDir, CDIDir: deviceplugin.DefaultCDIDir, MetadataDir: metadata.DefaultDir,
		Claims: s.node.Claims, Cluster: s.cluster, Kubelet: resources,
		Records: s.node.Records, PFs: s.node.Inventory.PFs, Spec: s.node.VFs.Spec, Uses: s.kernel.Uses,
		Watch: dirwatch.Watch, Log: s.Log,
	})
}

// serveClaims serves claims. After a boot it waits until the VFs are made, as serveKubelet does: the
// kubelet waits for a driver that it does not know yet.
func (s *Server) serveClaims(ctx context.Context) error {
	records, err := s.node.Records()
	if (err != nil || len(records) == 0) && !s.awaitVFs(ctx) {
		return nil
	}
	return s.claims.Run(ctx)
}
