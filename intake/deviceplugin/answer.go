package deviceplugin

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/culvert-net/culvert/desired"
)

// Device nodes that a container gets beside its VFs.
const (
	nodeVFIO  = "/dev/vfio/vfio"
	nodeVhost = "/dev/vhost-net"
	nodeTun   = "/dev/net/tun"
)

// answer tells the kubelet what a container gets with its VFs: the variables
// PCIDEVICE_<PREFIX>_<NAME> and ..._INFO as the SR-IOV network device plugin
// names and fills them, and device nodes, by the kubelet's own list or by CDI. A
// netdevice is no file: the network attachment brings it.
func answer(pool desired.Pool, devices []device) (*pluginapi.ContainerAllocateResponse, error) {
	ids := make([]string, len(devices))
	info := map[string]map[string]map[string]string{}
	out := &pluginapi.ContainerAllocateResponse{}
	given := map[string]bool{}
	for i, d := range devices {
		ids[i] = d.pci.String()
		info[ids[i]] = about(pool, d)
		nodes := nodesOf(d)
		if pool.CDI && len(nodes) > 0 {
			out.CdiDevices = append(out.CdiDevices, &pluginapi.CDIDevice{Name: cdiKind + "=" + ids[i]})
			continue
		}
		for _, n := range nodes {
			if !given[n] {
				out.Devices = append(out.Devices, &pluginapi.DeviceSpec{ContainerPath: n, HostPath: n, Permissions: "rw"})
			}
			given[n] = true
		}
	}
	text, err := json.Marshal(info)
	if err != nil {
		return nil, fmt.Errorf("pool %s: %w", pool.FullName(), err)
	}
	out.Envs = map[string]string{pool.EnvVar(): strings.Join(ids, ","), pool.EnvVar() + "_INFO": string(text)}
	return out, nil
}

// about is a VF's part of ..._INFO.
func about(pool desired.Pool, d device) map[string]map[string]string {
	out := map[string]map[string]string{"generic": {"deviceID": d.pci.String()}}
	if d.vfio {
		out["vfio"] = map[string]string{"mount": nodeVFIO, "dev-mount": groupNode(d)}
	}
	if d.vhost {
		out["vhost"] = map[string]string{"net-mount": nodeVhost, "tun-mount": nodeTun}
	}
	extra := map[string]string{}
	maps.Copy(extra, pool.AdditionalInfo[desired.EveryVF])
	maps.Copy(extra, pool.AdditionalInfo[d.pci.String()])
	if len(extra) > 0 {
		out["extra"] = extra
	}
	return out
}

// nodesOf are the device nodes that a container needs for a VF.
func nodesOf(d device) (nodes []string) {
	if d.vfio {
		nodes = append(nodes, nodeVFIO, groupNode(d))
	}
	if d.vhost {
		nodes = append(nodes, nodeVhost, nodeTun)
	}
	return nodes
}

// groupNode is the node of a VF's IOMMU group, which is what VFIO gives away
// (Linux Documentation/driver-api/vfio.rst).
func groupNode(d device) string { return fmt.Sprintf("/dev/vfio/%d", d.group) }
