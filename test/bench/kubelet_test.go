package bench

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"

	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/culvert-net/culvert/internal/node/kubelet"
)

// podResources answers in place of the node's kubelet, which is stopped since it would start the
// pods itself. By its answer the kubelet gave the same VF to each pod of testdata/pods.yaml.
// Culvert and Multus both ask it at each attach.
type podResources struct {
	podresources.UnimplementedPodResourcesListerServer
	device string
}

func (p podResources) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	devices := []*podresources.ContainerDevices{{ResourceName: "bench.dev/fast", DeviceIds: []string{p.device}}}
	out := &podresources.ListPodResourcesResponse{}
	for _, pod := range []string{"chain", "culvert"} { // Culvert takes the last one for the VF's pod
		out.PodResources = append(out.PodResources, &podresources.PodResources{
			Namespace: "default", Name: pod, Containers: []*podresources.ContainerResources{{Name: "main", Devices: devices}},
		})
	}
	return out, nil
}

// serveKubelet serves until the process ends.
func serveKubelet(device string) error {
	if err := os.Remove(kubelet.DefaultSocket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", kubelet.DefaultSocket)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(s, podResources{device: device})
	go func() { _ = s.Serve(l) }() // it returns only when the process ends
	return nil
}
