// Package offer decides which VFs a node offers to ResourceClaims, and describes them as the devices
// of ResourceSlices: one pool of devices for each PF. It is pure. intake/deviceplugin judges the VFs,
// package publish keeps the slices in the cluster.
package offer

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// View is the state of a node at one moment, as far as claims are concerned.
type View struct {
	Spec desired.Spec
	// VFs are those of pools with offer: claims, and those that claims hold, in any order.
	VFs []VF
	// NoTaints is set if the cluster does not keep taints of devices. A VF without a link is then in no
	// slice, as one in quarantine.
	NoTaints bool
}

// VF is a VF that may be offered.
type VF struct {
	// PF has the VF. It is nil if the PF cannot be read and has not been read before: then State has
	// only ID and PCI.
	PF    *vf.PF
	State vf.State
	// IsFree is whether a claim can get it now, apart from the link of its PF.
	IsFree bool
	// IsClaimed is whether a claim holds it, and ClaimPool the full name of the claim's pool of VFs.
	IsClaimed bool
	ClaimPool string
	// Problem is a problem of the VF itself; empty for none. Problems of its PF are in PF.
	Problem string
}

// Device is a VF in a ResourceSlice. Its JSON is that of a Device (k8s.io/api/resource/v1).
type Device struct {
	Name       string           `json:"name"`
	Attributes map[string]Value `json:"attributes,omitempty"`
	Taints     []Taint          `json:"taints,omitempty"`
}

// Equal reports whether two devices are the same.
func (d Device) Equal(o Device) bool {
	return d.Name == o.Name && maps.Equal(d.Attributes, o.Attributes) && slices.Equal(d.Taints, o.Taints)
}

// Pool is the pool of devices of one PF.
type Pool struct {
	Name string
	// Slices has the devices of each slice, in the order of their indexes. A slice may be empty.
	Slices [][]Device
}

// perSlice is how many devices a slice can have that has taints (k8s.io/api/resource/v1,
// ResourceSliceMaxDevicesWithAdvancedFeatures). VF N is in slice N/perSlice, so that a change of one VF
// changes one slice.
const perSlice = 64

// Pools returns the pools that a node offers, by name. A VF is in its pool if it is free, or if a
// claim holds it. A PF without such VFs has an empty pool, so that the pool does not go and come with
// its link.
//
// A device that a claim holds keeps the attributes that it has in last, the earlier answer: its pod may
// have changed the VF, and its devices do not change under a claim. Its taints are those of now. Errors
// are those of claim.PoolName; the other pools are complete.
func Pools(node string, view View, last []Pool, now time.Time) ([]Pool, error) {
	byPF := map[vf.PFID][]VF{}
	for _, v := range view.VFs {
		if !v.State.ID.PF.IsZero() {
			byPF[v.State.ID.PF] = append(byPF[v.State.ID.PF], v)
		}
	}
	var out []Pool
	var errs []error
	for id, vfs := range byPF {
		name, err := claim.PoolName(node, id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		slices.SortFunc(vfs, func(a, b VF) int { return a.State.ID.Compare(b.State.ID) })
		pool := Pool{Name: name, Slices: make([][]Device, vfs[len(vfs)-1].State.ID.Index/perSlice+1)}
		for _, v := range vfs {
			if v.IsClaimed || v.IsFree && !(view.NoTaints && v.PF != nil && v.PF.LinkProblem() != "") {
				i := v.State.ID.Index / perSlice
				was, _ := findDevice(last, name, claim.DeviceName(v.State.ID.Index), i)
				pool.Slices[i] = append(pool.Slices[i], view.deviceOf(v, was, now))
			}
		}
		out = append(out, pool)
	}
	slices.SortFunc(out, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	return out, errors.Join(errs...)
}

// deviceOf returns a VF as a device of a pool. was is the device of the earlier answer; it has no name if
// there was none.
func (view View) deviceOf(v VF, was Device, now time.Time) Device {
	d := Device{Name: claim.DeviceName(v.State.ID.Index)}
	if v.PF == nil {
		d.Attributes, d.Taints = describeUnknown(v), was.Taints
		if was.Name != "" {
			d.Attributes = was.Attributes
		}
		return d
	}
	own, _ := view.Spec.PoolOf(*v.PF, v.State.ID.Index, v.State)
	if v.IsClaimed && v.ClaimPool != "" {
		if of, err := view.Spec.Pool(v.ClaimPool); err == nil {
			own = of
		}
	}
	if !view.NoTaints {
		d.Taints = findTaints(*v.PF, own, was.Taints, now)
	}
	if v.IsClaimed && was.Name != "" {
		d.Attributes = was.Attributes
		return d
	}
	d.Attributes = describeVF(view.Spec, own, *v.PF, v.State)
	return d
}

func findDevice(pools []Pool, pool, device string, slice int) (Device, bool) {
	for _, p := range pools {
		if p.Name != pool || slice >= len(p.Slices) {
			continue
		}
		for _, d := range p.Slices[slice] {
			if d.Name == device {
				return d, true
			}
		}
	}
	return Device{}, false
}
