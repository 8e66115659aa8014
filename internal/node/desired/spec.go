package desired

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// DefaultPath is the path of the host's host.yaml.
const DefaultPath = "/etc/culvert/host.yaml"

// DefaultPrefix is the resource prefix of a pool that names none.
const DefaultPrefix = "culvert.dev"

// Spec is the wanted state of this host's NICs. The zero value wants nothing and leaves everything
// alone.
type Spec struct {
	PFs   []PFRule
	Pools []Pool
	// Contested are PFs of which policies of a cluster want different things.
	// They come before PFs. A PF that appeared after Merge may be contested by PFs alone.
	Contested []Contested
	// Partial is set while culvertd has not read one of the sources since it started. That source
	// may name PFs and pools that the Spec lacks, so culvertd leaves them as they are.
	Partial bool
}

// AllVFs as a PFSpec's or PFRule's VFs stands for as many as the PF can have.
const AllVFs = -1

// PFRule is one entry of pfs: it selects PFs by its fields, at least one of which is set and all of
// which must match, and has their wanted state.
type PFRule struct {
	Name   string // netdevice name or path.Match pattern
	MAC    vf.MAC // permanent address
	PCI    vf.PCIAddr
	Vendor string // four hexadecimal digits, lower case
	Device string
	Driver string

	// Policy is the policy that has the rule, and Priority the policy's. Merge sets them. Policy is
	// empty for a rule of host.yaml.
	Policy   string
	Priority int32

	// Want is the wanted state as declared; its VFs may be AllVFs.
	Want PFSpec
}

// PFSpec is the wanted state of one PF. ForPF returns it with VFs resolved.
type PFSpec struct {
	// VFs is the wanted number; it may exceed the PF's, which Check reports.
	VFs int
	// MTU in bytes; 0 leaves it alone.
	MTU int
	// Addresses are added to the PF's interface, beside other addresses. Culvert removes an address
	// that it added once the address is no longer wanted.
	Addresses []netip.Prefix
	// Autoprobe is the value that sriov_drivers_autoprobe has after Culvert's work.
	Autoprobe bool
	// NeedCarrier makes VFs only when the PF has carrier.
	NeedCarrier bool
	// Segment names the L2 segment that the PF is on; empty if it has no name.
	Segment vf.Segment
	// From is where the wish was written, e.g. "host.yaml:3", for messages.
	From string
}

// isZero reports whether nothing is wanted.
func (s PFSpec) isZero() bool { return reflect.DeepEqual(s, PFSpec{}) }

// describe names the wanted values by their keys, for messages about contradictions.
func (s PFSpec) describe() string {
	text := fmt.Sprintf("vfs %d", s.VFs)
	if s.VFs == AllVFs {
		text = "vfs max"
	}
	if s.MTU != 0 {
		text += fmt.Sprintf(", mtu %d", s.MTU)
	}
	if len(s.Addresses) > 0 {
		text += fmt.Sprintf(", addresses %v", s.Addresses)
	}
	text += fmt.Sprintf(", autoprobe %t, needCarrier %t", s.Autoprobe, s.NeedCarrier)
	if s.Segment != "" {
		text += fmt.Sprintf(", segment %s", s.Segment)
	}
	return text
}

// Check returns the parts of s that the PF can never have: more VFs or a larger MTU than it
// supports (vf.ErrInvalid).
func (s PFSpec) Check(pf vf.PF) error {
	var why string
	switch {
	case s.VFs > 0 && pf.TotalVFs == 0:
		why = fmt.Sprintf("%s wanted (%s), it can have none: SR-IOV is off in its firmware or not in its driver: switch it on, or write vfs: 0", vf.CountText(s.VFs), s.From)
	case s.VFs > pf.TotalVFs:
		why = fmt.Sprintf("%s wanted (%s), it can have %d: write vfs: %d or vfs: max", vf.CountText(s.VFs), s.From, pf.TotalVFs, pf.TotalVFs)
	case pf.MaxMTU != 0 && s.MTU > pf.MaxMTU:
		why = fmt.Sprintf("MTU %d wanted (%s), its driver allows %d at most", s.MTU, s.From, pf.MaxMTU)
	default:
		return nil
	}
	return vf.ObjectError{Object: "PF " + pf.Label(), Err: fmt.Errorf("%s: %w", why, vf.ErrInvalid)}
}

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
	// then means the driver that is bound now, and DeviceType is a forecast: KindOf returns the
	// kind as which a VF is given out.
	AsBound bool
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
	// From is where the pool was written, e.g. "host.yaml:8", for messages.
	From string
}

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

