package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/node/offer"
	"github.com/culvert-net/culvert/internal/vf"
)

// Slices has the ResourceSlices of this node.
type Slices struct {
	c        *Client
	informer cache.SharedIndexInformer
	changed  change.Wake
	known    map[string]wantedSlice // by name; only Put uses it
	noTaints bool                   // only Put and TakesTaints use it

	mu sync.Mutex // guards written
	// written are the results of own writes that the informer may not have seen yet, by name.
	written map[string]writtenSlice
}

// writtenSlice is the result of an own write.
type writtenSlice struct {
	slice   *resourceSlice // nil: deleted
	version uint64
	at      time.Time
}

// seenAfter bounds for how long an own write is believed although the watch does not show it.
const seenAfter = 30 * time.Second

// newSlices returns the slices of a client's node. Follow starts the watch.
func newSlices(c *Client) (*Slices, error) {
	k := &Slices{c: c, changed: change.NewWake(), written: map[string]writtenSlice{}}
	pods := len(c.informer)
	k.informer = c.newInformer(c.resources, resourceSlices, "", k.selectOwn(), &resourceSlice{}, stripObject)
	c.informer = c.informer[:pods:pods] // Run does not start it
	_, err := k.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { k.changed.Notify() }, UpdateFunc: func(_, _ any) { k.changed.Notify() }, DeleteFunc: k.noteDeletion,
	})
	if err != nil {
		return nil, fmt.Errorf("watch ResourceSlices: %w", err)
	}
	return k, nil
}

// selectOwn selects the slices that are Culvert's and this node's.
func (k *Slices) selectOwn() fields.Selector {
	return fields.SelectorFromSet(fields.Set{"spec.driver": claim.Driver, "spec.nodeName": k.c.node})
}

// Follow watches the node's ResourceSlices until ctx ends.
func (k *Slices) Follow(ctx context.Context) { k.informer.RunWithContext(ctx) }

// Changed returns a channel that has a value when the node's ResourceSlices changed: by another
// writer, or as the watch shows an own write.
func (k *Slices) Changed() <-chan struct{} { return k.changed }

// noteDeletion forgets an own write to a slice that is gone: the kubelet deletes the slices of a driver
// that is away for 30 s.
func (k *Slices) noteDeletion(v any) {
	if unknown, ok := v.(cache.DeletedFinalStateUnknown); ok {
		v = unknown.Obj
	}
	if s, ok := v.(*resourceSlice); ok {
		k.mu.Lock()
		if w, ok := k.written[s.Name]; ok && versionOf(s.ResourceVersion) >= w.version {
			delete(k.written, s.Name)
		}
		k.mu.Unlock()
	}
	k.changed.Notify()
}

// versionOf returns a resource version as a number, by which versions of one object compare
// (KEP-5504); 0 for another text.
func versionOf(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}

