package demo

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// reportObjects are report R0's: its NetworkAttachmentDefinition, which is the
// first, its pods and its Service.
//
//go:embed testdata/r0-xl710.yaml
var reportObjects []byte

// hostYAML makes what R0 made by hand, from both PFs: as many VFs as the
// emulated NIC has, in one pool under R0's name.
const hostYAML = `pfs:
- name: enp1s0
  vfs: 7
- name: enp2s0
  vfs: 7
pools:
- name: intel_sriov_netdevice
  prefix: intel.com
  selectors:
    vendors: ["8086"]
`

// poolName is the resource that R0's pods ask for.
const poolName = "intel.com/intel_sriov_netdevice"

// vfConfig returns R0's CNI configuration as a runtime hands it to the plugin
// on a node. It adds two things: the part of the subnet that this node gives
// out, for the ranges are not cluster-wide yet, and with device not empty the
// VF, as the device plugin of R0's cluster chose it.
func vfConfig(manifest []byte, node int, device string) (name string, config []byte, err error) {
	var nad struct {
		Spec struct {
			Config string `yaml:"config"`
		} `yaml:"spec"`
	}
	if err := yaml.Unmarshal(manifest, &nad); err != nil {
		return "", nil, fmt.Errorf("read the NetworkAttachmentDefinition: %w", err)
	}
	var c map[string]any
	if err := json.Unmarshal([]byte(nad.Spec.Config), &c); err != nil {
		return "", nil, fmt.Errorf("read the NetworkAttachmentDefinition's config: %w", err)
	}
	name, _ = c["name"].(string)
	ipam, ok := c["ipam"].(map[string]any)
	if name == "" || !ok {
		return "", nil, fmt.Errorf("read the NetworkAttachmentDefinition's config: it has no name or no ipam: %s", nad.Spec.Config)
	}
	ipam["rangeStart"] = fmt.Sprintf("172.16.91.%d", node*20)
	ipam["rangeEnd"] = fmt.Sprintf("172.16.91.%d", node*20+19)
	if device != "" {
		c["deviceID"] = device
	}
	config, err = json.MarshalIndent(c, "", "  ")
	return name, config, err
}
