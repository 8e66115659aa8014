package daemon

import (
	"context"
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/dirwatch"
	"github.com/culvert-net/culvert/internal/node/intake/claim"
	"github.com/culvert-net/culvert/internal/node/intake/claim/metadata"
	"github.com/culvert-net/culvert/internal/node/intake/deviceplugin"
	"github.com/culvert-net/culvert/internal/node/kubelet"
	"github.com/culvert-net/culvert/internal/node/offer"
	"github.com/culvert-net/culvert/internal/node/offer/publish"
)

// claimParts are the parts that serve ResourceClaims; nil on a host without a cluster.
type claimParts struct {
	driver *claim.Driver      // prepares claims for the kubelet
	offers *publish.Publisher // offers the node's VFs to claims
}

// newClaims returns the parts that serve ResourceClaims. They need a connection to the cluster. The
// device plugin judges the VFs that are offered, so that a VF is either free for both or for neither.
func (s *Server) newClaims(resources *kubelet.PodResources) *claimParts {
	c := &claimParts{
		driver: claim.New(claim.Config{
			Node: s.Cluster.NodeName, KubeletDir: s.KubeletDir, CDIDir: deviceplugin.DefaultCDIDir, MetadataDir: metadata.DefaultDir,
			Claims: s.node.Claims, Cluster: s.cluster, Kubelet: resources,
			Records: s.node.Records, PFs: s.node.Inventory.PFs, Changed: s.node.Ledger.Changed, Spec: s.node.VFs.Spec, Uses: s.kernel.Uses,
			Watch: dirwatch.Watch, Log: s.Log,
		}),
		offers: publish.New(s.Cluster.NodeName, s.cluster.Slices, s.Log),
	}
	s.pods.ForClaims = func(v offer.View) {
		c.offers.Show(v)
		c.driver.ShowHealth(v)
	}
	return c
}

// serveClaims serves claims. After a boot it waits until the VFs are made, as serveKubelet does: the
// kubelet waits for a driver that it does not know yet.
func (s *Server) serveClaims(ctx context.Context) error {
	records, err := s.node.Records()
	if (err != nil || len(records) == 0) && !s.awaitVFs(ctx) {
		return nil
	}
	return s.claims.driver.Run(ctx)
}

// listProblems returns the problems that keep claims from VFs.
func (c *claimParts) listProblems() []api.Problem {
	if c == nil {
		return nil
	}
	return slices.Concat(c.driver.Problems(), c.offers.Problems())
}
