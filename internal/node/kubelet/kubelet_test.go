package kubelet_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/kubelet"
	"github.com/culvert-net/culvert/internal/vf"
)

// fake is a kubelet that answers List, after having refused some calls.
type fake struct {
	podresources.UnimplementedPodResourcesListerServer
	pods    []*podresources.PodResources
	refuses atomic.Int32
}

func (f *fake) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	if f.refuses.Add(-1) >= 0 {
		return nil, status.Error(codes.ResourceExhausted, "rejected by rate limit")
	}
	return &podresources.ListPodResourcesResponse{PodResources: f.pods}, nil
}

// pod has one container for each list of devices.
func pod(namespace, name, resource string, containers ...[]string) *podresources.PodResources {
	p := &podresources.PodResources{Namespace: namespace, Name: name}
	for _, ids := range containers {
		p.Containers = append(p.Containers, &podresources.ContainerResources{
			Devices: []*podresources.ContainerDevices{{ResourceName: resource, DeviceIds: ids}},
		})
	}
	return p
}

func serve(t *testing.T, f *fake) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubelet") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "kubelet.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(srv, f)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return socket
}

func addr(t *testing.T, s string) vf.PCIAddr {
	t.Helper()
	a, err := vf.ParsePCIAddr(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestDevices(t *testing.T) {
	f := &fake{pods: []*podresources.PodResources{
		pod("default", "a", "intel.com/net", []string{"0000:01:10.2", "0000:01:10.0"}, []string{"0000:01:10.2"}),
		pod("other", "a", "intel.com/net", []string{"0000:01:10.4"}),
		pod("default", "b", "intel.com/else", []string{"0000:01:10.6"}),
		pod("default", "c", "intel.com/net", []string{"GPU-1"}),
	}}
	k := kubelet.New(serve(t, f))
	got, err := k.Devices(t.Context(), "default", "a", "intel.com/net")
	want := []string{"0000:01:10.0", "0000:01:10.2"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if got, err := k.Devices(t.Context(), "default", "b", ""); err != nil || len(got) != 1 || got[0] != "0000:01:10.6" {
		t.Errorf("of every resource: %v, %v", got, err)
	}
	if got, err := k.Devices(t.Context(), "default", "c", "intel.com/net"); err != nil || len(got) != 1 || got[0] != "GPU-1" {
		t.Errorf("a device of another kind: %v, %v", got, err)
	}
	for name, tc := range map[string]struct {
		is   error
		says string
	}{
		"b": {vf.ErrNotFound, "pod default/b has no device of intel.com/net"},
		"d": {vf.ErrNotFound, "pod default/d"},
	} {
		_, err := k.Devices(t.Context(), "default", name, "intel.com/net")
		if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("pod %s: %v", name, err)
		}
	}
}

func TestKnows(t *testing.T) {
	p := kubelet.New(serve(t, &fake{pods: []*podresources.PodResources{pod("d", "plain", ""), pod("d", "b", "x/y", []string{"0000:01:10.0"})}}))
	for name, want := range map[string]bool{"plain": true, "b": true, "c": false} {
		if got, err := p.Knows(t.Context(), "d", name); got != want || err != nil {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
	if got, err := p.Knows(t.Context(), "e", "b"); got || err != nil {
		t.Errorf("another namespace: %t, %v", got, err)
	}
	none := kubelet.New(filepath.Join(t.TempDir(), "none.sock"))
	if _, err := none.Knows(t.Context(), "d", "b"); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("no kubelet: %v", err)
	}
}

func TestGiven(t *testing.T) {
	f := &fake{pods: []*podresources.PodResources{
		pod("default", "a", "intel.com/net", []string{"0000:01:10.2"}),
		pod("default", "c", "nvidia.com/gpu", []string{"GPU-1"}),
	}}
	f.refuses.Store(2) // Devices waits for the kubelet's limit of calls
	got, err := kubelet.New(serve(t, f)).Given(t.Context())
	if diff := cmp.Diff(map[vf.PCIAddr]string{addr(t, "0000:01:10.2"): "default/a"}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

// A host that has never had a kubelet gave no device to a pod. A kubelet that is down may have
// given any device, so that is an error.
func TestNoKubelet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.sock")
	k := kubelet.New(path)
	if got, err := k.Given(t.Context()); got != nil || err != nil {
		t.Errorf("no socket: %v %v", got, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := k.Given(t.Context())
	_, err2 := k.Devices(t.Context(), "default", "a", "x/y")
	if !errors.Is(err, vf.ErrNotReady) || !errors.Is(err2, vf.ErrNotReady) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v; %v", err, err2)
	}
}

// A kubelet that refuses until the caller gives up is not ready.
func TestRefusedToTheEnd(t *testing.T) {
	f := &fake{}
	f.refuses.Store(1 << 20)
	p := kubelet.New(serve(t, f))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for f.refuses.Load() > 1<<20-2 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := p.Knows(ctx, "d", "a"); !errors.Is(err, vf.ErrNotReady) {
		t.Error(err)
	}
}

// The devices of a pod's claims are those that the kubelet lists for its containers, of every driver.
func TestClaimedDevices(t *testing.T) {
	claimed := func(claim, driver, device string) *podresources.DynamicResource {
		return &podresources.DynamicResource{ClaimName: claim, ClaimNamespace: "d", ClaimResources: []*podresources.ClaimResource{{DriverName: driver, PoolName: "p", DeviceName: device}}}
	}
	p := pod("d", "a", "x/y", []string{"0000:01:00.0"}, nil)
	p.Containers[0].DynamicResources = []*podresources.DynamicResource{claimed("vf", "culvert.dev", "vf-3")}
	p.Containers[1].DynamicResources = []*podresources.DynamicResource{claimed("gpu", "gpu.example.com", "gpu-0")}
	asked := kubelet.New(serve(t, &fake{pods: []*podresources.PodResources{pod("d", "b", "x/y", nil), p}}))
	got, err := asked.ClaimedDevices(t.Context(), "d", "a")
	want := []api.ClaimedDevice{{Claim: "vf", Driver: "culvert.dev", Pool: "p", Device: "vf-3"}, {Claim: "gpu", Driver: "gpu.example.com", Pool: "p", Device: "gpu-0"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, name := range []string{"b", "unknown"} {
		if got, err := asked.ClaimedDevices(t.Context(), "d", name); len(got) > 0 || err != nil {
			t.Errorf("pod %s has %v, %v", name, got, err)
		}
	}
	if _, err := kubelet.New("/nonexistent/kubelet.sock").ClaimedDevices(t.Context(), "d", "a"); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("without a kubelet: %v", err)
	}
}

// Claims returns the claims of all pods, whichever container has them.
func TestClaims(t *testing.T) {
	a := pod("d", "a", "", []string{}, []string{})
	a.Containers[0].DynamicResources = []*podresources.DynamicResource{{ClaimNamespace: "d", ClaimName: "one"}, {ClaimNamespace: "d", ClaimName: "two"}}
	a.Containers[1].DynamicResources = []*podresources.DynamicResource{{ClaimNamespace: "d", ClaimName: "one"}}
	b := pod("e", "b", "", []string{})
	b.Containers[0].DynamicResources = []*podresources.DynamicResource{{ClaimNamespace: "e", ClaimName: "one"}}
	got, err := kubelet.New(serve(t, &fake{pods: []*podresources.PodResources{a, b}})).Claims(t.Context())
	if d := cmp.Diff(map[string]bool{"d/one": true, "d/two": true, "e/one": true}, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	if got, err := kubelet.New(filepath.Join(t.TempDir(), "none")).Claims(t.Context()); !errors.Is(err, vf.ErrNotReady) {
		t.Errorf("without a kubelet: %v, %v", got, err)
	}
}
