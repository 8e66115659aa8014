package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	conditions "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/node/sources"
)

// objects are the informers of cluster objects with the wanted state of a node and its
// addresses, and the object with the node's reported state.
type objects struct {
	rest     rest.Interface
	policies cache.SharedIndexInformer
	pools    cache.SharedIndexInformer
	self     cache.SharedIndexInformer // the Node object
	plugin   cache.SharedIndexInformer // the device plugin's ConfigMap
	changed  change.Wake
}

// watchObjects makes the informers of objects. Synced does not wait for them, since pods are served
// without them.
func (c *Client) watchObjects() error {
	group, err := c.groupClient(v1alpha1.GroupVersion)
	if err != nil {
		return err
	}
	pods := len(c.informer)
	o := objects{rest: group, changed: change.NewWake()}
	named := func(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }
	o.policies = c.newInformer(group, "nodepolicies", "", fields.Everything(), &nodePolicy{}, dropManagedFields)
	everyPool := func(*metav1.ListOptions) {}
	o.pools = c.newInformerOf(listLean[v1alpha1.AddressPool](group, "addresspools", everyPool, nil, c.thinPool), "addresspools", &v1alpha1.AddressPool{}, c.thinPool)
	o.self = c.newInformer(c.core, "nodes", "", named(c.node), &clusterNode{}, stripObject)
	c.others, c.informer = c.informer[pods:], c.informer[:pods:pods]
	for _, i := range append(c.others[:len(c.others):len(c.others)], c.networks) {
		if err := o.notifyOf(i); err != nil {
			return err
		}
	}
	c.objects = o
	return nil
}

// notifyOf wakes ObjectsChanged at each change of one kind.
func (o *objects) notifyOf(i cache.SharedIndexInformer) error {
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { o.changed.Notify() }, UpdateFunc: func(_, _ any) { o.changed.Notify() }, DeleteFunc: func(any) { o.changed.Notify() },
	})
	if err != nil {
		return fmt.Errorf("watch the cluster's objects: %w", err)
	}
	return nil
}

// FollowDevicePlugin makes Run follow the ConfigMap of an SR-IOV network device plugin,
// namespace/name. Call it before Run.
func (c *Client) FollowDevicePlugin(object string) error {
	namespace, name, ok := strings.Cut(object, "/")
	if !ok || namespace == "" || name == "" {
		return fmt.Errorf("ConfigMap %q: want namespace/name", object)
	}
	pods := len(c.informer)
	c.objects.plugin = c.newInformer(c.core, "configmaps", namespace, fields.OneTermEqualSelector("metadata.name", name), &configMap{}, stripObject)
	c.others, c.informer = append(c.others, c.objects.plugin), c.informer[:pods:pods] // pods are served without it
	return c.objects.notifyOf(c.objects.plugin)
}

// wakeWhenSynced wakes the readers when an informer has listed its kind. If the cluster has no
// object of that kind, no other event would wake them.
func (c *Client) wakeWhenSynced(ctx context.Context, i cache.SharedIndexInformer) {
	if cache.WaitForCacheSync(ctx.Done(), i.HasSynced) {
		c.objects.changed.Notify()
		c.services.changed.Notify()
	}
}

// dropManagedFields drops the managed fields, which are large and not read.
func dropManagedFields(v any) (any, error) {
	if o, ok := v.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return v, nil
}

// thinPool is dropManagedFields for AddressPools, of which a node keeps its own blocks.
func (c *Client) thinPool(v any) (any, error) {
	if o, ok := v.(*v1alpha1.AddressPool); ok {
		blocks.Thin(o, c.node)
	}
	return dropManagedFields(v)
}

// ObjectsChanged returns a channel that has a value when policies, pools of addresses, networks,
// the labels of the node or the device plugin's ConfigMap may have changed, or have been read for
// the first time.
func (c *Client) ObjectsChanged() <-chan struct{} { return c.objects.changed }

