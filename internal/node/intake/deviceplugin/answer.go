package deviceplugin

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// Device nodes that a container gets beside its VFs.
const (
	nodeVFIO  = "/dev/vfio/vfio"
	nodeVhost = "/dev/vhost-net"
	nodeTun   = "/dev/net/tun"
)

// allocateResponse answers the kubelet's Allocate for a container: the variables
// PCIDEVICE_<PREFIX>_<NAME> and ..._INFO, with the names and content of the SR-IOV network
// device plugin, and device nodes, by the kubelet's own list or by CDI. A netdevice is no file:
// the network attachment brings it.
func allocateResponse(pool desired.Pool, devices []device) (*pluginapi.ContainerAllocateResponse, error) {
	env, err := envOf(pool, devices)
	if err != nil {
		return nil, err
	}
	out := &pluginapi.ContainerAllocateResponse{Envs: env}
	given := map[string]bool{}
	for _, d := range devices {
		nodes := nodesOf(d)
		if pool.CDI && len(nodes) > 0 {
			out.CdiDevices = append(out.CdiDevices, &pluginapi.CDIDevice{Name: cdiKind + "=" + d.pci.String()})
			continue
		}
		for _, n := range nodes {
			if !given[n] {
				out.Devices = append(out.Devices, &pluginapi.DeviceSpec{ContainerPath: n, HostPath: n, Permissions: "rw"})
			}
			given[n] = true
		}
	}
	return out, nil
}

// envOf returns the variables of a container with devices of a pool.
func envOf(pool desired.Pool, devices []device) (map[string]string, error) {
	ids := make([]string, len(devices))
	info := map[string]map[string]map[string]string{}
	for i, d := range devices {
		ids[i] = d.pci.String()
		info[ids[i]] = describeDevice(pool, d)
	}
	text, err := json.Marshal(info)
	if err != nil {
		return nil, fmt.Errorf("pool %s: %w", pool.FullName(), err)
	}
	return map[string]string{pool.EnvVar(): strings.Join(ids, ","), pool.EnvVar() + "_INFO": string(text)}, nil
}

// Share is what a container gets with VFs beside their interfaces.
type Share struct {
	Env   map[string]string
	Nodes []string // paths of device nodes
}

// ShareOf returns what a container gets with VFs of a pool, as the answer to Allocate has it. pfs has
// the PF of each VF.
func ShareOf(pool desired.Pool, pfs []vf.PF, vfs []vf.State) (Share, error) {
	devices := make([]device, len(vfs))
	var out Share
	for i, st := range vfs {
		devices[i] = newDevice(pool, pfs[i], st)
		for _, n := range nodesOf(devices[i]) {
			if !slices.Contains(out.Nodes, n) {
				out.Nodes = append(out.Nodes, n)
			}
		}
	}
	var err error
	out.Env, err = envOf(pool, devices)
	return out, err
}

// describeDevice returns a VF's part of ..._INFO.
func describeDevice(pool desired.Pool, d device) map[string]map[string]string {
	out := map[string]map[string]string{"generic": {"deviceID": d.pci.String()}}
	if d.vfio {
		out["vfio"] = map[string]string{"mount": nodeVFIO, "dev-mount": groupNode(d)}
	}
	if d.vhost {
		out["vhost"] = map[string]string{"net-mount": nodeVhost, "tun-mount": nodeTun}
	}
	if d.isRDMA && d.rdma != nil {
		out["rdma"] = describeRDMA(*d.rdma)
	}
	extra := map[string]string{}
	maps.Copy(extra, pool.AdditionalInfo[desired.EveryVF])
	maps.Copy(extra, pool.AdditionalInfo[d.pci.String()])
	if len(extra) > 0 {
		out["extra"] = extra
	}
	return out
}

// rdmaKinds are the kinds of character devices of an RDMA device, by which ..._INFO names
// them; the name of a node has the kind and a number.
var rdmaKinds = []string{"uverbs", "umad", "issm", "rdma_cm"}

// describeRDMA returns an RDMA device's part of ..._INFO: its name, and its nodes by their kind.
func describeRDMA(r vf.RDMA) map[string]string {
	out := map[string]string{"rdma_dev": r.Device}
	for _, node := range r.Nodes {
		for _, kind := range rdmaKinds {
			if strings.HasPrefix(path.Base(node), kind) {
				out[kind] = node
			}
		}
	}
	return out
}

// nodesOf returns the device nodes that a container needs for a VF.
func nodesOf(d device) (nodes []string) {
	if d.vfio {
		nodes = append(nodes, nodeVFIO, groupNode(d))
	}
	if d.isRDMA && d.rdma != nil {
		nodes = append(nodes, d.rdma.Nodes...)
	}
	if d.vhost {
		nodes = append(nodes, nodeVhost, nodeTun)
	}
	return nodes
}

// groupNode returns the node of a VF's IOMMU group, which is the unit that VFIO passes to a
// container (Linux Documentation/driver-api/vfio.rst).
func groupNode(d device) string { return fmt.Sprintf("/dev/vfio/%d", d.group) }
