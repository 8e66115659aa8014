package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// calicoStart stands for the start of the image calico/node, with those of its programs that VXLAN
// needs. The lab's image has no runit, and runs neither BIRD nor confd. ipset reads the protocols of
// named ports in /etc/protocols; Felix ends where ipset refuses them.
const calicoStart = `
printf '%s\n' 'tcp 6' 'udp 17' 'sctp 132' >/etc/protocols
calico-node -startup
export NODENAME=$(cat /var/lib/calico/nodename)
export FELIX_FELIXHOSTNAME=$NODENAME FELIX_DATASTORETYPE=$DATASTORE_TYPE
calico-node -allocate-tunnel-addrs -allocate-tunnel-addrs-run-once
calico-node -monitor-token &
exec calico-node -felix
`

// calicoManifest reads Calico's own manifest for VXLAN, which tools/part takes from Calico's module.
func calicoManifest(parts Parts) ([]byte, error) {
	return os.ReadFile(filepath.Join(parts.Calico, "calico-vxlan.yaml"))
}

// calicoImage matches the images that the manifest names, except for that of kube-controllers.
var calicoImage = regexp.MustCompile(`image: (\S*calico/(cni|node):\S+)`)

// calicoImages returns the images that Calico's manifest names, made of its programs and a root with
// iptables and ipset.
func calicoImages(parts Parts, root string) ([]Image, error) {
	manifest, err := calicoManifest(parts)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, match := range calicoImage.FindAllSubmatch(manifest, -1) {
		names[string(match[2])] = string(match[1])
	}
	if names["cni"] == "" || names["node"] == "" {
		return nil, fmt.Errorf("the manifest in %s names no image calico/cni or calico/node", parts.Calico)
	}
	program := func(name, to string) Layer { return Layer{filepath.Join(parts.Calico, name), to} }
	// Felix panics without it, also where IPv6 is off. The program knows its task by its name.
	restoreIPv6 := Layer{filepath.Join(root, "usr/sbin/iptables-nft-restore"), "/usr/sbin/ip6tables-nft-restore"}
	return []Image{
		{Name: names["cni"], Layers: []Layer{
			{root, "/"}, program("calico", "/opt/cni/bin/calico"), program("calico", "/opt/cni/bin/calico-ipam"), program("install", "/opt/cni/bin/install"),
		}},
		{Name: names["node"], Cmd: []string{"bash", "-euc", calicoStart}, Layers: []Layer{{root, "/"}, restoreIPv6, program("calico-node", "/bin/calico-node")}},
	}, nil
}

// readCalico returns the objects of Calico's manifest, with the values of the lab.
func readCalico(parts Parts, n CNI) ([]byte, error) {
	manifest, err := calicoManifest(parts)
	if err != nil {
		return nil, err
	}
	return calicoObjects(manifest, n)
}

// calicoObjects returns a list of the objects of Calico's manifest, with the values that an
// administrator sets for this network. Calico's controllers are left out: they clear up after nodes
// that were removed.
func calicoObjects(manifest []byte, n CNI) ([]byte, error) {
	var all []map[string]any
	patched := 0
	for in := yaml.NewDecoder(bytes.NewReader(manifest)); ; {
		var object map[string]any
		err := in.Decode(&object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read Calico's manifest: %w", err)
		}
		metadata, _ := object["metadata"].(map[string]any)
		switch name := fmt.Sprint(object["kind"], "/", metadata["name"]); name {
		case "Deployment/calico-kube-controllers", "PodDisruptionBudget/calico-kube-controllers":
			continue
		case "ConfigMap/calico-config":
			data, _ := object["data"].(map[string]any)
			config, _ := data["cni_network_config"].(string)
			data["veth_mtu"], data["cni_network_config"] = podMTU, bandwidthPlugin.ReplaceAllString(config, "")
			patched++
		case "DaemonSet/calico-node":
			if err := setUpNode(object, n); err != nil {
				return nil, fmt.Errorf("read Calico's manifest: %s: %w", name, err)
			}
			patched++
		}
		all = append(all, object)
	}
	if patched != 2 {
		return nil, errors.New("read Calico's manifest: it has no ConfigMap calico-config or no DaemonSet calico-node")
	}
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": all})
}

// bandwidthPlugin matches the plugin in Calico's configuration that lab nodes do not have.
var bandwidthPlugin = regexp.MustCompile(`,\s*\{\s*"type": "bandwidth",\s*"capabilities": \{"bandwidth": true\}\s*\}`)

// podMTU is report R0's: the wire's 1500 bytes without VXLAN's header.
const podMTU = "1450"

// setUpNode sets variables of the container calico-node, and has the kubelet ask Felix for its health
// by HTTP. The manifest executes a program of 120 MB for it twice in ten seconds.
func setUpNode(daemonSet map[string]any, n CNI) error {
	pod := daemonSet
	for _, key := range []string{"spec", "template", "spec"} {
		pod, _ = pod[key].(map[string]any)
	}
	containers, _ := pod["containers"].([]any)
	if len(containers) != 1 {
		return fmt.Errorf("it has %d containers, and not calico-node alone", len(containers))
	}
	container, _ := containers[0].(map[string]any)
	if container["name"] != "calico-node" {
		return fmt.Errorf("its container is %v, and not calico-node", container["name"])
	}
	container["env"] = setVariables(container["env"], calicoVariables(n))
	for probe, path := range map[string]string{"livenessProbe": "/liveness", "readinessProbe": "/readiness"} {
		container[probe] = map[string]any{
			"httpGet":        map[string]any{"host": "127.0.0.1", "port": 9099, "path": path},
			"timeoutSeconds": 10, "failureThreshold": 60,
		}
	}
	return nil
}

// calicoVariables returns the values of the lab for the container calico-node.
func calicoVariables(n CNI) map[string]string {
	encapsulate := "Always"
	if n == CalicoCrossSubnet {
		encapsulate = "CrossSubnet"
	}
	return map[string]string{
		"CALICO_IPV4POOL_CIDR":  podNetwork,
		"CALICO_IPV4POOL_VXLAN": encapsulate,
		// A node needs one block then, which the control plane has a route to.
		"CALICO_IPV4POOL_BLOCK_SIZE": "24",
		"IP_AUTODETECTION_METHOD":    "interface=" + uplink,
		// The emulated NIC says that it can sum what is within a tunnel, and sums it wrong.
		"FELIX_FEATUREDETECTOVERRIDE": "ChecksumOffloadBroken=true",
		"FELIX_IGNORELOOSERPF":        "true", // systemd's default is loose
		"FELIX_IPTABLESBACKEND":       "NFT",  // kube-proxy's on Debian, also before it has written a rule
	}
}

// setVariables replaces values in a container's list of variables, and appends those that the list
// lacks.
func setVariables(list any, values map[string]string) []any {
	var out []any
	old, _ := list.([]any)
	for _, one := range old {
		variable, _ := one.(map[string]any)
		if name, _ := variable["name"].(string); values[name] == "" {
			out = append(out, one)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, map[string]any{"name": name, "value": values[name]})
	}
	return out
}