// list returns the slices by name, with own writes that the watch has not shown yet.
func (k *Slices) list(now time.Time) map[string]*resourceSlice {
	out := map[string]*resourceSlice{}
	for _, v := range k.informer.GetStore().List() {
		if s, ok := v.(*resourceSlice); ok {
			out[s.Name] = s
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, w := range k.written {
		seen := out[name]
		switch {
		case now.Sub(w.at) >= seenAfter, seen != nil && versionOf(seen.ResourceVersion) > w.version,
			seen != nil && w.slice != nil && versionOf(seen.ResourceVersion) == w.version, seen == nil && w.slice == nil:
			delete(k.written, name)
		case w.slice == nil:
			delete(out, name)
		default:
			out[name] = w.slice
		}
	}
	return out
}

func (k *Slices) noteWrite(name string, version string, s *resourceSlice) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.written[name] = writtenSlice{s, versionOf(version), time.Now()}
}

// Put makes the node's ResourceSlices those of the pools, and deletes its others. It writes what
// differs: nothing, one slice of a pool with its generation, or all slices of the pool with the next
// one. So the scheduler, which takes the slices of the highest generation and waits until it has as
// many as resourceSliceCount says, never uses old and new slices of a pool together
// (k8s.io/dynamic-resource-allocation, structured and resourceslice).
//
// Follow has to run. Only one goroutine may call Put. One pool that cannot be written does
// not keep the others from being written.
func (k *Slices) Put(ctx context.Context, pools []offer.Pool) error {
	if err := k.waitForSlices(ctx); err != nil {
		return err
	}
	owner := k.c.nodeOwner()
	if len(owner) == 0 {
		return fmt.Errorf("ResourceSlices: %w: the cluster has no Node object for this node yet: the kubelet makes it", vf.ErrNotReady)
	}
	there := k.list(time.Now())
	known := map[string]wantedSlice{}
	var errs []error
	for _, pool := range pools {
		want, err := k.wantSlices(pool, k.known)
		if err == nil {
			err = k.putPool(ctx, pool.Name, owner, want, there)
		}
		for _, w := range want {
			known[w.name] = w
			delete(there, w.name)
		}
		errs = append(errs, err)
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		errs = append(errs, k.deleteSlice(ctx, there[name]))
	}
	k.known = known
	return errors.Join(errs...)
}

// waitForSlices waits until the slices were listed.
func (k *Slices) waitForSlices(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	if cache.WaitForCacheSync(ctx.Done(), k.informer.HasSynced, k.c.objects.self.HasSynced) {
		return nil
	}
	failed, _ := k.c.failed.Load(resourceSlices)
	err, _ := failed.(error)
	switch {
	case apierrors.IsNotFound(err):
		return errors.New("the API server has no resource.k8s.io/v1, which comes with Kubernetes 1.34: set offer: resource until the cluster is upgraded")
	case err != nil:
		return fmt.Errorf("list ResourceSlices: %w", err)
	}
	return fmt.Errorf("list ResourceSlices: %w: the API server has not answered yet", vf.ErrNotReady)
}

// putPool writes the slices of one pool that differ from those that are there.
func (k *Slices) putPool(ctx context.Context, pool string, owner []metav1.OwnerReference, want []wantedSlice, there map[string]*resourceSlice) error {
	now := devicePool{Name: pool, ResourceSliceCount: int64(len(want))}
	for _, s := range there {
		if s.Spec.pool.Name == pool {
			now.Generation = max(now.Generation, s.Spec.pool.Generation)
		}
	}
	var changed []wantedSlice
	isNew := false
	for _, w := range want {
		s := there[w.name]
		isNew = isNew || s == nil
		if s == nil || s.Spec.digest != w.digest || s.Spec.pool != now || !s.isOwnedBy(owner) {
			changed = append(changed, w)
		}
	}
	if isNew || len(changed) > 1 {
		now.Generation++
		changed = want
	}
	for _, w := range changed {
		if err := k.writeSlice(ctx, now, owner, w, there[w.name]); err != nil {
			return err // the scheduler ignores the pool until all its slices are there
		}
	}
	return nil
}

// writeSlice makes a slice, or replaces the one that is there.
func (k *Slices) writeSlice(ctx context.Context, pool devicePool, owner []metav1.OwnerReference, w wantedSlice, there *resourceSlice) error {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	meta := map[string]any{"name": w.name, "ownerReferences": owner}
	request := k.c.resources.Post().Resource(resourceSlices)
	if there != nil {
		meta["resourceVersion"], meta["uid"] = there.ResourceVersion, there.UID
		request = k.c.resources.Put().Resource(resourceSlices).Name(w.name)
	}
	body, err := json.Marshal(map[string]any{"apiVersion": resourceV1.String(), "kind": "ResourceSlice", "metadata": meta, "spec": k.specOf(pool, w.devices)})
	if err != nil {
		return fmt.Errorf("write ResourceSlice %s: %w", w.name, err)
	}
	result := request.Body(body).Do(ctx)
	err = result.Error() // Raw's error does not have the API server's message
	if err == nil {
		raw, _ := result.Raw() // its error is that of Error
		s := &resourceSlice{}
		if err = json.Unmarshal(raw, s); err == nil {
			lean, _ := stripObject(s) // never fails
			k.noteWrite(w.name, s.ResourceVersion, lean.(*resourceSlice))
			k.noTaints = k.noTaints || k.hasDroppedTaints(w, s)
			return nil
		}
	}
	return fmt.Errorf("write ResourceSlice %s of pool %s: %w", w.name, pool.Name, err)
}

// TakesTaints reports whether the API server keeps taints of devices, as far as writes have shown. Their
// feature gate DRADeviceTaints is off in Kubernetes 1.34 and 1.35. A later API server is noticed when
// culvertd starts again. Call it from the goroutine of Put.
func (k *Slices) TakesTaints() bool { return !k.noTaints }

// hasDroppedTaints reports whether a slice that was written with taints is there without them.
func (k *Slices) hasDroppedTaints(w wantedSlice, there *resourceSlice) bool {
	if there.Spec.digest == w.digest || !slices.ContainsFunc(w.devices, func(d offer.Device) bool { return len(d.Taints) > 0 }) {
		return false
	}
	without := slices.Clone(w.devices)
	for i := range without {
		without[i].Taints = nil
	}
	spec, err := json.Marshal(k.specOf(devicePool{Name: there.Spec.pool.Name}, without))
	if err != nil {
		return false
	}
	digest, _, err := digestOf(spec)
	return err == nil && there.Spec.digest == digest
}

// deleteSlice deletes a slice of this node.
func (k *Slices) deleteSlice(ctx context.Context, s *resourceSlice) error {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	err := k.c.resources.Delete().Resource(resourceSlices).Name(s.Name).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ResourceSlice %s: %w", s.Name, err)
	}
	k.noteWrite(s.Name, s.ResourceVersion, nil)
	return nil
}

// Delete deletes all ResourceSlices of this node, which it lists first. A cluster without
// resource.k8s.io/v1 has none, and neither has a culvertd that may not list them.
func (k *Slices) Delete(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	var all []*resourceSlice
	options := metav1.ListOptions{FieldSelector: k.selectOwn().String()}
	_, err := listEach(bounded, listRequest(k.c.resources, resourceSlices, options), func(s *resourceSlice) { all = append(all, s) })
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("list ResourceSlices: %w", err)
	}
	var errs []error
	for _, s := range all {
		errs = append(errs, k.deleteSlice(ctx, s))
	}
	return errors.Join(errs...)
}
