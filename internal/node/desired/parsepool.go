package desired

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/vf"
)

// dialect has the keys for a pool's name and prefix in one kind of file, the default prefix, and
// all allowed keys of a pool.
type dialect struct {
	name, prefix  string
	defaultPrefix string
	keys          []string
	asBound       bool // see Pool.AsBound
}

var hostDialect = dialect{name: "name", prefix: "prefix", defaultPrefix: DefaultPrefix,
	keys: []string{"name", "prefix", "deviceType", "selectors", "drift", "excludeTopology", "additionalInfo", "cdi", "allow"}}

func (r *reader) readPool(v at, d dialect) Pool {
	p := Pool{Prefix: d.defaultPrefix, AsBound: d.asBound, From: r.locationOf(v)}
	fields, ok := r.readFields(v, d.keys...)
	if !ok {
		return p
	}
	if f, ok := fields[d.name]; ok {
		p.Name = parseScalar(r, f, poolNameForm)
	} else {
		r.addError(v, "%s is missing: write what pods ask for, e.g. intel_sriov_netdevice", d.name)
	}
	if f, ok := fields[d.prefix]; ok && !(r.lenient && isHarmless(f)) {
		p.Prefix = parseScalar(r, f, prefixForm)
	}
	if f, ok := fields["excludeTopology"]; ok {
		p.ExcludeTopology = r.readBool(f)
	}
	if f, ok := fields["cdi"]; ok {
		p.CDI = r.readBool(f)
	}
	if f, ok := fields["additionalInfo"]; ok {
		p.AdditionalInfo = r.additionalInfo(f)
	}
	if f, ok := fields["selectors"]; ok {
		p.Selectors = r.readSelectors(f)
	}
	p.DeviceType = impliedType(p.Selectors)
	where := v
	switch f, ok := fields["deviceType"]; {
	case !ok:
	case !d.asBound:
		p.DeviceType = parseScalar(r, f, deviceTypeForm)
		where = f
	case f.Value != "" && !strings.EqualFold(f.Value, NetDevice):
		r.addError(f, "%s: not served: want netDevice, which VFs with any driver are", describeValue(f))
	}
	if f, ok := fields["drift"]; ok {
		p.Drift = parseScalar(r, f, driftForm)
	}
	if f, ok := fields["allow"]; ok {
		p.Allow = r.readAllow(f)
	}
	r.requireDrivers(where, p)
	return p
}

// requireDrivers refuses a pool that can have no VF: a netdevice pool whose selectors want the
// driver vfio-pci, and RDMA devices of a pool for user space, since netdevice drivers make them.
func (r *reader) requireDrivers(v at, p Pool) {
	if p.DeviceType == VFIO && !p.AsBound && slices.ContainsFunc(p.Selectors, func(s Selector) bool { return s.IsRDMA }) {
		r.addError(v, "a vfio-pci pool has no VF with an RDMA device: leave isRdma out, or write deviceType: netdevice")
	}
	if p.DeviceType == NetDevice && !p.AsBound && slices.ContainsFunc(p.Selectors, onlyVFIO) {
		r.addError(v, "a netdevice pool has no VF whose drivers are [vfio-pci]: write deviceType: vfio-pci, or the netdevice driver")
	}
}

// additionalInfo reads {"*": {key: value}, "0000:01:10.0": {key: value}}.
func (r *reader) additionalInfo(v at) map[string]map[string]string {
	if isNull(v) {
		return nil
	}
	out := map[string]map[string]string{}
	all := r.readAnyMap(v, `a map from "*" or a VF's PCI address to the texts for its pod`)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		key, ok := r.infoKey(f, name)
		if !ok {
			continue
		}
		if out[key] == nil {
			out[key] = map[string]string{}
		}
		for k, value := range r.readAnyMap(f, "a map of texts") {
			out[key][k] = r.readAnyText(value, "a text")
		}
	}
	return out
}

