package claim

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	healthpb "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"

	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/node/offer"
)

// Names of the service by which the kubelet watches the health of devices. Kubernetes 1.37 has v1, and
// takes v1alpha1, too; 1.34 to 1.36 have v1alpha1 only (k8s.io/kubelet, dra-health). The messages of v1 are
// those of v1alpha1 with more fields.
const (
	healthV1       = "v1.DRAResourceHealth"
	healthV1alpha1 = "v1alpha1.DRAResourceHealth"
)

// Field numbers of DeviceHealth in v1 that v1alpha1 does not have (k8s.io/kubelet v0.37.2,
// dra-health/v1/api.proto).
const fieldMessage protowire.Number = 5

// longestHealth is how many characters of a message the kubelet keeps.
const longestHealth = 1024

// healthAgain is how often a stream has the health again. The kubelet takes it for unknown after 30 s.
const healthAgain = 10 * time.Second

// healthBoard has the latest health of the node's devices.
type healthBoard struct {
	mu      sync.Mutex // guards devices
	devices []offer.Health
	isKnown bool
	changed change.Signal
}

// ShowHealth replaces the health that the kubelet sees. It does not wait.
func (d *Driver) ShowHealth(v offer.View) {
	now := offer.FindHealth(d.Node, v)
	d.health.mu.Lock()
	same := d.health.isKnown && slices.Equal(now, d.health.devices)
	d.health.devices, d.health.isKnown = now, true
	d.health.mu.Unlock()
	if !same {
		d.health.changed.Notify()
	}
}

// healthServer serves the kubelet's stream of health.
type healthServer struct {
	healthpb.UnimplementedDRAResourceHealthServer
	d *Driver
}

// addHealth adds the service in both versions.
func addHealth(srv *grpc.Server, d *Driver) {
	s := &healthServer{d: d}
	healthpb.RegisterDRAResourceHealthServer(srv, s)
	v1 := healthpb.DRAResourceHealth_ServiceDesc
	v1.ServiceName = healthV1
	srv.RegisterService(&v1, s)
}

// NodeWatchResources sends the health of all devices at once, after each change, and every 10 s, until the
// kubelet or culvertd ends the stream.
func (s *healthServer) NodeWatchResources(_ *healthpb.NodeWatchResourcesRequest, stream healthpb.DRAResourceHealth_NodeWatchResourcesServer) error {
	again := time.NewTicker(healthAgain)
	defer again.Stop()
	for {
		changed := s.d.health.changed.Next()
		if report := s.d.reportHealth(); report != nil {
			if err := stream.Send(report); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-again.C:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// reportHealth returns the present health in the kubelet's words, or nil if it is not known yet.
func (d *Driver) reportHealth() *healthpb.NodeWatchResourcesResponse {
	d.health.mu.Lock()
	devices, isKnown := d.health.devices, d.health.isKnown
	d.health.mu.Unlock()
	if !isKnown {
		return nil
	}
	out := &healthpb.NodeWatchResourcesResponse{}
	for _, h := range devices {
		one := &healthpb.DeviceHealth{
			Device: &healthpb.DeviceIdentifier{PoolName: h.Pool, DeviceName: h.Device}, Health: healthpb.HealthStatus_HEALTHY, LastUpdatedTime: d.Now().Unix(),
		}
		if h.Problem != "" {
			one.Health = healthpb.HealthStatus_UNHEALTHY
			text := protowire.AppendTag(nil, fieldMessage, protowire.BytesType)
			one.ProtoReflect().SetUnknown(protowire.AppendString(text, excerpt.Fit(h.Problem, longestHealth)))
		}
		out.Devices = append(out.Devices, one)
	}
	return out
}
