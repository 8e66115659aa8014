package clusterview

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/culvert-net/culvert/internal/admin/why"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/suggest"
	"github.com/culvert-net/culvert/internal/vf"
)

// ReadPod reads a pod with its events, the networks that it asks for, and the Nodes. It leaves
// Facts.Cluster and Facts.Policies to the caller. Nodes and networks that the caller may not read
// are missing.
//
// Errors: vf.ErrNotFound when there is no such pod.
func (c *Cluster) ReadPod(ctx context.Context, namespace, name string) (why.Facts, error) {
	var f why.Facts
	if err := c.get(ctx, "/api/v1/namespaces/"+namespace+"/pods/"+name, &f.Pod); apierrors.IsNotFound(err) {
		return f, c.explainMissingPod(ctx, namespace, name)
	} else if err != nil {
		return f, c.explainError("pods", err)
	}
	var err error
	if f.Events, err = listObjects[why.Event](ctx, c, "/api/v1/namespaces/"+namespace+"/events", map[string]string{"fieldSelector": "involvedObject.uid=" + f.Pod.Metadata.UID}); err != nil {
		return f, c.explainError("events", err)
	}
	if f.Nodes, err = listObjects[why.Node](ctx, c, "/api/v1/nodes", nil); err != nil && !apierrors.IsForbidden(err) {
		return f, c.explainError("nodes", err)
	}
	return f, c.readNetworksOf(ctx, &f)
}

// readNetworksOf reads the networks that a pod asks for, and culvertd's rule about networks of other
// namespaces.
func (c *Cluster) readNetworksOf(ctx context.Context, f *why.Facts) error {
	elements, _ := why.Elements(f.Pod) // the error is a cause of its own
	f.Networks, f.Unread = map[string]map[string]string{}, map[string]bool{}
	for _, e := range elements {
		var n struct {
			Metadata networkMeta `json:"metadata"`
		}
		err := c.get(ctx, "/apis/k8s.cni.cncf.io/v1/namespaces/"+e.Namespace+"/network-attachment-definitions/"+e.Name, &n)
		switch {
		case err == nil:
			f.Networks[e.Namespace+"/"+e.Name] = n.Metadata.Annotations
		case apierrors.IsForbidden(err):
			f.Unread[e.Namespace+"/"+e.Name] = true
		case !apierrors.IsNotFound(err):
			return c.explainError("network-attachment-definitions", err)
		}
	}
	flags := PodNetworks{Global: netannotation.DefaultGlobal()}
	daemons := 0
	err := eachObject(ctx, c, "/api/v1/pods", map[string]string{"labelSelector": "app.kubernetes.io/name=" + daemonName}, func(p networkPod) {
		flags.addDaemon(p, daemons == 0)
		daemons++
	})
	if err != nil && !apierrors.IsForbidden(err) {
		return c.explainError("pods", err)
	}
	f.Isolation = netannotation.Isolation{On: flags.Isolated, Global: flags.Global}
	return nil
}

// explainMissingPod names the pod that is probably meant.
func (c *Cluster) explainMissingPod(ctx context.Context, namespace, name string) error {
	names := map[string]bool{}
	err := eachObject(ctx, c, "/api/v1/namespaces/"+namespace+"/pods", nil, func(p networkPod) { names[p.Metadata.Name] = true })
	if err != nil {
		return c.explainError("pods", err)
	}
	return fmt.Errorf("pod %s/%s: %w%s: kubectl -n %[1]s get pods lists those of the namespace", namespace, name, vf.ErrNotFound, suggest.DidYouMean(name, slices.Sorted(maps.Keys(names))))
}

// PodNames lists the pods of a namespace, for completion.
func (c *Cluster) PodNames(ctx context.Context, namespace string) (names []string, err error) {
	err = eachObject(ctx, c, "/api/v1/namespaces/"+namespace+"/pods", nil, func(p networkPod) { names = append(names, p.Metadata.Name) })
	return names, err
}

// get reads one object.
func (c *Cluster) get(ctx context.Context, path string, into any) error {
	answer := c.rest.Get().AbsPath(path).Do(ctx)
	if err := answer.Error(); err != nil { // Raw's error does not have the API server's message
		return err
	}
	raw, err := answer.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