// infoKey returns the canonical key of additionalInfo: EveryVF or a PCI address.
func (r *reader) infoKey(v at, name string) (key string, ok bool) {
	if name == EveryVF {
		return name, true
	}
	a, err := parsePCIAddr(name)
	if err != nil {
		r.addError(v, `no VF is called that: want "*", which is every VF, or %s`, pciForm.want)
		return "", false
	}
	return a.String(), true
}

func onlyVFIO(s Selector) bool {
	return len(s.Drivers) > 0 && !slices.ContainsFunc(s.Drivers, func(d string) bool { return d != vf.DriverVFIO })
}

// impliedType returns the device type of a pool without the key: the device plugin's files choose
// VFs for user space by drivers: [vfio-pci] alone.
func impliedType(selectors []Selector) string {
	if len(selectors) > 0 && !slices.ContainsFunc(selectors, func(s Selector) bool { return !onlyVFIO(s) }) {
		return VFIO
	}
	return NetDevice
}

// parseDeviceType accepts the device plugin's spelling (netDevice) too.
func parseDeviceType(s string) (string, error) {
	for _, t := range []string{NetDevice, VFIO} {
		if strings.EqualFold(s, t) {
			return t, nil
		}
	}
	return "", vf.ErrInvalid
}

func parseDrift(s string) (Drift, error) {
	if d := Drift(s); d == MendDrift || d == ReportDrift {
		return d, nil
	}
	return "", vf.ErrInvalid
}

