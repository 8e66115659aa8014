package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/kubelet/socket"
)

// endpoint serves one pool on a socket of its own.
type endpoint struct {
	plugin *Plugin
	name   string // full name of the pool
	socket *socket.Service
	stop   context.CancelFunc

	changed change.Signal
	mu      sync.Mutex // guards all below
	pool    desired.Pool
	devices []device
}

func newEndpoint(p *Plugin, name string, stop context.CancelFunc) *endpoint {
	e := &endpoint{plugin: p, name: name, stop: stop}
	e.socket = &socket.Service{
		Folder: &p.folder, Name: "pool " + name, File: socketOf(name), Kubelet: "kubelet.sock",
		Add: e.addToServer, Register: e.registerPool,
	}
	return e
}

func (e *endpoint) setDevices(pool desired.Pool, devices []device) {
	e.mu.Lock()
	e.pool, e.devices = pool, devices
	e.mu.Unlock()
	e.changed.Notify()
}

func (e *endpoint) getDevices() (desired.Pool, []device) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pool, e.devices
}

// socketOf returns the file name of a pool's socket, which is short: a pool's name
// may be longer than the path of a socket.
func socketOf(name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	_, short, _ := strings.Cut(name, "/")
	return fmt.Sprintf("culvert-%s-%08x.sock", short[:min(len(short), 24)], h.Sum32())
}

var errHungUp = errors.New("the kubelet has hung up: does another device plugin serve this resource?")

// addToServer adds the pool to a server for one kubelet.
func (e *endpoint) addToServer(srv *grpc.Server, end func(error)) {
	pluginapi.RegisterDevicePluginServer(srv, &service{endpoint: e, hungUp: func() { end(errHungUp) }})
}

// registerPool registers the pool with the kubelet.
func (e *endpoint) registerPool(ctx context.Context, kubelet grpc.ClientConnInterface) error {
	_, err := pluginapi.NewRegistrationClient(kubelet).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: e.socket.File, ResourceName: e.name, Options: pluginOptions(),
	})
	return err
}

func pluginOptions() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}
}
