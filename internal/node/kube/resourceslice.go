package kube

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/node/offer"
)

const resourceSlices = "resourceslices"

// sliceSpec is the part of a ResourceSlice's spec that culvertd writes (k8s.io/api/resource/v1).
type sliceSpec struct {
	Driver   string         `json:"driver"`
	Pool     devicePool     `json:"pool"`
	NodeName string         `json:"nodeName"`
	Devices  []offer.Device `json:"devices"`
}

// devicePool is a ResourcePool.
type devicePool struct {
	Name               string `json:"name"`
	Generation         int64  `json:"generation"`
	ResourceSliceCount int64  `json:"resourceSliceCount"`
}

// digest stands for the content of a slice: all of its spec but Generation and ResourceSliceCount, so
// that a field that another writer adds counts as a difference.
type digest [sha256.Size]byte

// digestOf returns the digest of a slice's spec in JSON.
func digestOf(spec []byte) (digest, devicePool, error) {
	var head struct {
		Pool devicePool `json:"pool"`
	}
	var all map[string]any
	if err := json.Unmarshal(spec, &head); err != nil {
		return digest{}, devicePool{}, fmt.Errorf("spec of a ResourceSlice: %w", err)
	}
	_ = json.Unmarshal(spec, &all) // an object, as before
	all["pool"] = head.Pool.Name
	if devices, _ := all["devices"].([]any); len(devices) == 0 {
		delete(all, "devices") // null and [] are one
	}
	text, err := json.Marshal(all)
	return sha256.Sum256(text), head.Pool, err
}

// resourceSlice is a ResourceSlice of this node as the API server has it, without its devices.
type resourceSlice struct {
	object `json:",inline"`
	Spec   sliceState `json:"spec"`
}

// sliceState is the state of a slice that is kept.
type sliceState struct {
	pool   devicePool
	digest digest
}

// UnmarshalJSON reads the spec of a slice.
func (s *sliceState) UnmarshalJSON(raw []byte) (err error) {
	s.digest, s.pool, err = digestOf(raw)
	return err
}

type resourceSliceList list[resourceSlice]

// DeepCopyObject is for runtime.Object.
func (s *resourceSlice) DeepCopyObject() runtime.Object {
	return &resourceSlice{s.copyMeta(), s.Spec}
}

// DeepCopyObject is for runtime.Object.
func (l *resourceSliceList) DeepCopyObject() runtime.Object {
	out := &resourceSliceList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, s := range l.Items {
		out.Items = append(out.Items, resourceSlice{s.copyMeta(), s.Spec})
	}
	return out
}

// isOwnedBy reports whether an object has the one owner.
func (o object) isOwnedBy(owner []metav1.OwnerReference) bool {
	return slices.EqualFunc(o.OwnerReferences, owner, func(a, b metav1.OwnerReference) bool { return a.UID == b.UID && a.Kind == b.Kind })
}

// maxObjectName is the length of the longest name of an object (RFC 1123 subdomain).
const maxObjectName = 253

// nameSlice returns the name of slice i of a pool. The hash keeps it from being another node's.
func nameSlice(node, pool string, i int) string {
	sum := sha256.Sum256([]byte(pool))
	end := fmt.Sprintf("-%s-%x-%d", claim.Driver, sum[:8], i)
	return node[:min(len(node), maxObjectName-len(end))] + end
}

// wantedSlice is a slice as it should be.
type wantedSlice struct {
	name    string
	devices []offer.Device
	digest  digest
}

// wantSlices returns the slices of a pool. known are those of the last answer: a slice whose devices
// are the same keeps its digest.
func (k *Slices) wantSlices(pool offer.Pool, known map[string]wantedSlice) ([]wantedSlice, error) {
	var out []wantedSlice
	for i, devices := range pool.Slices {
		w := wantedSlice{name: nameSlice(k.c.node, pool.Name, i), devices: devices}
		if was, ok := known[w.name]; ok && slices.EqualFunc(was.devices, devices, offer.Device.Equal) {
			out = append(out, was)
			continue
		}
		spec, err := json.Marshal(k.specOf(devicePool{Name: pool.Name}, devices))
		if err == nil {
			w.digest, _, err = digestOf(spec)
		}
		if err != nil {
			return nil, fmt.Errorf("slice %s of pool %s: %w", strconv.Itoa(i), pool.Name, err)
		}
		out = append(out, w)
	}
	return out, nil
}

func (k *Slices) specOf(pool devicePool, devices []offer.Device) sliceSpec {
	if devices == nil {
		devices = []offer.Device{}
	}
	return sliceSpec{Driver: claim.Driver, Pool: pool, NodeName: k.c.node, Devices: devices}
}
