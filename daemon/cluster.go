package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/intake/cni"
	"github.com/culvert-net/culvert/intake/pod"
	"github.com/culvert-net/culvert/kernel/dirwatch"
	"github.com/culvert-net/culvert/kube"
	"github.com/culvert-net/culvert/kubelet"
	"github.com/culvert-net/culvert/rpc"
)

// ClusterConfig is how culvertd is a part of its cluster.
type ClusterConfig struct {
	Kubeconfig string // empty: that of the pod culvertd is in
	NodeName   string
	// DaemonSet is the one that culvertd is of, namespace/name; empty for none.
	DaemonSet string
	// PodNetworks says who sets up the networks of pods.
	PodNetworks pod.Mode
	// ConfDir is where the runtime's network configurations are.
	ConfDir string
	// Isolation lets pods use networks of their own namespace and of those in
	// GlobalNamespaces only.
	Isolation        bool
	GlobalNamespaces []string
}

// joinCluster makes the connection to the cluster, and the meta plugin. Where there is
// none and nobody insists, culvertd serves as another meta plugin's delegate, and says
// so.
func (s *Server) joinCluster() error {
	c := s.Cluster
	config, err := kube.Config(c.Kubeconfig)
	if err == nil {
		config.UserAgent = "culvertd/" + s.Version
		s.cluster, err = kube.New(config, c.NodeName, s.Log)
	}
	if err != nil {
		if c.PodNetworks == pod.Always || c.Kubeconfig != "" {
			return err
		}
		s.Log.Warn("no connection to the cluster: networks of pods are left to others", "err", err)
		s.clusterProblem = &api.Problem{Object: "cluster", Reason: err.Error(), Next: "give culvertd a service account or --kubeconfig; until then it is another meta plugin's delegate only"}
		return nil
	}
	s.member = newMember(c.NodeName, s.cluster, s.node, s.wishes, s.nodeStatus, s.Log)
	if c.PodNetworks == pod.Never {
		return nil
	}
	s.meta = pod.New(pod.Config{
		Networks: cni.New(s.node.Engine), Ledger: s.node.Ledger, Engine: s.node.Engine, Kernel: s.kernel, Hardware: s.node.Inventory,
		Cluster: s.cluster, Devices: kubelet.New(podResources(s.KubeletDir)).Devices,
		ConfDir: c.ConfDir, DeviceInfo: pod.DefaultDeviceInfo, Isolation: c.Isolation, Global: c.GlobalNamespaces, Log: s.Log,
	})
	return nil
}

// registerCNI has the shim answered: by the meta plugin, which hands on what is not
// its own, or by intake/cni.
func (s *Server) registerCNI(srv *rpc.Server) {
	if s.meta == nil {
		srv.Handle(api.MethodCNI, cni.New(s.node.Engine).Serve)
		return
	}
	srv.HandleDialog(api.MethodCNI, func(ctx context.Context, params json.RawMessage, ask rpc.Ask) (any, error) {
		return s.meta.Serve(ctx, params, pod.Ask(ask))
	})
}

// serveCluster follows the cluster, and takes the networks of pods over once the VFs
// are made: a pod that came earlier would not get its own.
func (s *Server) serveCluster(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return s.cluster.Run(ctx) })
	g.Go(func() error { s.member.follow(ctx); return nil })
	g.Go(func() error {
		if !s.settled(ctx) {
			return nil
		}
		if s.meta != nil {
			g.Go(func() error { s.resume(ctx); return nil })
		}
		pod.Follow(ctx, s.Cluster.ConfDir, s.Cluster.PodNetworks, dirwatch.Watch, s.Log)
		return nil
	})
	return g.Wait()
}

// hearBound is how long the node waits for what the cluster wishes of it before it
// goes on without: the API server may be away.
const hearBound = 30 * time.Second

// settled waits until the VFs are made, those that the cluster wishes among them;
// false when ctx ended first.
func (s *Server) settled(ctx context.Context) bool {
	select {
	case <-s.made:
	case <-ctx.Done():
		return false
	}
	if s.member == nil {
		return true
	}
	late := time.NewTimer(hearBound)
	defer late.Stop()
	select {
	case <-s.member.followed:
	case <-late.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// resume takes up what an earlier culvertd left of pods' networks.
func (s *Server) resume(ctx context.Context) {
	if !s.cluster.WaitForSync(ctx) {
		return
	}
	if err := s.meta.Resume(ctx); err != nil && ctx.Err() == nil {
		s.Log.Warn("take up the networks of pods", "err", fmt.Errorf("what is left waits for the pods' ends: %w", err))
	}
}
