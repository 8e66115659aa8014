package deviceplugin

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// service serves the calls of one kubelet.
type service struct {
	pluginapi.UnimplementedDevicePluginServer
	*endpoint
	hungUp func() // called when the kubelet does not listen any more
}

// GetDevicePluginOptions says that there is a preferred allocation, and that the kubelet need not
// call PreStartContainer.
func (s *service) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return pluginOptions(), nil
}

// PreStartContainer does nothing; the options do not ask for it.
func (s *service) PreStartContainer(context.Context, *pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	return &pluginapi.PreStartContainerResponse{}, nil
}

// ListAndWatch sends the devices, and again whenever they change.
func (s *service) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	defer s.hungUp()
	var last *pluginapi.ListAndWatchResponse
	for {
		changed := s.changed.Next()
		list := listDevices(s.getDevices())
		if last == nil || !proto.Equal(list, last) {
			if err := stream.Send(list); err != nil {
				return err
			}
			last = list
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// listDevices returns the kubelet's list of a pool. The list of a pool that is offered to claims is
// empty: for a resource of which a node has more than 0, the scheduler uses no claim
// (k8s.io/kubernetes v1.35, shouldDelegateResourceToDRA). Pods that have a VF keep it: the kubelet
// remembers what it gave.
func listDevices(pool desired.Pool, devices []device) *pluginapi.ListAndWatchResponse {
	out := &pluginapi.ListAndWatchResponse{}
	if pool.Offer == desired.OfferClaims {
		return out
	}
	for _, d := range devices {
		v := &pluginapi.Device{ID: d.pci.String(), Health: pluginapi.Healthy}
		if d.unfit != "" {
			v.Health = pluginapi.Unhealthy
		}
		if d.numa >= 0 && !pool.ExcludeTopology {
			v.Topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: int64(d.numa)}}}
		}
		out.Devices = append(out.Devices, v)
	}
	return out
}

// GetPreferredAllocation answers with the choice of preferDevices. If there is none, the answer is
// empty and the kubelet chooses.
func (s *service) GetPreferredAllocation(_ context.Context, req *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	_, devices := s.getDevices()
	var bond *vf.Bond
	if s.plugin.Bond != nil {
		bond = s.plugin.Bond(s.name)
	}
	out := &pluginapi.PreferredAllocationResponse{}
	for _, c := range req.GetContainerRequests() {
		available, err := parseAddresses(c.GetAvailableDeviceIDs())
		if err != nil {
			return nil, err
		}
		must, err := parseAddresses(c.GetMustIncludeDeviceIDs())
		if err != nil {
			return nil, err
		}
		answer := &pluginapi.ContainerPreferredAllocationResponse{}
		for _, a := range preferDevices(devices, available, must, int(c.GetAllocationSize()), bond) {
			answer.DeviceIDs = append(answer.DeviceIDs, a.String())
		}
		out.ContainerResponses = append(out.ContainerResponses, answer)
	}
	return out, nil
}

// Allocate reserves VFs for a pod, and returns what its container gets with them. It fails with
// FailedPrecondition and the reason if a VF is not free, since the kubelet's view of the VF was
// out of date.
func (s *service) Allocate(ctx context.Context, req *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	out := &pluginapi.AllocateResponse{}
	for _, c := range req.GetContainerRequests() {
		vfs, err := parseAddresses(c.GetDevicesIds())
		if err != nil {
			return nil, err
		}
		devices, err := s.plugin.giveVFs(ctx, s.name, vfs)
		if err != nil {
			s.plugin.Log.Warn("kubelet is refused", "pool", s.name, "err", err)
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		pool, _ := s.getDevices()
		answer, err := allocateResponse(pool, devices)
		if err != nil {
			return nil, err
		}
		out.ContainerResponses = append(out.ContainerResponses, answer)
	}
	return out, nil
}

func parseAddresses(ids []string) ([]vf.PCIAddr, error) {
	out := make([]vf.PCIAddr, len(ids))
	for i, id := range ids {
		a, err := vf.ParsePCIAddr(id)
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, fmt.Sprintf("device %q is none of Culvert's: %s", id, err))
		}
		out[i] = a
	}
	return out, nil
}
