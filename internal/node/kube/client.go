package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// maxReads bounds how many objects are read at once: tenants write objects of some MB.
const maxReads = 2

// callBound is how long one call to the API server may take; watches have no
// bound.
const callBound = 10 * time.Second

// Client is a node's connection to its cluster. Its methods may be called
// concurrently, before Run too.
type Client struct {
	node   string
	log    *slog.Logger
	pause  time.Duration // refusedWait
	reads  chan struct{} // a place for each read of one object
	config *rest.Config
	scheme *runtime.Scheme
	core   rest.Interface
	nets   rest.Interface // of networkV1
	// resources is of resourceV1.
	resources rest.Interface
	pods      cache.SharedIndexInformer
	networks  cache.SharedIndexInformer
	writer    *writer
	objects   objects
	services  services // empty until FollowServices
	own       ownSet
	informer  []cache.SharedIndexInformer // those that pods need
	others    []cache.SharedIndexInformer
	failed    sync.Map // the last error of a watch, by resource

	confirmed atomic.Int64 // when Annotate had a Confirmation, in Unix nanoseconds
	state     writtenState
}

// Config reads a kubeconfig file; an empty path means that culvertd runs in a pod,
// and uses its service account.
func Config(path string) (*rest.Config, error) {
	if path == "" {
		c, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("connect to the cluster that this pod is in: %w: outside a pod name a file with --kubeconfig", err)
		}
		return c, nil
	}
	c, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, errors.New("--kubeconfig " + excerpt.Kubeconfig(path, err))
	}
	return c, nil
}

// New makes a client for the node of that name. It sends no request until Run, or until a
// caller asks.
func New(config *rest.Config, node string, log *slog.Logger) (*Client, error) {
	if node == "" {
		return nil, errors.New("the node's name in the cluster is not known: set --node-name")
	}
	c := &Client{node: node, log: log, pause: refusedWait, config: rest.CopyConfig(config), scheme: newScheme(), reads: make(chan struct{}, maxReads)}
	c.config.QPS, c.config.Burst = 20, 40
	var err error
	if c.core, err = c.groupClient(coreV1); err != nil {
		return nil, err
	}
	if c.nets, err = c.groupClient(networkV1); err != nil {
		return nil, err
	}
	if c.resources, err = c.groupClient(resourceV1); err != nil {
		return nil, err
	}
	c.pods = c.newInformerOf(c.podsOf(node), "pods", &pod{}, stripObject)
	c.networks = c.newInformerOf(c.keptNetworks(), definitions, &network{}, stripObject)
	if err := c.watchObjects(); err != nil {
		return nil, err
	}
	c.writer = newWriter(c)
	return c, nil
}

// groupClient returns a client for one group and version, whose types are in c.scheme.
func (c *Client) groupClient(gv schema.GroupVersion) (rest.Interface, error) {
	config := rest.CopyConfig(c.config)
	config.GroupVersion, config.APIPath = &gv, "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(c.scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", gv, err)
	}
	return client, nil
}

// newInformer makes an informer over a resource in a namespace, or in all of them,
// which Run starts.
func (c *Client) newInformer(from cache.Getter, resource, namespace string, which fields.Selector, example runtime.Object, strip cache.TransformFunc) cache.SharedIndexInformer {
	return c.newInformerOf(cache.NewListWatchFromClient(from, resource, namespace, which), resource, example, strip)
}

// newInformerOf watches the objects of a ListerWatcher.
func (c *Client) newInformerOf(from cache.ListerWatcher, resource string, example runtime.Object, strip cache.TransformFunc) cache.SharedIndexInformer {
	i := cache.NewSharedIndexInformerWithOptions(from, example, cache.SharedIndexInformerOptions{ObjectDescription: resource})
	// Neither fails before the informer is started.
	_ = i.SetTransform(strip)
	_ = i.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if ctx.Err() == nil {
			c.failed.Store(resource, err)
			c.log.Warn("watch", "resource", resource, "err", err)
		}
	})
	c.informer = append(c.informer, i)
	return i
}

// Run runs the informers and makes the queued writes, until ctx ends.
func (c *Client) Run(ctx context.Context) error {
	var g errgroup.Group
	for _, i := range slices.Concat(c.informer, c.others) {
		g.Go(func() error { i.RunWithContext(ctx); return nil })
	}
	for _, i := range append(slices.Clone(c.others), c.pods) {
		g.Go(func() error { c.wakeWhenSynced(ctx, i); return nil })
	}
	g.Go(func() error { c.writer.runWriters(ctx); return nil })
	return g.Wait()
}

// Synced reports whether the informers have listed all objects once.
func (c *Client) Synced() bool {
	for _, i := range c.informer {
		if !i.HasSynced() {
			return false
		}
	}
	return true
}

// WaitForSync waits until the informers have listed all objects once. It returns false if ctx ended
// first.
func (c *Client) WaitForSync(ctx context.Context) bool {
	var synced []cache.InformerSynced
	for _, i := range c.informer {
		synced = append(synced, i.HasSynced)
	}
	return cache.WaitForCacheSync(ctx.Done(), synced...)
}
