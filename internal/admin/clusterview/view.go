// Package clusterview reads a cluster for a person: a kubeconfig goes in, and Culvert's objects come out
// as they are at the moment. The CLI calls it, and package status makes one picture of these
// objects. It reads lists and watches nothing.
package clusterview

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// Cluster is a connection to a cluster.
type Cluster struct {
	// Name is the name in the kubeconfig.
	Name string
	// Namespace is the one that the kubeconfig's context names, or default.
	Namespace string
	rest      rest.Interface
}

// Open reads a kubeconfig: the named file, or else those that kubectl would read, or else a pod's
// service account. An empty context stands for the kubeconfig's current one. Open sends no request.
// userAgent appears in the API server's logs.
func Open(file, kubeContext, userAgent string) (*Cluster, error) {
	config, loader, err := readConfig(file, kubeContext)
	if err != nil {
		return nil, err
	}
	config.UserAgent = userAgent
	c, err := newCluster(config)
	if err != nil {
		return nil, err
	}
	c.Name = clusterName(loader, kubeContext, config.Host)
	if c.Namespace, _, err = loader.Namespace(); err != nil {
		return nil, fmt.Errorf("read the namespace of kubeconfig's context: %w", err)
	}
	return c, nil
}

// clusterName returns a kubeconfig's name for the cluster of a context; a pod's own cluster
// has no name but its address.
func clusterName(loader clientcmd.ClientConfig, kubeContext, host string) string {
	raw, err := loader.RawConfig()
	if err != nil {
		return host
	}
	if kubeContext == "" {
		kubeContext = raw.CurrentContext
	}
	if c := raw.Contexts[kubeContext]; c != nil && c.Cluster != "" {
		return c.Cluster
	}
	return host
}

func newCluster(config *rest.Config) (*Cluster, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // for the API server's error objects
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &schema.GroupVersion{Version: "v1"}, "/api"
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	return &Cluster{Name: config.Host, rest: client}, nil
}

// Contexts returns the contexts of the kubeconfig, for completion; none when it cannot be
// read.
func Contexts(file string) []string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath, rules.WarnIfAllMissing = file, false
	raw, err := rules.Load()
	if err != nil {
		return nil
	}
	var names []string
	for n := range raw.Contexts {
		names = append(names, n)
	}
	return names
}

// group is the path of Culvert's objects.
const group = "/apis/culvert.dev/v1alpha1/"

// Objects has Culvert's objects of a cluster.
type Objects struct {
	States   []v1alpha1.NodeState
	Policies []v1alpha1.NodePolicy
	Pools    []v1alpha1.AddressPool
	// Daemons are the pods of culvertd; none when the caller may not list pods.
	Daemons []api.DaemonPod
}

// Read lists Culvert's objects. If node is not empty, it lists only the NodeState of that node and
// the pods of culvertd.
//
// Errors: vf.ErrNotFound when Culvert is not installed, or when the node has no NodeState; other
// errors say what to do.
func (c *Cluster) Read(ctx context.Context, node string) (Objects, error) {
	var out Objects
	var err error
	which := map[string]string{}
	if node != "" {
		which["fieldSelector"] = "metadata.name=" + node
	}
	if out.States, err = listObjects[v1alpha1.NodeState](ctx, c, group+"nodestates", which); err != nil {
		return Objects{}, c.explainError("nodestates.culvert.dev", err)
	}
	if node != "" && len(out.States) == 0 {
		return Objects{}, fmt.Errorf("node %s: %w: there is no NodeState of that name in cluster %s: status without --node lists the nodes", node, vf.ErrNotFound, c.Name)
	}
	if node != "" {
		out.Daemons, err = c.listDaemons(ctx)
		return out, err
	}
	shared, err := c.ReadShared(ctx)
	if err != nil {
		return Objects{}, err
	}
	shared.States = out.States
	return shared, nil
}

// ReadShared lists Culvert's objects that belong to no single node, and the pods of culvertd. Errors
// are as for Read.
func (c *Cluster) ReadShared(ctx context.Context) (out Objects, err error) {
	if out.Daemons, err = c.listDaemons(ctx); err != nil {
		return Objects{}, err
	}
	if out.Policies, err = listObjects[v1alpha1.NodePolicy](ctx, c, group+"nodepolicies", nil); err != nil {
		return Objects{}, c.explainError("nodepolicies.culvert.dev", err)
	}
	if out.Pools, err = listObjects[v1alpha1.AddressPool](ctx, c, group+"addresspools", nil); err != nil {
		return Objects{}, c.explainError("addresspools.culvert.dev", err)
	}
	return out, nil
}

// page is how many objects are asked for at once: a NodeState may have hundreds
// of VFs.
const page = "100"

func listObjects[T any](ctx context.Context, c *Cluster, path string, params map[string]string) ([]T, error) {
	var all []T
	err := eachObject(ctx, c, path, params, func(o T) { all = append(all, o) })
	return all, err
}

// eachObject calls visit with one object after the other, so that only a page of them is in
// memory.
func eachObject[T any](ctx context.Context, c *Cluster, path string, params map[string]string, visit func(T)) error {
	_, err := eachWithVersion(ctx, c, path, params, visit)
	return err
}

// eachWithVersion is eachObject, and returns the version of the list, from which a watch goes on.
func eachWithVersion[T any](ctx context.Context, c *Cluster, path string, params map[string]string, visit func(T)) (version string, err error) {
	for next := ""; ; {
		req := c.rest.Get().AbsPath(path).Param("limit", page)
		if next != "" {
			req.Param("continue", next)
		}
		for k, v := range params {
			req.Param(k, v)
		}
		answer := req.Do(ctx)
		if err := answer.Error(); err != nil { // Raw's error does not have the API server's message
			return "", err
		}
		raw, err := answer.Raw()
		if err != nil {
			return "", err
		}
		var got struct {
			metav1.ListMeta `json:"metadata"`
			Items           []T `json:"items"`
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		for _, o := range got.Items {
			visit(o)
		}
		if next = got.Continue; next == "" {
			return got.ResourceVersion, nil
		}
	}
}

// grantOf returns the command that gives a user the right to list a resource in all namespaces.
func grantOf(resource string) string {
	switch resource {
	case "nodes": // view has no objects of the cluster itself
		return "kubectl create clusterrole list-nodes --verb=get,list,watch --resource=nodes && kubectl create clusterrolebinding NAME --clusterrole=list-nodes --user=USER"
	case "events", "pods":
		return "kubectl create clusterrolebinding NAME --clusterrole=view --user=USER"
	}
	return "kubectl create clusterrolebinding NAME --clusterrole=culvert-view --user=USER"
}

// explainError says what to do about an error of the API server.
func (c *Cluster) explainError(resource string, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("list %s in cluster %s: %w: Culvert is not installed there: kubectl apply --server-side -f culvert.yaml (docs/kubernetes.md)", resource, c.Name, vf.ErrNotFound)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("list %s in cluster %s: %w: an administrator gives the right: %s", resource, c.Name, err, grantOf(resource))
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("cluster %s does not accept the credentials of the kubeconfig: %w: log in again or renew them, until kubectl get nodes works", c.Name, err)
	}
	if next := explainConnection(err); next != "" {
		return fmt.Errorf("list %s in cluster %s: %w: %s", resource, c.Name, err, next)
	}
	return fmt.Errorf("list %s in cluster %s: %w: does kubectl get %[1]s work?", resource, c.Name, err)
}
