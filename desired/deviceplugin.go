package desired

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// DevicePluginPrefix is the resource prefix of a pool of the SR-IOV device
// plugin's configuration that names none: what that plugin's flag
// -resource-prefix is by default.
const DevicePluginPrefix = "intel.com"

var devicePluginDialect = dialect{"resourceName", "resourcePrefix", DevicePluginPrefix,
	[]string{"resourceName", "resourcePrefix", "deviceType", "selectors", "excludeTopology", "additionalInfo"}}

// ParseDevicePlugin reads the configuration of the SR-IOV network device
// plugin: what its ConfigMap has as config.json. file names it in messages. The
// pools are in the order of the file, and a VF is in the first that matches it,
// as with that plugin.
//
// What Culvert cannot do is refused, since a pool without it would hand out
// other VFs than the file means: the selectors auxTypes, ddpProfiles, isRdma,
// pKeys and vdpaType, link types but ether, and the device types accelerator
// and auxNetDevice. They may be there empty or false. A pool whose selectors say
// drivers: [vfio-pci] has device type vfio-pci.
//
// Errors are those of Parse, and then there are no pools: with one left out its
// VFs would be in another.
func ParseDevicePlugin(file string, content []byte) ([]Pool, error) {
	if len(content) > maxSize {
		return nil, Error{File: file, Text: fmt.Sprintf("%d bytes are too many: at most %d are read", len(content), maxSize)}
	}
	// JSON is YAML but for a tab before the first character.
	root, err := document(file, bytes.TrimLeft(content, " \t\r"))
	if err != nil {
		return nil, err
	}
	r := &reader{file: file, lenient: true}
	var pools []Pool
	if root == nil {
		r.fail(at{Node: &yaml.Node{}}, "it is empty: want {\"resourceList\": [...]}")
	} else if fields, ok := r.fields(at{Node: root}, "resourceList"); ok {
		items := r.items(fields["resourceList"].orNothing(), "a list of pools")
		for _, item := range items {
			pools = append(pools, r.pool(item, devicePluginDialect))
		}
		r.requireDistinct(items, pools)
	}
	if len(r.errs) > 0 {
		return nil, r.joinErrors()
	}
	return pools, nil
}

// orNothing is v, or nothing where the key was not given.
func (v at) orNothing() at {
	if v.Node == nil {
		v.Node = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	return v
}
