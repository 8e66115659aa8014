// Command standin stands in for the SR-IOV network device plugin in the tests of a migration:
// no registry serves that program as a Go module. It reads the pools of a config.json by
// vendors, drivers and pfNames, registers each with the kubelet as that plugin does, and gives
// out the VFs by their PCI addresses, those that are bound to vfio-pci with their device nodes.
// It does nothing else.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func main() {
	file := flag.String("config", "/etc/pcidp/config.json", "the pools")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if err := servePools(ctx, *file); err != nil {
		cancel()
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(1) //nolint:gocritic // cancel has run
	}
}

func servePools(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var config struct {
		ResourceList []*pool `json:"resourceList"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range config.ResourceList {
		g.Go(func() error { return p.servePool(ctx) })
	}
	return g.Wait()
}

// pool is one resource of config.json.
type pool struct {
	pluginapi.UnimplementedDevicePluginServer
	Name      string `json:"resourceName"`
	Prefix    string `json:"resourcePrefix"`
	Selectors struct {
		Vendors []string `json:"vendors"`
		Drivers []string `json:"drivers"`
		PFNames []string `json:"pfNames"`
	} `json:"selectors"`

	vfs  []string
	done <-chan struct{}
}

func (p *pool) resourceName() string { return p.Prefix + "/" + p.Name }

// findVFs lists the PCI addresses of the VFs that the selectors match.
func (p *pool) findVFs() error {
	all, err := filepath.Glob("/sys/bus/pci/devices/*/physfn")
	if err != nil {
		return err
	}
	for _, physfn := range all {
		vendor, err := os.ReadFile(filepath.Join(filepath.Dir(physfn), "vendor"))
		if err != nil {
			return err
		}
		names, err := os.ReadDir(filepath.Join(physfn, "net"))
		if err != nil {
			return err
		}
		isPF := func(d os.DirEntry) bool { return matchesValue(p.Selectors.PFNames, d.Name()) }
		address := filepath.Base(filepath.Dir(physfn))
		if matchesValue(p.Selectors.Vendors, strings.TrimPrefix(strings.TrimSpace(string(vendor)), "0x")) && matchesValue(p.Selectors.Drivers, linkOf(address, "driver")) && slices.ContainsFunc(names, isPF) {
			p.vfs = append(p.vfs, address)
		}
	}
	return nil
}

// matchesValue reports whether a selector has a value. A selector without values matches all.
func matchesValue(selector []string, value string) bool {
	return len(selector) == 0 || slices.Contains(selector, value)
}

// linkOf returns the target's name of a link in the folder of a PCI function: its driver or IOMMU
// group. It returns "" if there is none.
func linkOf(address, name string) string {
	target, err := os.Readlink(filepath.Join("/sys/bus/pci/devices", address, name))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// servePool serves the pool until ctx ends.
func (p *pool) servePool(ctx context.Context) error {
	if err := p.findVFs(); err != nil {
		return fmt.Errorf("find the VFs of %s: %w", p.resourceName(), err)
	}
	p.done = ctx.Done()
	path := filepath.Join(pluginapi.DevicePluginPath, "standin-"+p.Name+".sock")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	socket, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	srv := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(srv, p)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return srv.Serve(socket) })
	g.Go(func() error { <-ctx.Done(); srv.Stop(); return nil })
	g.Go(func() error { return p.registerPool(ctx, filepath.Base(path)) })
	return g.Wait()
}

func (p *pool) registerPool(ctx context.Context, endpoint string) error {
	conn, err := grpc.NewClient("unix://"+pluginapi.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{Version: pluginapi.Version, Endpoint: endpoint, ResourceName: p.resourceName()})
	if err == nil {
		fmt.Println("standin:", p.resourceName(), "has", p.vfs)
	}
	return err
}

// GetDevicePluginOptions is of the device plugin API.
func (p *pool) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

// ListAndWatch is of the device plugin API. The list does not change.
func (p *pool) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	var list pluginapi.ListAndWatchResponse
	for _, address := range p.vfs {
		list.Devices = append(list.Devices, &pluginapi.Device{ID: address, Health: pluginapi.Healthy})
	}
	if err := stream.Send(&list); err != nil {
		return err
	}
	select {
	case <-stream.Context().Done():
	case <-p.done:
	}
	return nil
}

// nodesOf lists the device nodes that a program needs to open a VF in user space; none for a VF
// that is an interface.
func nodesOf(address string) (out []*pluginapi.DeviceSpec) {
	if linkOf(address, "driver") != "vfio-pci" {
		return nil
	}
	for _, path := range []string{"/dev/vfio/vfio", "/dev/vfio/" + linkOf(address, "iommu_group")} {
		out = append(out, &pluginapi.DeviceSpec{ContainerPath: path, HostPath: path, Permissions: "mrw"})
	}
	return out
}

// Allocate is of the device plugin API: the container gets the addresses in a variable.
func (p *pool) Allocate(_ context.Context, req *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	variable := "PCIDEVICE_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_", "/", "_").Replace(p.resourceName()))
	var out pluginapi.AllocateResponse
	for _, c := range req.ContainerRequests {
		answer := &pluginapi.ContainerAllocateResponse{Envs: map[string]string{variable: strings.Join(c.DevicesIds, ",")}}
		for _, address := range c.DevicesIds {
			answer.Devices = append(answer.Devices, nodesOf(address)...)
		}
		out.ContainerResponses = append(out.ContainerResponses, answer)
	}
	return &out, nil
}
