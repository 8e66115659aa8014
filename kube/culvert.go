package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	conditions "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/change"
)

// objects are those in the cluster that say what is wanted of a node and what it
// may hand out, and the one in which it tells its state.
type objects struct {
	rest     rest.Interface
	policies cache.SharedIndexInformer
	pools    cache.SharedIndexInformer
	self     cache.SharedIndexInformer // the Node object
	plugin   cache.SharedIndexInformer // the device plugin's ConfigMap
	changed  change.Wake
}

// watchObjects makes their informers. They are not among those that Synced waits
// for: pods are served without them.
func (c *Client) watchObjects() error {
	group, err := c.group(v1alpha1.GroupVersion)
	if err != nil {
		return err
	}
	pods := len(c.informer)
	o := objects{rest: group, changed: change.NewWake()}
	named := func(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }
	o.policies = c.watch(group, "nodepolicies", "", fields.Everything(), &v1alpha1.NodePolicy{}, unmanaged)
	o.pools = c.watch(group, "addresspools", "", fields.Everything(), &v1alpha1.AddressPool{}, unmanaged)
	o.self = c.watch(c.core, "nodes", "", named(c.node), &clusterNode{}, strip)
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

// FollowDevicePlugin has Run follow the ConfigMap of an SR-IOV network device plugin,
// namespace/name. It is called before Run.
func (c *Client) FollowDevicePlugin(object string) error {
	namespace, name, ok := strings.Cut(object, "/")
	if !ok || namespace == "" || name == "" {
		return fmt.Errorf("ConfigMap %q: want namespace/name", object)
	}
	pods := len(c.informer)
	c.objects.plugin = c.watch(c.core, "configmaps", namespace, fields.OneTermEqualSelector("metadata.name", name), &configMap{}, strip)
	c.others, c.informer = append(c.others, c.objects.plugin), c.informer[:pods:pods] // pods are served without it
	return c.objects.notifyOf(c.objects.plugin)
}

// wakeWhenSynced wakes when the cluster has been heard of one kind: where it has
// none of that kind nothing else would.
func (o *objects) wakeWhenSynced(ctx context.Context, i cache.SharedIndexInformer) {
	if cache.WaitForCacheSync(ctx.Done(), i.HasSynced) {
		o.changed.Notify()
	}
}

// unmanaged drops what is large and not read.
func unmanaged(v any) (any, error) {
	if o, ok := v.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return v, nil
}

// ObjectsChanged has a value when policies, pools of addresses, networks, the
// labels of the node or the device plugin's ConfigMap may have changed, or are
// known now.
func (c *Client) ObjectsChanged() <-chan struct{} { return c.objects.changed }

// Policies are the NodePolicies that select this node. known is false until the
// cluster has been heard.
func (c *Client) Policies() (selected []*v1alpha1.NodePolicy, known bool) {
	if !c.objects.policies.HasSynced() || !c.objects.self.HasSynced() {
		return nil, false
	}
	var node labels.Set
	for _, v := range c.objects.self.GetStore().List() {
		if n, ok := v.(*clusterNode); ok {
			node = n.Labels
		}
	}
	for _, v := range c.objects.policies.GetStore().List() {
		if p, ok := v.(*v1alpha1.NodePolicy); ok && labels.SelectorFromSet(p.Spec.NodeSelector).Matches(node) {
			selected = append(selected, p)
		}
	}
	return selected, true
}

// WhyNoPolicies returns why Policies is not known, with the next step; nil when it is, and
// while the API server has not answered yet.
func (c *Client) WhyNoPolicies() error {
	if _, known := c.Policies(); known {
		return nil
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

// AddressPools are all of them. known is false until the cluster has been heard.
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
	for _, o := range c.owner() {
		return string(o.UID)
	}
	return ""
}

// DevicePluginConfig is what the ConfigMap has that FollowDevicePlugin named, nil when
// there is none. known is false until the cluster has been heard.
func (c *Client) DevicePluginConfig() (data map[string]string, known bool) {
	if c.objects.plugin == nil {
		return nil, false
	}
	for _, v := range c.objects.plugin.GetStore().List() {
		if m, ok := v.(*configMap); ok {
			data = map[string]string{} // also of one that has nothing
			maps.Copy(data, m.Data)
		}
	}
	return data, c.objects.plugin.HasSynced()
}

// Networks are all network attachment definitions that have been heard of, by
// namespace and name.
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

// WriteState makes the node's NodeState say status, when it does not. Only this
// node writes it, so the last writer is right.
func (c *Client) WriteState(ctx context.Context, status v1alpha1.NodeStateStatus) error {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	state := &v1alpha1.NodeState{}
	err := c.objects.rest.Get().Resource("nodestates").Name(c.node).Do(ctx).Into(state)
	status.Conditions = since(state.Status.Conditions, status.Conditions)
	switch {
	case apierrors.IsNotFound(err):
		state = &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: c.node, OwnerReferences: c.owner()}, Status: status}
		state.APIVersion, state.Kind = v1alpha1.GroupVersion.String(), "NodeState"
		err = c.objects.rest.Post().Resource("nodestates").Body(state).Do(ctx).Error()
	case err == nil && equality.Semantic.DeepEqual(state.Status, status):
	case err == nil:
		state.APIVersion, state.Kind = v1alpha1.GroupVersion.String(), "NodeState"
		state.Status = status
		err = c.objects.rest.Put().Resource("nodestates").Name(c.node).Body(state).Do(ctx).Error()
	}
	if err != nil {
		return fmt.Errorf("write NodeState %s: %w", c.node, err)
	}
	return nil
}

// since gives conditions the time of their last change: that of the one that was
// there, or now.
func since(there, now []metav1.Condition) []metav1.Condition {
	all := slices.Clone(there)
	for _, c := range now {
		conditions.SetStatusCondition(&all, c)
	}
	return slices.DeleteFunc(all, func(c metav1.Condition) bool { return conditions.FindStatusCondition(now, c.Type) == nil })
}

// owner is the Node object, with which the NodeState goes.
func (c *Client) owner() []metav1.OwnerReference {
	for _, v := range c.objects.self.GetStore().List() {
		if n, ok := v.(*clusterNode); ok {
			return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
		}
	}
	return nil
}
