package deviceplugin_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/culvert-net/culvert/internal/vf"
)

// fakeKubelet treats device plugins as a kubelet does (k8s.io/kubernetes
// pkg/kubelet/cm/devicemanager): it clears its folder when it starts, dials back to a plugin that
// registers before it answers it, and keeps the last list of each resource. It is PodResources as
// well.
type fakeKubelet struct {
	pluginapi.UnimplementedRegistrationServer
	t   *testing.T
	dir string

	mu        sync.Mutex // guards all below
	changed   chan struct{}
	resources map[string]*resource
	given     map[vf.PCIAddr]string
	answers   error
	srv       *grpc.Server
	done      chan error
	refuses   map[string]bool
}

// resource is a registered resource.
type resource struct {
	conn     *grpc.ClientConn
	client   pluginapi.DevicePluginClient
	devices  map[string]*pluginapi.Device
	ended    bool
	register int // how often
}

func newKubelet(t *testing.T) *fakeKubelet {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubelet") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	k := &fakeKubelet{t: t, dir: filepath.Join(dir, "p"), changed: make(chan struct{}), given: map[vf.PCIAddr]string{}, refuses: map[string]bool{}, resources: map[string]*resource{}}
	t.Cleanup(k.stop)
	return k
}

// start starts the kubelet.
func (k *fakeKubelet) start() {
	k.t.Helper()
	if err := os.MkdirAll(k.dir, 0o750); err != nil {
		k.t.Fatal(err)
	}
	k.eachSocket(func(path string) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // its plugin was faster
			k.t.Error(err)
		}
	})
	l, err := net.Listen("unix", filepath.Join(k.dir, "kubelet.sock"))
	if err != nil {
		k.t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.srv, k.done = grpc.NewServer(), make(chan error, 1)
	pluginapi.RegisterRegistrationServer(k.srv, k)
	srv, done := k.srv, k.done
	go func() { done <- srv.Serve(l) }()
}

func (k *fakeKubelet) eachSocket(f func(path string)) {
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		k.t.Error(err)
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSocket != 0 {
			f(filepath.Join(k.dir, e.Name()))
		}
	}
}

// stop ends the kubelet: its connections break, and its socket stays.
func (k *fakeKubelet) stop() {
	k.mu.Lock()
	srv, done, resources := k.srv, k.done, maps.Clone(k.resources)
	k.srv = nil
	k.mu.Unlock()
	if srv == nil {
		return
	}
	srv.Stop()
	if err := <-done; err != nil {
		k.t.Error(err)
	}
	for _, r := range resources {
		_ = r.conn.Close()
	}
}

// Register serves the registration of a device plugin.
func (k *fakeKubelet) Register(_ context.Context, r *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	k.mu.Lock()
	refused := k.refuses[r.GetResourceName()]
	k.mu.Unlock()
	if r.GetVersion() != "v1beta1" || refused {
		return nil, fmt.Errorf("version %s of %s is refused", r.GetVersion(), r.GetResourceName())
	}
	conn, err := grpc.NewClient("unix:"+filepath.Join(k.dir, r.GetEndpoint()), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	client := pluginapi.NewDevicePluginClient(conn)
	stream, err := client.ListAndWatch(k.t.Context(), &pluginapi.Empty{})
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	count := 1
	if old := k.resources[r.GetResourceName()]; old != nil {
		count = old.register + 1
	}
	res := &resource{conn: conn, client: client, register: count}
	k.resources[r.GetResourceName()] = res
	k.ring()
	go func() {
		for {
			list, err := stream.Recv()
			k.mu.Lock()
			if err != nil {
				res.ended = true
				k.ring()
				k.mu.Unlock()
				return
			}
			res.devices = map[string]*pluginapi.Device{}
			for _, d := range list.GetDevices() {
				res.devices[d.GetID()] = d
			}
			k.ring()
			k.mu.Unlock()
		}
	}()
	return &pluginapi.Empty{}, nil
}

// ring wakes the waits for a change. The caller holds mu.
func (k *fakeKubelet) ring() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// Given answers like kubelet.PodResources.
func (k *fakeKubelet) Given(context.Context) (map[vf.PCIAddr]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.given), k.answers
}

// gives notes a VF as a pod's, as the kubelet does after Allocate.
func (k *fakeKubelet) gives(pci vf.PCIAddr, pod string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if pod == "" {
		delete(k.given, pci)
		return
	}
	k.given[pci] = pod
}

// knows waits until the kubelet's list of a resource is as wanted. Its text has "h" for each
// healthy device and "u" for each other. It is "-" if the resource is not registered or its plugin
// is gone.
func (k *fakeKubelet) knows(name, want string) {
	k.t.Helper()
	late := time.After(patience)
	for {
		k.mu.Lock()
		changed, got := k.changed, k.text(name)
		k.mu.Unlock()
		if got == want {
			return
		}
		select {
		case <-changed:
		case <-late:
			k.t.Fatalf("%s is %s to the kubelet after %s, want %s", name, got, patience, want)
		}
	}
}

func (k *fakeKubelet) text(name string) string {
	r := k.resources[name]
	if r == nil || r.ended || r.devices == nil {
		return "-"
	}
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(r.devices)) {
		b.WriteString(map[string]string{pluginapi.Healthy: "h", pluginapi.Unhealthy: "u"}[r.devices[id].GetHealth()])
	}
	return b.String()
}

func (k *fakeKubelet) resource(name string) *resource {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.resources[name]
}

// allocate calls Allocate as the kubelet does when it starts a pod with the devices.
func (k *fakeKubelet) allocate(name string, ids ...string) (*pluginapi.ContainerAllocateResponse, error) {
	out, err := k.resource(name).client.Allocate(k.t.Context(),
		&pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}})
	if err != nil {
		return nil, err
	}
	return out.GetContainerResponses()[0], nil
}
