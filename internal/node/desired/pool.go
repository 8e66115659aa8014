package desired

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/strictyaml"
	"github.com/culvert-net/culvert/internal/vf"
)

// Kinds of device that a pool gives out.
const (
	NetDevice = "netdevice" // a network interface, moved into the pod
	VFIO      = "vfio-pci"  // a device for user space: DPDK, a VM
)

// Pool is a set of VFs that are given out under one name.
type Pool struct {
	Name       string
	Prefix     string
	DeviceType string // NetDevice or VFIO
	// Selectors: a VF is in the pool when one of them matches; none matches
	// every VF.
	Selectors []Selector
	// AsBound: the pool takes VFs with the driver that is bound to them and culvertd
	// binds none for it, as the SR-IOV network device plugin does. Selector.Drivers
	// then means the driver that is bound now, and Selector.PFNames are names as that plugin reads
	// them. DeviceType is a forecast: KindOf returns the kind as which a VF is given out.
	AsBound bool
	// MTU is that of the pool's free VFs in bytes; 0 stands for PFSpec.MTU. culvertd raises the MTU
	// of a PF to that of its pools, and lowers it for none.
	MTU int
	// Unserved is the reason why Culvert gives out no VF under this name, with the part of the
	// entry that it does not serve. It is empty for a pool that is served.
	Unserved string
	// Drift is the reaction when another program changes the PF's settings for a VF of the pool
	// that an owner has.
	Drift Drift
	// ExcludeTopology keeps the VFs' NUMA nodes from the kubelet, so that its
	// topology manager does not heed them.
	ExcludeTopology bool
	// AdditionalInfo reaches the pod in PCIDEVICE_..._INFO under extra: by a VF's PCI address,
	// or by EveryVF.
	AdditionalInfo map[string]map[string]string
	// CDI hands device nodes over by the Container Device Interface, in place of
	// the kubelet's own list.
	CDI bool
	// Allow bounds what owners may ask for; nil serves every request.
	Allow *Allow
	// Offer is the way by which pods get the pool's VFs. Guests get them either way.
	Offer Offer
	// FaultTaint is the effect of the taints that a VF has in a ResourceSlice while its PF has a problem.
	FaultTaint FaultTaint
	// From is where the pool was written, e.g. "host.yaml:8", for messages.
	From string
}

// Offer is the way by which pods get the VFs of a pool.
type Offer string

// Ways to offer the VFs of a pool; the zero value is OfferResource, which files call "resource".
const (
	OfferResource Offer = ""       // as an extended resource of the node, by the device plugin
	OfferClaims   Offer = "claims" // to ResourceClaims, by ResourceSlices
)

// String returns the word that files have for it.
func (o Offer) String() string {
	if o == OfferResource {
		return offerResource
	}
	return string(o)
}

const offerResource = "resource"

// FaultTaint is an effect of a taint (k8s.io/api/resource/v1, DeviceTaintEffect).
type FaultTaint string

// Effects; the zero value is TaintNoSchedule, which files call "NoSchedule".
const (
	TaintNoSchedule FaultTaint = ""          // no new pod gets the VF
	TaintNoExecute  FaultTaint = "NoExecute" // the pod that has the VF is evicted, too
)

// String returns the effect's name in Kubernetes and in files.
func (t FaultTaint) String() string {
	if t == TaintNoSchedule {
		return noSchedule
	}
	return string(t)
}

const noSchedule = "NoSchedule"

// EveryVF is the key of Pool.AdditionalInfo for all VFs of the pool; values under a VF's own
// address take precedence.
const EveryVF = "*"

// Drift is a policy for settings that were changed outside Culvert.
type Drift string

// Drift policies; the zero value is MendDrift.
const (
	MendDrift   Drift = "mend"   // set them again and report the change
	ReportDrift Drift = "report" // only report the change
)

// FullName returns the resource name of the pool: prefix/name. The zero Pool has
// the empty name.
func (p Pool) FullName() string {
	if p.Name == "" {
		return ""
	}
	return p.Prefix + "/" + p.Name
}

// DriverFor returns the driver of a VF of the pool while it is free:
// vf.DriverDefault or vf.DriverVFIO. kept is the driver that it is kept bound to
// now, which stays in a pool that is AsBound.
func (p Pool) DriverFor(kept string) string {
	if p.DeviceType == VFIO && !p.AsBound || p.AsBound && kept == vf.DriverVFIO {
		return vf.DriverVFIO
	}
	return vf.DriverDefault
}

// KindOf returns the kind of a VF of the pool: NetDevice or VFIO.
func (p Pool) KindOf(v vf.State) string {
	switch {
	case !p.AsBound:
		return p.DeviceType
	case v.Driver == vf.DriverVFIO:
		return VFIO
	}
	return NetDevice
}

// EnvVar returns the environment variable in which a container finds the PCI addresses of its VFs
// of the pool. The variable with _INFO appended has their details. The SR-IOV network device plugin
// uses the same names.
func (p Pool) EnvVar() string { return "PCIDEVICE_" + p.variableName() }

