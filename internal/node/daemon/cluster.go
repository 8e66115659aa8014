package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/dirwatch"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
	"github.com/culvert-net/culvert/internal/node/intake/pod"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/internal/node/kubelet"
	"github.com/culvert-net/culvert/internal/node/membership"
	"github.com/culvert-net/culvert/internal/node/sources"
	"github.com/culvert-net/culvert/internal/rpc"
)

// ClusterConfig has the options of a culvertd in a cluster.
type ClusterConfig struct {
	Kubeconfig string // empty: that of the pod culvertd is in
	NodeName   string
	// DaemonSet is the DaemonSet of this culvertd, namespace/name; empty for none.
	DaemonSet string
	// DevicePlugin is the ConfigMap of the SR-IOV network device plugin, namespace/name, and
	// DevicePluginPrefix the prefix of its resources that have none in the ConfigMap.
	DevicePlugin, DevicePluginPrefix string
	// Whereabouts says who gives out the addresses of whereabouts networks.
	Whereabouts cni.WhereaboutsMode
	// IPAMTypes are the IPAM plugins of other projects that networks may name.
	IPAMTypes ipam.Types
	// PodNetworks says who sets up the networks of pods.
	PodNetworks pod.Mode
	// ConfDir is the folder of the runtime's network configurations.
	ConfDir string
	// Isolation says which networks of other namespaces pods may use.
	Isolation netannotation.Isolation
	// EveryPod has the networks that pods get without asking for them.
	EveryPod netannotation.EveryPod
}

// joinKubernetes makes the device plugin and the connection to the cluster. Without a
// connection, and where no flag insists on one, culvertd serves as another meta plugin's
// delegate and reports the problem.
func (s *Server) joinKubernetes() error {
	if !s.Kubernetes {
		return nil
	}
	s.pods = newDevicePlugin(s.node, s.KubeletDir, s.Log)
	s.status.Given = s.pods.Kubelet.Given
	c, resources := s.Cluster, kubelet.New(podResources(s.KubeletDir))
	config, err := kube.Config(c.Kubeconfig)
	if err == nil {
		config.UserAgent = "culvertd/" + s.Version
		kube.CountRequests(config, s.metrics.CountRequest)
		s.cluster, err = kube.New(config, c.NodeName, s.Log)
	}
	if err == nil {
		s.sources.DevicePlugin = sources.DevicePluginSource{ConfigMap: c.DevicePlugin, Prefix: c.DevicePluginPrefix, Node: c.NodeName}
		if err := s.cluster.FollowDevicePlugin(c.DevicePlugin); err != nil {
			return err
		}
	}
	if err == nil && s.PluginDir != "" && c.DaemonSet != "" {
		if err := s.cluster.FollowDaemonSet(c.DaemonSet); err != nil {
			return err
		}
	}
	if err != nil {
		if c.PodNetworks == pod.Always || c.Kubeconfig != "" {
			return err
		}
		s.Log.Warn("no connection to the cluster: networks of pods are left to others", "err", err)
		s.clusterProblem = &api.Problem{Object: "cluster", Reason: err.Error(), Next: "give culvertd a service account or --kubeconfig; until then it is another meta plugin's delegate only"}
		return nil
	}
	s.member = membership.New(membership.Config{NodeName: c.NodeName, Cluster: s.cluster, Writer: s.cluster, Node: s.node, Sources: s.sources, Status: s.status.Status, Faults: s.faults.Problems, Segments: s.segmentProblems, Definitions: &s.definitions, Log: s.Log})
	s.status.Addresses = s.member.CountAddresses
	s.node.Engine.NamespaceLabels, s.node.Engine.MissingPools = s.cluster.NamespaceLabels, s.missingPools
	s.pods.Bond = s.findBond
	s.claims = s.newClaims(resources)
	s.node.Upkeep.PodEvent = s.emitPodEvent
	s.node.Upkeep.KnowsPod = podFinder{s.cluster, resources}.knowsPod
	if err := s.followServices(); err != nil {
		return err
	}
	if c.PodNetworks == pod.Never {
		return nil
	}
	s.networks = pod.New(pod.Config{
		Networks: s.newCNI(), Ledger: s.node.Ledger, Resets: s.node.Resets, Kernel: s.kernel, Hardware: s.node.Inventory,
		Cluster: s.cluster, Definitions: &s.definitions, Devices: resources.Devices, Claimed: resources.ClaimedDevices, Metadata: s.claims.driver.KeepMetadata,
		NodeName: c.NodeName, ConfDir: c.ConfDir, DeviceInfo: pod.DefaultDeviceInfo, Isolation: c.Isolation, EveryPod: c.EveryPod, IPAMTypes: c.IPAMTypes, Log: s.Log,
	})
	return nil
}

