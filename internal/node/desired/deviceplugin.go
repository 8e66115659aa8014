package desired

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// DevicePluginPrefix is the resource prefix of a pool of the SR-IOV device plugin's configuration
// that names none. It is the default of that plugin's flag -resource-prefix.
const DevicePluginPrefix = "intel.com"

var devicePluginKeys = []string{"resourceName", "resourcePrefix", "deviceType", "selectors", "excludeTopology", "additionalInfo"}

// DevicePlugin is the content of a configuration of the SR-IOV network device plugin.
type DevicePlugin struct {
	// Pools are in the order of the file. A pool that Culvert cannot serve is among
	// them with the reason in Unserved.
	Pools []Pool
	// Warnings are about the ignored parts: unknown keys, and entries that make no pool.
	Warnings []Error
}

// ParseDevicePlugin reads the configuration of the SR-IOV network device plugin, which its
// ConfigMap has as config.json. file names it in messages. prefix is the prefix of pools that name
// none; empty stands for DevicePluginPrefix. A VF is in the first pool that matches it, as with
// that plugin, and keeps the driver that it has (Pool.AsBound).
//
// An entry that cannot be served becomes a pool with the reason in Unserved, and the other entries
// are served. Such entries have mistakes, the selectors auxTypes, ddpProfiles, pKeys or vdpaType,
// link types other than ether, or the device types accelerator and auxNetDevice. These selectors
// may be there if they are empty or false. An entry whose selectors are an empty list makes no
// pool.
//
// An error, which wraps vf.ErrInvalid, means that the text is not a list of
// entries with names of their own; that plugin refuses such a text as a whole, too.
func ParseDevicePlugin(file string, content []byte, prefix string) (DevicePlugin, error) {
	if len(content) > maxSize {
		return DevicePlugin{}, Error{File: file, Text: fmt.Sprintf("%d bytes are too many: at most %d are read", len(content), maxSize)}
	}
	// JSON is valid YAML, except for a tab before the first character.
	root, err := readDocument(file, bytes.TrimLeft(content, " \t\r"))
	if err != nil {
		return DevicePlugin{}, err
	}
	r := &reader{file: file, lenient: true}
	var out DevicePlugin
	if root == nil {
		r.addError(at{Node: &yaml.Node{}}, "it is empty: want {\"resourceList\": [...]}")
	} else if fields, ok := r.readFields(at{Node: root}, "resourceList"); ok {
		out.Pools = r.devicePluginPools(r.readItems(fields["resourceList"].orNothing(), "a list of pools"), prefix)
	}
	if len(r.errs) > 0 {
		return DevicePlugin{}, r.joinErrors()
	}
	out.Warnings = r.warnings
	if more := len(r.warnings) - maxErrors; more > 0 {
		out.Warnings = append(slices.Clip(r.warnings[:maxErrors]), Error{File: file, Text: fmt.Sprintf("and %d more", more)})
	}
	return out, nil
}

// devicePluginPools reads the entries, each on its own.
func (r *reader) devicePluginPools(items []at, prefix string) (pools []Pool) {
	d := dialect{"resourceName", "resourcePrefix", cmp.Or(prefix, DevicePluginPrefix), devicePluginKeys, true}
	seen := takenNames{}
	for _, item := range items {
		entry := &reader{file: r.file, lenient: true}
		p := entry.readPool(item, d)
		r.warnings = append(r.warnings, entry.warnings...)
		switch {
		case p.Name == "" || p.Prefix == "":
			r.errs = append(r.errs, entry.errs...)
			continue
		case isEmptyList(item, "selectors"):
			r.addWarning(item, "pool %s is not made: its list of selectors is empty, so it has no VF", p.FullName())
			continue
		}
		switch why := r.claimName(seen, item, p); {
		case why == "":
		case seen[p.variableName()].full == p.FullName():
			r.addError(item, "%s", why)
			continue
		default: // that plugin serves both, since it does not give them to one container
			r.addWarning(item, "%s; no pool is made of this entry", why)
			continue
		}
		if len(entry.errs) > 0 {
			p.Selectors, p.Unserved = nil, excerpt.Error(entry.joinErrors())
		}
		pools = append(pools, p)
	}
	return pools
}

// isEmptyList reports whether a map has the key with an empty list.
func isEmptyList(v at, key string) bool {
	for i := 0; i+1 < len(v.Content); i += 2 {
		if strings.EqualFold(v.Content[i].Value, key) && v.Content[i+1].Kind == yaml.SequenceNode {
			return len(v.Content[i+1].Content) == 0
		}
	}
	return false
}

// orNothing returns v, or nothing where the key was not given.
func (v at) orNothing() at {
	if v.Node == nil {
		v.Node = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	return v
}
