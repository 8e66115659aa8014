package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/vf"
)

// Pod returns a pod of this node. uid is the UID by which the runtime knows the pod, or empty. Pod
// asks the API server once for a pod that is not in the informer yet. It also asks if the informer
// has another UID (that of an earlier pod of the name), or no annotations because they are large.
//
// Errors: vf.ErrNotFound when there is no such pod; vf.ErrNotReady when the API server did not
// answer.
func (c *Client) Pod(ctx context.Context, namespace, name, uid string) (api.Pod, error) {
	if v, ok, err := c.pods.GetStore().GetByKey(namespace + "/" + name); err == nil && ok {
		if p := v.(*pod); hasUID(p, uid) && !p.partial {
			return podOf(p), nil
		}
	}
	p := &pod{}
	if err := c.getObject(ctx, c.core, "pods", namespace, name, p); err != nil {
		return api.Pod{}, vf.ObjectError{Object: "pod " + namespace + "/" + name, Err: err}
	}
	if !hasUID(p, uid) {
		return api.Pod{}, vf.ObjectError{Object: "pod " + namespace + "/" + name, Err: fmt.Errorf("UID %s: %w: the pod of that name has UID %s now", uid, vf.ErrNotFound, p.UID)}
	}
	return podOf(p), nil
}

// HasPod reports whether the cluster has a pod, and whether another pod of that name is on this
// node in its place. A pod on another node is no reason to doubt the kubelet, which may still run
// the pod. An empty uid stands for any pod of the name. Errors: vf.ErrNotReady when the API server
// did not answer; a 404 of a proxy in front of it is no answer.
func (c *Client) HasPod(ctx context.Context, namespace, name, uid string) (has, another bool, err error) {
	v, here, err := c.pods.GetStore().GetByKey(namespace + "/" + name)
	if err == nil && here && hasUID(v.(*pod), uid) {
		return true, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	p := &pod{}
	answer := c.core.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx)
	if isAbsent(answer, "pods", name) {
		return false, false, nil
	}
	if err := answer.Into(p); err != nil {
		return false, false, fmt.Errorf("pod %s/%s: %w: the API server did not tell: %w", namespace, name, vf.ErrNotReady, err)
	}
	if p.Name != name {
		return false, false, fmt.Errorf("pod %s/%s: %w: the answer is about %q", namespace, name, vf.ErrNotReady, p.Name)
	}
	return hasUID(p, uid), here && !hasUID(p, uid), nil
}

// Known returns the pod of that name as the informer has it.
func (c *Client) Known(namespace, name string) (api.Pod, bool) {
	v, ok, err := c.pods.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !ok {
		return api.Pod{}, false
	}
	return podOf(v.(*pod)), true
}

// Network returns a network attachment definition. Errors are as for Pod.
func (c *Client) Network(ctx context.Context, namespace, name string) (api.NetworkDefinition, error) {
	v, ok, err := c.networks.GetStore().GetByKey(namespace + "/" + name)
	n, _ := v.(*network)
	if err != nil || !ok {
		n = &network{}
		if err := c.getObject(ctx, c.nets, definitions, namespace, name, n); err != nil {
			return api.NetworkDefinition{}, fmt.Errorf("NetworkAttachmentDefinition %s/%s: %w", namespace, name, err)
		}
	}
	return definitionOf(n), nil
}

// NetworksOf returns the network attachment definitions that name a resource, as far as the client
// keeps them.
func (c *Client) NetworksOf(resource string) (out []api.NetworkDefinition) {
	for _, v := range c.networks.GetStore().List() {
		if n, ok := v.(*network); ok && n.Annotations[netannotation.ResourceName] == resource {
			out = append(out, definitionOf(n))
		}
	}
	return out
}

func definitionOf(n *network) api.NetworkDefinition {
	return api.NetworkDefinition{Namespace: n.Namespace, Name: n.Name, Annotations: n.Annotations, Config: n.Spec.Config.text, Dropped: n.Spec.Config.dropped, UID: string(n.UID), Version: n.ResourceVersion}
}

// static marks the mirror of a static pod: the kubelet, and so the runtime, knows
// that pod by this value and not by the mirror's UID (Kubernetes,
// pkg/kubelet/types: ConfigHashAnnotationKey).
const static = "kubernetes.io/config.hash"

func hasUID(p *pod, uid string) bool {
	return uid == "" || string(p.UID) == uid || p.Annotations[static] == uid
}

func podOf(p *pod) api.Pod {
	return api.Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Annotations: readAnnotations(p.Annotations), Power: p.Spec.power, Claims: p.claimNames()}
}

func (c *Client) getObject(ctx context.Context, from rest.Interface, resource, namespace, name string, into runtime.Object) error {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	select {
	case c.reads <- struct{}{}:
		defer func() { <-c.reads }()
	case <-ctx.Done():
		return fmt.Errorf("%w: it has not arrived here, and other reads from the API server took too long: %w", vf.ErrNotReady, ctx.Err())
	}
	err := from.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(name).Do(ctx).Into(into)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w in the cluster", vf.ErrNotFound)
	case err != nil:
		return fmt.Errorf("%w: it has not arrived here, and the API server did not tell: %w", vf.ErrNotReady, err)
	}
	return nil
}

// HasGroup reports whether the cluster has an API group. Every credential may ask that. The
// error is vf.ErrNotReady.
func (c *Client) HasGroup(ctx context.Context, group string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	err := c.core.Get().AbsPath("/apis", group).Do(ctx).Error()
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("API group %s: %w: the API server did not tell: %w", group, vf.ErrNotReady, err)
	}
	return true, nil
}