// Policies returns the NodePolicies that select this node. known is false until the API server has
// listed them, and while the cluster has no Node object for this node, which has the labels. A Node
// may be deleted by mistake; the kubelet makes it again.
func (c *Client) Policies() (selected []sources.Policy, known bool) {
	if !c.objects.policies.HasSynced() || !c.objects.self.HasSynced() {
		return nil, false
	}
	node, isThere := c.labelsOfNode()
	if !isThere {
		return nil, false
	}
	for _, v := range c.objects.policies.GetStore().List() {
		if p, ok := v.(*nodePolicy); ok && labels.SelectorFromSet(p.Spec.NodeSelector).Matches(node) {
			selected = append(selected, sources.Policy{NodePolicy: &p.NodePolicy, Unknown: p.unknown})
		}
	}
	return selected, true
}

// labelsOfNode returns the labels of this node, and whether the cluster has a Node object for it.
func (c *Client) labelsOfNode() (node labels.Set, isThere bool) {
	for _, v := range c.objects.self.GetStore().List() {
		if n, ok := v.(*clusterNode); ok {
			node, isThere = n.Labels, true
		}
	}
	return node, isThere
}

// WhyNoPolicies returns why Policies is not known, with the next step; nil when it is, and
// while the API server has not answered yet.
func (c *Client) WhyNoPolicies() error {
	if _, known := c.Policies(); known {
		return nil
	}
	if _, isThere := c.labelsOfNode(); c.objects.policies.HasSynced() && c.objects.self.HasSynced() && !isThere {
		return errors.New("the cluster has no Node object for this node: restart the kubelet, which makes it")
	}
	failed, ok := c.failed.Load("nodepolicies")
	err, _ := failed.(error)
	switch {
	case !ok:
		return nil
	case apierrors.IsNotFound(err):
		return errors.New("the API server knows no NodePolicies: apply the CustomResourceDefinitions of Culvert's manifest (kubectl get crd nodepolicies.culvert.dev)")
	}
	return fmt.Errorf("culvertd cannot list them (kubectl auth can-i list nodepolicies.culvert.dev, as culvertd): %w", err)
}

// AddressPools returns all AddressPools. known is false until the API server has listed them.
func (c *Client) AddressPools() (pools []*v1alpha1.AddressPool, known bool) {
	for _, v := range c.objects.pools.GetStore().List() {
		if p, ok := v.(*v1alpha1.AddressPool); ok {
			pools = append(pools, p)
		}
	}
	return pools, c.objects.pools.HasSynced()
}

// NodeUID returns the UID of the node's Node object, empty while there is none or it is not
// known yet.
func (c *Client) NodeUID() string {
	for _, o := range c.nodeOwner() {
		return string(o.UID)
	}
	return ""
}

// DevicePluginConfig returns the data of the ConfigMap that FollowDevicePlugin named, nil if there
// is no such ConfigMap. known is false until the API server has answered.
func (c *Client) DevicePluginConfig() (data map[string]string, known bool) {
	if c.objects.plugin == nil {
		return nil, false
	}
	for _, v := range c.objects.plugin.GetStore().List() {
		if m, ok := v.(*configMap); ok {
			data = map[string]string{} // also for a ConfigMap without data
			maps.Copy(data, m.Data)
		}
	}
	return data, c.objects.plugin.HasSynced()
}

// Networks returns all network attachment definitions that the client keeps, by namespace and name.
func (c *Client) Networks() []api.NetworkDefinition {
	var out []api.NetworkDefinition
	for _, v := range c.networks.GetStore().List() {
		if n, ok := v.(*network); ok {
			out = append(out, definitionOf(n))
		}
	}
	slices.SortFunc(out, func(a, b api.NetworkDefinition) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// keepTransitionTimes returns the conditions of now with the times of their last changes. A
// condition that has the same status in there keeps its time.
func keepTransitionTimes(there, now []metav1.Condition) []metav1.Condition {
	all := slices.Clone(there)
	for _, c := range now {
		conditions.SetStatusCondition(&all, c)
	}
	return slices.DeleteFunc(all, func(c metav1.Condition) bool { return conditions.FindStatusCondition(now, c.Type) == nil })
}

// nodeOwner returns a reference to the Node object, with which the NodeState is deleted.
func (c *Client) nodeOwner() []metav1.OwnerReference {
	for _, v := range c.objects.self.GetStore().List() {
		if n, ok := v.(*clusterNode); ok {
			return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
		}
	}
	return nil
}