// variableName returns the pool's name in a container's environment, after
// PCIDEVICE_.
func (p Pool) variableName() string { return strings.ToUpper(variable.Replace(p.FullName())) }

var variable = strings.NewReplacer(".", "_", "-", "_", "/", "_")

// dialect has the keys for a pool's name and prefix in one kind of file, the default prefix, and
// all allowed keys of a pool.
type dialect struct {
	name, prefix  string
	defaultPrefix string
	keys          []string
	asBound       bool // see Pool.AsBound
}

var hostDialect = dialect{name: "name", prefix: "prefix", defaultPrefix: DefaultPrefix,
	keys: []string{"name", "prefix", "deviceType", "asBound", "mtu", "selectors", "drift", "excludeTopology", "additionalInfo", "cdi", "allow", "offer", "faultTaint"}}

func (r *reader) readPool(v at, d dialect) Pool {
	p := Pool{Prefix: d.defaultPrefix, AsBound: d.asBound, From: r.locationOf(v)}
	fields, ok := r.ReadFields(v, d.keys...)
	if !ok {
		return p
	}
	if f, ok := fields[d.name]; ok {
		p.Name = parseScalar(r, f, poolNameForm)
	} else {
		r.AddMistake(v, "%s is missing: write what pods ask for, e.g. intel_sriov_netdevice", d.name)
	}
	if f, ok := fields[d.prefix]; ok && !(r.Lenient && isHarmless(f)) {
		p.Prefix = parseScalar(r, f, prefixForm)
	}
	if f, ok := fields["excludeTopology"]; ok {
		p.ExcludeTopology = r.ReadBool(f)
	}
	if f, ok := fields["asBound"]; ok {
		p.AsBound = r.ReadBool(f)
	}
	if f, ok := fields["mtu"]; ok {
		p.MTU = parseScalar(r, f, mtuForm)
	}
	if f, ok := fields["cdi"]; ok {
		p.CDI = r.ReadBool(f)
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
	case p.AsBound && !d.asBound:
		r.AddMistake(f, "leave it out: a pool with asBound takes VFs with the driver that is bound to them")
	case !d.asBound:
		p.DeviceType = parseScalar(r, f, deviceTypeForm)
		where = f
	case f.Value != "" && !strings.EqualFold(f.Value, NetDevice):
		r.AddMistake(f, "%s: not served: want netDevice, which VFs with any driver are", r.NameValue(f))
	}
	if f, ok := fields["drift"]; ok {
		p.Drift = parseScalar(r, f, driftForm)
	}
	if f, ok := fields["offer"]; ok {
		p.Offer = parseScalar(r, f, offerForm)
	}
	if f, ok := fields["faultTaint"]; ok {
		p.FaultTaint = parseScalar(r, f, faultTaintForm)
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
		r.AddMistake(v, "a vfio-pci pool has no VF with an RDMA device: leave isRdma out, or write deviceType: netdevice")
	}
	if p.DeviceType == NetDevice && !p.AsBound && slices.ContainsFunc(p.Selectors, onlyVFIO) {
		r.AddMistake(v, "a netdevice pool has no VF whose drivers are [vfio-pci]: write deviceType: vfio-pci, or the netdevice driver")
	}
}

// additionalInfo reads {"*": {key: value}, "0000:01:10.0": {key: value}}.
func (r *reader) additionalInfo(v at) map[string]map[string]string {
	if strictyaml.IsNull(v) {
		return nil
	}
	out := map[string]map[string]string{}
	all := r.ReadAnyMap(v, `a map from "*" or a VF's PCI address to the texts for its pod`)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		key, ok := r.infoKey(f, name)
		if !ok {
			continue
		}
		if out[key] == nil {
			out[key] = map[string]string{}
		}
		for k, value := range r.ReadAnyMap(f, "a map of texts") {
			out[key][k] = r.ReadAnyText(value, "a text")
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
		r.AddMistake(v, `no VF is called that: want "*", which is every VF, or %s`, pciForm.want)
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

// requireDistinct refuses two pools that a container could not tell apart: it finds
// its VFs in PCIDEVICE_<PREFIX>_<NAME>, where '.', '-' and '/' are '_'.
func (r *reader) requireDistinct(items []at, pools []Pool) {
	seen := takenNames{}
	for i, p := range pools {
		if p.Name == "" || p.Prefix == "" {
			continue // refused already
		}
		if why := r.claimName(seen, items[i], p); why != "" {
			r.AddMistake(items[i], "%s", why)
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
		return fmt.Sprintf("pool %s is there already,%s: give it another name", p.FullName(), strictyaml.SayPlace(first.place))
	}
	return fmt.Sprintf("pool %s is %s%s to a container (PCIDEVICE_%s): give it another name",
		p.FullName(), first.full, strictyaml.SayPlace(first.place), key)
}