// Selector matches a VF when every list that is not empty has a value that
// does.
//
// drivers selects by the driver that a VF has as a netdevice, also while another
// driver is bound to it. The pool decides the binding (deviceType), so the binding
// must not decide the pool: a VF would leave its pool as soon as it is prepared for
// it.
//
// Culvert reads the netdevice driver from the VF when one is bound. Otherwise it
// derives it from the PF's driver (igb has igbvf). Where it can do neither, the
// selector matches. In a pool of deviceType vfio-pci the value vfio-pci matches every
// VF, since the pool itself binds that driver.
//
// In a pool of the device plugin's own file, drivers selects by the driver that is
// bound to the VF. A VF without a driver counts as a netdevice, since the kernel is
// about to bind its driver again.
type Selector struct {
	Vendors      []string
	Devices      []string
	Drivers      []string
	PCIAddresses []vf.PCIAddr
	PFNames      []Part[string] // netdevice name or path.Match pattern
	RootDevices  []Part[vf.PCIAddr]
	LinkTypes    []string // only ether, which every VF has
	// ACPIIndexes are the firmware's own numbers of functions
	// (/sys/bus/pci/devices/*/acpi_index).
	ACPIIndexes []uint32
	// IsRDMA wants a VF that has an RDMA device, whose nodes it is given out with.
	IsRDMA bool
	// NeedVhostNet selects nothing: VFs that this selector chose are given out
	// with /dev/vhost-net and /dev/net/tun.
	NeedVhostNet bool
}

// Part is a PF and some of its VFs; no Indexes means all of them.
type Part[T any] struct {
	PF      T
	Indexes []Range
}

// Range is VF indexes, First and Last included.
type Range struct{ First, Last int }

func (p Part[T]) containsVF(index int) bool {
	return len(p.Indexes) == 0 || slices.ContainsFunc(p.Indexes, func(r Range) bool { return r.First <= index && index <= r.Last })
}

// Pool finds a pool by its full name, or by its name alone when only one has
// it. The empty name means the only pool there is. Errors are vf.ErrNotFound,
// or vf.ErrInvalid when the name fits several pools.
func (s Spec) Pool(name string) (Pool, error) {
	var found []Pool
	for _, p := range s.Pools {
		if name == "" && p.Unserved == "" || name == p.FullName() || name == p.Name {
			found = append(found, p)
		}
	}
	switch {
	case len(found) == 1 && found[0].Unserved != "":
		return Pool{}, fmt.Errorf("pool %q: %w: it is not served: %s", name, vf.ErrInvalid, found[0].Unserved)
	case len(found) == 1:
		return found[0], nil
	case len(s.Pools) == 0:
		return Pool{}, fmt.Errorf("pool %q: %w: %s declares no pool", name, vf.ErrNotFound, DefaultPath)
	case len(found) == 0:
		return Pool{}, fmt.Errorf("pool %q: %w: there are %s", name, vf.ErrNotFound, joinNames(s.Pools))
	case name == "":
		return Pool{}, fmt.Errorf("no pool is named: %w: there are %s; name one of them", vf.ErrInvalid, joinNames(found))
	}
	return Pool{}, fmt.Errorf("pool %q: %w: it could mean %s; write the whole name", name, vf.ErrInvalid, joinNames(found))
}

func joinNames(pools []Pool) string {
	all := make([]string, len(pools))
	for i, p := range pools {
		all[i] = p.FullName()
	}
	return strings.Join(all, ", ")
}
