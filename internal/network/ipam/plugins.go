package ipam

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/vf"
)

// typeDHCP is the plugin of the CNI project that asks a DHCP server.
const typeDHCP = "dhcp"

// Types says which programs are executed as IPAM plugins. Tenants name them in ipam.type, and the
// shim executes them as root. The zero value has DefaultTypes.
type Types struct {
	more []string // beside DefaultTypes
	any  bool
}

// DefaultTypes returns the IPAM plugins that are executed on every node.
func DefaultTypes() []string { return []string{TypeHostLocal, TypeStatic, typeDHCP, TypeWhereabouts} }

// ParseTypes reads the flag --ipam-types: the plugins that an administrator adds to DefaultTypes.
func ParseTypes(more []string) (Types, error) {
	for _, name := range more {
		if err := AnyType().Check(name); err != nil {
			return Types{}, fmt.Errorf("--ipam-types: %w", err)
		}
	}
	return Types{more: more}, nil
}

// AnyType returns Types with every plugin that can give addresses: for judgements that do not know
// the list of a node.
func AnyType() Types { return Types{any: true} }

// Check refuses a plugin that is not executed as an IPAM plugin. The error wraps vf.ErrInvalid.
func (t Types) Check(name string) error {
	want := append(DefaultTypes(), t.more...)
	switch {
	case slices.Contains(notIPAM, name):
		return fmt.Errorf("ipam.type %s: %w: that plugin gives no addresses: as its own IPAM plugin it would execute itself without end: name one that does, such as %s",
			name, vf.ErrInvalid, strings.Join(want, ", "))
	case !api.IsPluginType(name):
		return fmt.Errorf("ipam.type %s: %w: want the name of a CNI plugin that gives addresses, such as %s", excerpt.Quote(name), vf.ErrInvalid, strings.Join(want, ", "))
	case t.any || slices.Contains(want, name):
		return nil
	}
	return fmt.Errorf("ipam.type %s: %w: this node executes %s for addresses: an administrator adds a type by culvertd --ipam-types=%s (chart: node.ipamTypes)",
		name, vf.ErrInvalid, strings.Join(want, ", "), strings.Join(append(slices.Clone(t.more), name), ","))
}

// IsDefault reports whether every node executes a plugin.
func IsDefault(name string) bool { return slices.Contains(DefaultTypes(), name) }

// GivesAddresses reports whether a plugin may be an IPAM plugin: it is not known to be another.
func GivesAddresses(name string) bool { return !slices.Contains(notIPAM, name) }

// notIPAM are known plugins that make or change interfaces. Most execute the plugin of ipam.type,
// with the same configuration. The first line has Culvert's and Multus', the next two those of the
// CNI project, then come those of others.
var notIPAM = []string{
	TypeCulvert, "culvert-cni", "sriov", "ib-sriov", "ib-sriov-cni", "multus", "multus-shim", "multus-cni",
	"bandwidth", "bridge", "dummy", "firewall", "host-device", "ipvlan", "loopback", "macvlan", "portmap", "ptp", "sbr", "tap", "tuning", "vlan", "vrf",
	"win-bridge", "win-overlay",
	"accelerated-bridge", "bond", "calico", "cilium-cni", "flannel", "ipoib", "macvtap", "ovn-k8s-cni-overlay", "ovs", "rdma", "route-override", "userspace",
}