// missingPools returns why pools of this node may be missing, with what keeps culvertd from
// knowing them.
func (s *Server) missingPools() error {
	err := s.sources.MissingPools()
	if err == nil {
		return nil
	}
	if why := s.cluster.WhyNoPolicies(); why != nil {
		return fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// newCNI returns a handler of single networks.
func (s *Server) newCNI() *cni.Handler {
	h := cni.New(cni.Parts{Engine: s.node.Engine, Resets: s.node.Resets, VFs: s.node.VFs})
	h.Log, h.IPAMTypes = s.Log, s.Cluster.IPAMTypes
	h.ServesWhereabouts = s.Cluster.Whereabouts.Serves(nil)
	if s.cluster != nil {
		h.Cluster, h.Definitions = s.cluster, &s.definitions
		h.Pools = s.member
		h.ServesWhereabouts = s.Cluster.Whereabouts.Serves(s.cluster.HasGroup)
	}
	return h
}

// registerCNI serves the CNI shim. The handler of pods' networks serves it, if there is one, and
// passes other requests on; otherwise intake/cni does.
func (s *Server) registerCNI(srv *rpc.Server) {
	serve := s.newCNI().Serve
	if s.networks != nil {
		serve = s.networks.Serve
	}
	srv.HandleDialog(api.MethodCNI, func(ctx context.Context, params json.RawMessage, ask rpc.Ask) (any, error) {
		return serve(ctx, params, cni.Ask(ask))
	})
}

// serveCluster follows the cluster. It takes over the networks of pods once the VFs are made: a pod
// that starts earlier would not get its VFs.
func (s *Server) serveCluster(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return s.cluster.Run(ctx) })
	g.Go(func() error { s.member.Run(ctx); return nil })
	g.Go(func() error { s.services.Run(ctx); return nil })
	g.Go(func() error { s.claims.offers.Run(ctx); return nil })
	g.Go(func() error {
		if !s.awaitVFs(ctx) {
			return nil
		}
		if s.networks != nil {
			g.Go(func() error { s.resumeNetworks(ctx); return nil })
		}
		pod.Follow(ctx, s.Cluster.ConfDir, s.Cluster.PodNetworks, dirwatch.Watch, s.Log)
		return nil
	})
	return g.Wait()
}

// clusterTimeout is how long the node waits for the cluster's wanted Spec: the API server
// may be down.
const clusterTimeout = 30 * time.Second

// awaitVFs waits until the VFs are made, including those that the cluster wants. It returns false
// if ctx ended first.
func (s *Server) awaitVFs(ctx context.Context) bool {
	var followed <-chan struct{}
	if s.member != nil {
		followed = s.member.Followed()
	}
	return awaitBoth(ctx, s.made, followed, clusterTimeout)
}

// awaitBoth waits until made is closed, and then until followed is closed or patience is
// over, unless followed is nil. It returns false when ctx ended first.
func awaitBoth(ctx context.Context, made, followed <-chan struct{}, patience time.Duration) bool {
	select {
	case <-made:
	case <-ctx.Done():
		return false
	}
	if followed == nil {
		return true
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-followed:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// resumeNetworks finishes or undoes the work on pods' networks that an earlier culvertd left
// undone.
func (s *Server) resumeNetworks(ctx context.Context) {
	if !s.cluster.WaitForSync(ctx) {
		return
	}
	if err := s.networks.Resume(ctx); err != nil && ctx.Err() == nil {
		s.Log.Warn("take up the networks of pods", "err", fmt.Errorf("what is left waits for the pods' ends: %w", err))
	}
}
