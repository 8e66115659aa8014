package offer

import (
	"cmp"
	"strings"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// Bounds of a device in a ResourceSlice (k8s.io/api/resource/v1, Device and DeviceAttribute):
// maxText is the number of bytes of a text, maxAttributes counts capacities, too.
const (
	maxText       = 64
	maxAttributes = 32
)

// Kinds of a VF, the values of the attribute kind.
const (
	KindNetDevice = "netdevice"
	KindVFIO      = "vfio"
)

// abilities are the settings that a claim may select on, with the names of their attributes.
var abilities = []struct {
	attribute string
	setting   vf.Setting
}{
	{"canVLAN", vf.SetVLAN}, {"canServiceVLAN", vf.SetVLANProto}, {"canSpoofChk", vf.SetSpoofChk}, {"canTrust", vf.SetTrust},
	{"canLinkState", vf.SetLinkState}, {"canMinTxRate", vf.SetMinTxRate}, {"canMaxTxRate", vf.SetMaxTxRate},
}

// Attributes returns the attributes of a VF of pf, by their qualified names. A name without a domain is
// of the driver's domain, culvert.dev. Each attribute has one type. docs/dra.md describes them.
//
// A text of more than 64 bytes is left out, since a shortened one would equal others. carrier and
// speed are the PF's; a link that flaps counts as none. mtu is that of the VF while it is free. An ability is true if the driver is
// known to have it.
func Attributes(spec desired.Spec, pf vf.PF, state vf.State) map[string]Value {
	pool, _ := spec.PoolOf(pf, state.ID.Index, state)
	return describeVF(spec, pool, pf, state)
}

// describeVF returns the attributes of a VF that belongs to a pool.
func describeVF(spec desired.Spec, pool desired.Pool, pf vf.PF, state vf.State) map[string]Value {
	out := make(map[string]Value, maxAttributes)
	addText := func(name, text string) {
		if text != "" && len(text) <= maxText {
			out[name] = Text(text)
		}
	}
	addText("resource.kubernetes.io/pcieRoot", pf.PCIeRoot)
	addText("resource.kubernetes.io/pciBusID", state.PCI.String())
	if state.NUMA >= 0 {
		out["resource.kubernetes.io/numaNode"] = numberOf(state.NUMA)
	}
	addText("k8s.cni.cncf.io/resourceName", pool.FullName())
	addText("k8s.cni.cncf.io/deviceID", state.PCI.String())

	addText("pf", cmp.Or(pf.Port, pf.Name))
	addText("pfID", pf.ID.String())
	addText("pfPCI", pf.PCI.String())
	out["vf"] = numberOf(state.ID.Index)
	addText("vendor", state.Vendor)
	addText("device", state.Device)
	addText("driver", state.Driver)
	addText("kind", kindOf(pool, state))
	addText("pool", pool.FullName())
	addText("segment", string(spec.SegmentOf(pf)))
	out["carrier"], out["speed"] = boolOf(pf.Carrier), numberOf(pf.SpeedMbps)
	if pf.Flapping { // each change would be a write
		out["carrier"], out["speed"] = boolOf(false), numberOf(0)
	}
	out["mtu"] = numberOf(mtuOf(spec, pf, state))
	out["rdma"] = boolOf(state.RDMA != nil)
	if state.RDMA != nil {
		addText("rdmaDevice", state.RDMA.Device)
	}
	for _, a := range abilities {
		out[a.attribute] = boolOf(pf.Abilities[a.setting] == vf.Yes)
	}
	return out
}

func kindOf(pool desired.Pool, state vf.State) string {
	if pool.KindOf(state) == desired.VFIO {
		return KindVFIO
	}
	return KindNetDevice
}

// mtuOf returns the MTU of a VF while it is free: the wanted one, else the one that the VF or its PF
// has.
func mtuOf(spec desired.Spec, pf vf.PF, state vf.State) int {
	mtu := spec.MTUOfVF(pf, state.ID.Index, state)
	if mtu == 0 && state.Link != nil {
		mtu = state.Link.MTU
	}
	return cmp.Or(mtu, pf.MTU)
}

// describeUnknown returns the attributes of a VF that a claim holds and whose PF cannot be read: those
// that Multus reads, and its identity.
func describeUnknown(v VF) map[string]Value {
	out := map[string]Value{
		"resource.kubernetes.io/pciBusID": Text(v.State.PCI.String()),
		"k8s.cni.cncf.io/deviceID":        Text(v.State.PCI.String()),
		"pfID":                            Text(v.State.ID.PF.String()),
		"vf":                              numberOf(v.State.ID.Index),
	}
	if name := v.ClaimPool; name != "" && len(name) <= maxText && strings.Contains(name, "/") {
		out["k8s.cni.cncf.io/resourceName"], out["pool"] = Text(name), Text(name)
	}
	return out
}
