package desired

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/vf"
)

// Policy is a NodePolicy that selects this node.
type Policy struct {
	Name     string
	Priority int32
	Spec     Spec
}

// FromPolicy converts a NodePolicy's spec. Errors are those of Parse and name the field
// in place of the line: "NodePolicy a: pools[0].name ...".
func FromPolicy(name string, p v1alpha1.NodePolicySpec) (Spec, error) {
	r := &reader{file: "NodePolicy " + name, object: true}
	var s Spec
	for i, rule := range p.PFs {
		s.PFs = append(s.PFs, r.policyPF(place{fmt.Sprintf("pfs[%d]", i)}, rule))
	}
	var items []at
	for i, pool := range p.Pools {
		where := place{fmt.Sprintf("pools[%d]", i)}
		items = append(items, where.valueAt(""))
		s.Pools = append(s.Pools, r.policyPool(where, pool))
	}
	r.requireDistinct(items, s.Pools)
	if len(r.errs) > 0 {
		return Spec{}, r.joinErrors()
	}
	return s, nil
}

// place is the path of an object's field.
type place struct{ path string }

// valueAt returns a scalar of the field, as the reader's messages take it.
func (p place) valueAt(s string) at {
	return at{&yaml.Node{Kind: yaml.ScalarNode, Value: s}, p.path}
}

func (p place) keyAt(name string) place { return place{p.path + "." + name} }

// parseGiven parses a field that is not empty, and reports whether it is.
func parseGiven[T any](r *reader, p place, s string, f form[T], into *T) bool {
	if s != "" {
		*into = parseScalar(r, p.valueAt(s), f)
	}
	return s != ""
}

// givenList parses each item of a list.
func givenList[T any](r *reader, p place, items []string, f form[T]) (out []T) {
	for i, s := range items {
		out = append(out, parseScalar(r, place{fmt.Sprintf("%s[%d]", p.path, i)}.valueAt(s), f))
	}
	return out
}

func givenParts[T any](r *reader, p place, items []string, f form[T]) (out []Part[T]) {
	for i, s := range items {
		if v, ok := readPart(r, place{fmt.Sprintf("%s[%d]", p.path, i)}.valueAt(s), f); ok {
			out = append(out, v)
		}
	}
	return out
}

func (r *reader) policyPF(where place, p v1alpha1.PFRule) PFRule {
	rule := PFRule{Want: PFSpec{Autoprobe: true, NeedCarrier: true, From: r.file + ", " + where.path}}
	r.requireName(where.valueAt(""), []bool{
		parseGiven(r, where.keyAt("name"), p.Name, pfNameForm, &rule.Name),
		parseGiven(r, where.keyAt("mac"), p.MAC, pfMACForm, &rule.MAC),
		parseGiven(r, where.keyAt("pciAddress"), p.PCIAddress, pciForm, &rule.PCI),
		parseGiven(r, where.keyAt("vendor"), p.Vendor, hexForm, &rule.Vendor),
		parseGiven(r, where.keyAt("device"), p.Device, hexForm, &rule.Device),
		parseGiven(r, where.keyAt("driver"), p.Driver, pfDriverForm, &rule.Driver),
	})
	rule.Want.VFs = parseScalar(r, where.keyAt("vfs").valueAt(p.VFs.String()), vfsForm)
	if p.MTU != nil {
		rule.Want.MTU = parseScalar(r, where.keyAt("mtu").valueAt(strconv.Itoa(int(*p.MTU))), mtuForm)
	}
	addresses := where.keyAt("addresses")
	rule.Want.Addresses = r.distinctAddresses(addresses.valueAt(""), givenList(r, addresses, p.Addresses, hostAddressForm))
	if p.Autoprobe != nil {
		rule.Want.Autoprobe = *p.Autoprobe
	}
	if p.NeedCarrier != nil {
		rule.Want.NeedCarrier = *p.NeedCarrier
	}
	parseGiven(r, where.keyAt("segment"), p.Segment, segmentForm, &rule.Want.Segment)
	return rule
}

func (r *reader) policyPool(where place, p v1alpha1.Pool) Pool {
	out := Pool{
		Prefix: DefaultPrefix, From: r.file + ", " + where.path,
		ExcludeTopology: isTrue(p.ExcludeTopology), CDI: isTrue(p.CDI),
	}
	out.Name = parseScalar(r, where.keyAt("name").valueAt(p.Name), poolNameForm)
	parseGiven(r, where.keyAt("prefix"), p.Prefix, prefixForm, &out.Prefix)
	info := where.keyAt("additionalInfo")
	for _, name := range slices.Sorted(maps.Keys(p.AdditionalInfo)) {
		key, ok := r.infoKey(info.keyAt(name).valueAt(""), name)
		if !ok {
			continue
		}
		if out.AdditionalInfo == nil {
			out.AdditionalInfo = map[string]map[string]string{}
		}
		if out.AdditionalInfo[key] == nil {
			out.AdditionalInfo[key] = map[string]string{}
		}
		maps.Copy(out.AdditionalInfo[key], p.AdditionalInfo[name])
	}
	for i, s := range p.Selectors {
		out.Selectors = append(out.Selectors, r.policySelector(place{fmt.Sprintf("%s.selectors[%d]", where.path, i)}, s))
	}
	out.DeviceType = impliedType(out.Selectors)
	parseGiven(r, where.keyAt("deviceType"), p.DeviceType, deviceTypeForm, &out.DeviceType)
	parseGiven(r, where.keyAt("drift"), p.Drift, driftForm, &out.Drift)
	out.Allow = r.policyAllow(where.keyAt("allow"), p.Allow)
	r.requireDrivers(where.valueAt(""), out)
	return out
}

func (r *reader) policySelector(where place, s v1alpha1.Selector) Selector {
	return Selector{
		Vendors:      givenList(r, where.keyAt("vendors"), s.Vendors, hexForm),
		Devices:      givenList(r, where.keyAt("devices"), s.Devices, hexForm),
		Drivers:      givenList(r, where.keyAt("drivers"), s.Drivers, vfDriverForm),
		PCIAddresses: givenList(r, where.keyAt("pciAddresses"), s.PCIAddresses, pciForm),
		ACPIIndexes:  givenList(r, where.keyAt("acpiIndexes"), s.ACPIIndexes, acpiIndexForm),
		PFNames:      givenParts(r, where.keyAt("pfNames"), s.PFNames, partNameForm),
		RootDevices:  givenParts(r, where.keyAt("rootDevices"), s.RootDevices, partPCIForm),
		LinkTypes:    givenList(r, where.keyAt("linkTypes"), s.LinkTypes, linkTypeForm),
		IsRDMA:       isTrue(s.IsRDMA),
		NeedVhostNet: isTrue(s.NeedVhostNet),
	}
}

func isTrue(b *bool) bool { return b != nil && *b }

// Contested is a PF about which policies contradict each other. culvertd keeps the earlier wanted
// state, or leaves the PF alone.
type Contested struct {
	PCI vf.PCIAddr
	// Keep is the earlier wanted state of the PF; the zero value leaves the PF alone.
	Keep PFSpec
}
