package desired

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/strictyaml"
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
	// Refused are the reasons why entries make no pool: they have no valid name, or a name that an
	// earlier entry has.
	Refused []Error
	// Warnings are about the ignored parts, entries that make no pool on purpose, and parts with
	// another effect than they seem to have.
	Warnings []Error
}

// ParseDevicePlugin reads the configuration of the SR-IOV network device plugin, which its
// ConfigMap has as config.json. file names it in messages. prefix is the prefix of pools that name
// none; empty stands for DevicePluginPrefix. A VF is in the first pool that matches it, as with
// that plugin, and keeps the driver that it has (Pool.AsBound).
//
// An entry that cannot be served becomes a pool with the reason in Unserved, and the other entries
// are served. Such entries have mistakes or no selectors, the selectors auxTypes, ddpProfiles, pKeys
// or vdpaType, no link type ether, only drivers of UIO, or the device types accelerator and
// auxNetDevice. These selectors may be there if they are empty or false. An entry whose selectors
// are an empty list makes no pool. An entry without a valid name is in Refused.
//
// An error, which wraps vf.ErrInvalid, means that the text is not a list of entries; that plugin
// refuses such a text, too.
func ParseDevicePlugin(file string, content []byte, prefix string) (DevicePlugin, error) {
	if len(content) > maxSize {
		return DevicePlugin{}, Error{File: file, Text: fmt.Sprintf("%d bytes are too many: at most %d are read", len(content), maxSize)}
	}
	// JSON is valid YAML, except for a tab before the first character.
	root, err := readDocument(file, bytes.TrimLeft(content, " \t\r"))
	if err != nil {
		return DevicePlugin{}, err
	}
	r := newLenientReader(file)
	var out DevicePlugin
	if root == nil {
		r.AddMistake(at{Node: &yaml.Node{}}, "it is empty: want {\"resourceList\": [...]}")
	} else if fields, ok := r.ReadFields(at{Node: root}, "resourceList"); ok {
		out = r.devicePluginPools(r.ReadItems(orNothing(fields["resourceList"]), "a list of pools"), prefix)
	}
	if len(r.Mistakes) > 0 {
		return DevicePlugin{}, r.joinErrors()
	}
	out.Warnings = limitErrors(file, errorsOf(r.Warnings))
	out.Refused = limitErrors(file, out.Refused)
	return out, nil
}

// limitErrors returns the first errors of a list, and how many more there are.
func limitErrors(file string, all []Error) []Error {
	if more := len(all) - strictyaml.MostMistakes; more > 0 {
		return append(slices.Clip(all[:strictyaml.MostMistakes]), Error{File: file, Text: fmt.Sprintf("and %d more", more)})
	}
	return all
}

// devicePluginPools reads the entries, each on its own. Warnings go to r.
func (r *reader) devicePluginPools(items []at, prefix string) (out DevicePlugin) {
	d := dialect{"resourceName", "resourcePrefix", cmp.Or(prefix, DevicePluginPrefix), devicePluginKeys, true}
	seen := takenNames{}
	for _, item := range items {
		entry := newLenientReader(r.File)
		p := entry.readPool(item, d)
		switch {
		case p.Name == "" || p.Prefix == "":
			out.Refused = append(out.Refused, errorsOf(entry.Mistakes)...)
			continue
		case isEmptyList(item, "selectors"):
			r.AddWarning(item, "pool %s is not made: its list of selectors is empty, so it has no VF", p.FullName())
			continue
		}
		why, first := r.claimName(seen, item, p), seen[p.variableName()].full
		switch {
		case why != "" && first == p.FullName():
			out.Refused = append(out.Refused, Error(r.Describe(item, "%s", why)))
			continue
		case why != "":
			r.AddWarning(item, "pool %s has the variable PCIDEVICE_%s of pool %s: a container with VFs of both finds those of one there", p.FullName(), p.variableName(), first)
		}
		if len(entry.Mistakes) == 0 {
			entry.judgeSelectors(item, p)
		}
		r.Warnings = append(r.Warnings, entry.Warnings...)
		if len(entry.Mistakes) > 0 {
			p.Selectors, p.Unserved = nil, excerpt.Error(entry.joinErrors())
		}
		out.Pools = append(out.Pools, p)
	}
	return out
}

// judgeSelectors refuses an entry without selectors, at which that plugin crashes, and one of VFs
// that are bound to drivers of UIO. It warns of selectors that seem to select other VFs than they
// do.
func (r *reader) judgeSelectors(item at, p Pool) {
	if v := lastValue(item, "selectors"); v == nil || strictyaml.IsNull(at{Node: v}) {
		r.AddMistake(item, `selectors are missing, so it has no VF: name its VFs, e.g. "selectors": {"drivers": ["iavf"]}`)
		return
	}
	if len(p.Selectors) == 0 || slices.ContainsFunc(p.Selectors, Selector.isEmpty) {
		r.AddWarning(item, "pool %s takes every VF that no earlier pool has, since its selectors are empty", p.FullName())
	}
	if drivers := p.driversOfUIO(); len(drivers) > 0 {
		say := r.AddWarning
		if !slices.ContainsFunc(p.Selectors, func(s Selector) bool { return !s.onlyUIO() }) {
			say = r.AddMistake
		}
		say(item, "drivers %s: Culvert gives out no VF that is bound to them, and mounts no /dev/uio: bind vfio-pci, which the IOMMU guards", strings.Join(drivers, ", "))
	}
	if len(p.Selectors) > 0 && !slices.ContainsFunc(p.Selectors, func(s Selector) bool { return !s.namesPFs() }) {
		r.AddWarning(item, "pool %s is of PFs (%s), which the device plugin gives out while they have no VFs; Culvert gives out VFs only, so the pool stays empty",
			p.FullName(), p.Selectors[0].describeModels())
	}
}

// isEmptyList reports whether a map has the key with an empty list.
func isEmptyList(v at, key string) bool {
	value := lastValue(v, key)
	return value != nil && value.Kind == yaml.SequenceNode && len(value.Content) == 0
}

// lastValue returns the value of a key in any case, the last if the key is given twice; nil if it is
// not there.
func lastValue(v at, key string) (out *yaml.Node) {
	for i := 0; i+1 < len(v.Content); i += 2 {
		if strings.EqualFold(v.Content[i].Value, key) {
			out = v.Content[i+1]
		}
	}
	return out
}

// orNothing returns v, or nothing where the key was not given.
func orNothing(v at) at {
	if v.Node == nil {
		v.Node = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	return v
}