// A pool's full name is a Kubernetes qualified name (k8s.io/apimachinery
// validation.IsQualifiedName).
var (
	poolName   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	poolPrefix = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

var errName = errors.New("not a name")

func parsePoolName(s string) (string, error) {
	if !poolName.MatchString(s) {
		return "", errName
	}
	return s, nil
}

func parsePrefix(s string) (string, error) {
	if !poolPrefix.MatchString(s) || len(s) > 253 {
		return "", errName
	}
	return s, nil
}

var variable = strings.NewReplacer(".", "_", "-", "_", "/", "_")

// EnvVar returns the environment variable in which a container finds the PCI addresses of its VFs
// of the pool. The variable with _INFO appended has their details. The SR-IOV network device plugin
// uses the same names.
func (p Pool) EnvVar() string { return "PCIDEVICE_" + p.variableName() }

// variableName returns the pool's name in a container's environment, after
// PCIDEVICE_.
func (p Pool) variableName() string { return strings.ToUpper(variable.Replace(p.FullName())) }

// requireDistinct refuses two pools that a container could not tell apart: it finds
// its VFs in PCIDEVICE_<PREFIX>_<NAME>, where '.', '-' and '/' are '_'.
func (r *reader) requireDistinct(items []at, pools []Pool) {
	seen := takenNames{}
	for i, p := range pools {
		if p.Name == "" || p.Prefix == "" {
			continue // refused already
		}
		if why := r.claimName(seen, items[i], p); why != "" {
			r.addError(items[i], "%s", why)
		}
	}
}

// takenNames are the pools so far, by their names in a container's environment.
type takenNames map[string]takenName

type takenName struct {
	full  string
	place at
}

// claimName adds a pool to the names that are taken, or returns why it cannot have its name.
func (r *reader) claimName(seen takenNames, item at, p Pool) (why string) {
	key := p.variableName()
	first, twice := seen[key]
	switch {
	case !twice:
		seen[key] = takenName{p.FullName(), item}
		return ""
	case first.full == p.FullName():
		return fmt.Sprintf("pool %s is there already,%s: give it another name", p.FullName(), r.sayPlace(first.place))
	}
	return fmt.Sprintf("pool %s is %s%s to a container (PCIDEVICE_%s): give it another name",
		p.FullName(), first.full, r.sayPlace(first.place), key)
}

func (r *reader) readSelectors(v at) []Selector {
	if v.Kind == yaml.MappingNode || isNull(v) {
		if isNull(v) || len(v.Content) == 0 {
			return nil
		}
		return []Selector{r.readSelector(v)}
	}
	var all []Selector
	for _, item := range r.readItems(v, "a map of selectors, or a list of such maps") {
		all = append(all, r.readSelector(item))
	}
	return all
}

var selectorKeys = []string{"vendors", "devices", "drivers", "pciAddresses", "acpiIndexes", "pfNames", "rootDevices", "linkTypes", "isRdma", "needVhostNet"}

// unserved has the selectors of the device plugin that Culvert knows and does not serve yet, with
// the next step for each.
var unserved = map[string]string{
	"auxTypes":    "leave it out; subfunctions are not given out",
	"ddpProfiles": "leave it out, and choose the PFs that have the profile by pfNames",
	"pKeys":       "leave it out; infiniband is not served",
	"vdpaType":    "leave it out; VFs are given out as netdevice or vfio-pci",
}

func (r *reader) readSelector(v at) Selector {
	var s Selector
	refused := slices.Sorted(maps.Keys(unserved))
	fields, ok := r.readFields(v, slices.Concat(selectorKeys, refused)...)
	if !ok {
		return s
	}
	for _, key := range refused {
		if f, ok := fields[key]; ok && !isHarmless(f) {
			r.addError(f, "%s: not served yet: %s", describeValue(f), unserved[key])
		}
	}
	if f, ok := fields["vendors"]; ok {
		s.Vendors = readList(r, f, hexForm)
	}
	if f, ok := fields["devices"]; ok {
		s.Devices = readList(r, f, hexForm)
	}
	if f, ok := fields["drivers"]; ok {
		s.Drivers = readList(r, f, vfDriverForm)
	}
	if f, ok := fields["pciAddresses"]; ok {
		s.PCIAddresses = readList(r, f, pciForm)
	}
	if f, ok := fields["acpiIndexes"]; ok {
		s.ACPIIndexes = readList(r, f, acpiIndexForm)
	}
	if f, ok := fields["isRdma"]; ok && !isHarmless(f) {
		s.IsRDMA = r.readBool(f)
	}
	if f, ok := fields["needVhostNet"]; ok {
		s.NeedVhostNet = r.readBool(f)
	}
	if f, ok := fields["pfNames"]; ok {
		form := partNameForm
		if r.lenient {
			form = partExpressionForm
		}
		s.PFNames = readParts(r, f, form)
	}
	if f, ok := fields["rootDevices"]; ok {
		s.RootDevices = readParts(r, f, partPCIForm)
	}
	if f, ok := fields["linkTypes"]; ok {
		s.LinkTypes = readList(r, f, linkTypeForm)
	}
	return s
}

// isHarmless reports whether a selector requires nothing, such as isRdma: false or ddpProfiles: [].
func isHarmless(v at) bool {
	return isNull(v) || (v.Kind == yaml.ScalarNode && (v.Value == "false" || v.Value == "")) ||
		(v.Kind == yaml.SequenceNode && len(v.Content) == 0)
}

// driverName matches the possible names of kernel modules (scripts/Makefile.lib, name-fix) and some
// others.
var driverName = regexp.MustCompile(`^[A-Za-z0-9_][-A-Za-z0-9_.]{0,63}$`)

func parseDriver(s string) (string, error) {
	if !driverName.MatchString(s) {
		return "", errName
	}
	return s, nil
}

func parseLinkType(s string) (string, error) {
	if s == "ether" || s == "ethernet" {
		return "ether", nil
	}
	return "", vf.ErrInvalid
}

// parseACPIIndex reads a value of /sys/bus/pci/devices/*/acpi_index: an unsigned 32 bit number
// (drivers/pci/pci-label.c). A VF without a number has 0.
func parseACPIIndex(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if n == 0 {
		err = vf.ErrInvalid
	}
	return uint32(n), err
}
