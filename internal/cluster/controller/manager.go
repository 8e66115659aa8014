package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/cluster/endpoints"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// Config has the values of the controller's flags.
type Config struct {
	Kube *rest.Config
	// Namespace has the Secret, the Service and the lease of the leader.
	Namespace string
	// Service is the name of the Service by which the API server calls webhooks. Secret is the
	// name of the Secret with their certificates. Webhooks is the name of both webhook
	// configurations; if it is empty, the controller serves no webhooks.
	Service, Secret, Webhooks string
	WebhookPort               int
	// Certificates is a folder with tls.crt and tls.key, which another program renews
	// (cert-manager). Empty: the controller keeps its own CA in Secret, and writes it into
	// the webhook configurations.
	Certificates string
	// ClientCA is a PEM file of the CAs of the API server's client certificate, which the
	// webhooks then require. If it is empty, they serve any client.
	ClientCA string
	// Metrics and Health are addresses to listen on; "0" turns them off.
	Metrics, Health string
	// DrainNodes is how many nodes are drained at a time for a change of the number of VFs; 0
	// drains none.
	DrainNodes int
	// LeaderElection lets one of several replicas work at a time.
	LeaderElection bool
	// Services says which Services are served over VF networks.
	Services endpoints.Rules
	// Isolation says which networks of other namespaces pods may use, the same as on the nodes.
	Isolation netannotation.Isolation
	// EveryPod has the networks that pods get without asking for them, the same as on the nodes.
	EveryPod netannotation.EveryPod
	// ResourceKeys are the annotations of networks that name resources which their pods need; nil
	// stands for DefaultResourceKeys.
	ResourceKeys []string
	// Now is the clock that measures how long a Node object has been gone; nil is time.Now. A
	// simulation sets it, so that it does not wait for blocks.Grace.
	Now func() time.Time
	Log *slog.Logger
}

// leaseName is the lease of the leader.
const leaseName = "culvert-controller"

// A leader that dies has a successor after leaseTime. The controller's work is not urgent, so a
// leader that a busy node slows down shall stay (docs/design/0007-kubernetes.md, "Times on a busy
// node").
const (
	leaseTime = 40 * time.Second
	renewTime = 30 * time.Second
	retryTime = 5 * time.Second
)

// Scheme returns the types of the objects that the controller reads and writes.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		_ = add(s) // fails only for types that are registered twice
	}
	return s
}

// Run serves until ctx ends.
func Run(ctx context.Context, c Config) error {
	ctrl.SetLogger(logr.FromSlogHandler(c.Log.Handler()))
	k := &keeper{
		secret: client.ObjectKey{Namespace: c.Namespace, Name: c.Secret}, mutating: c.Webhooks, validating: c.Webhooks,
		names: []string{c.Service + "." + c.Namespace + ".svc", c.Service + "." + c.Namespace + ".svc.cluster.local"},
		now:   time.Now, log: c.Log,
	}
	source, err := c.certificates(k)
	if err != nil {
		return err
	}
	if c.ClientCA != "" {
		if _, err := readCAs(c.ClientCA); err != nil {
			return err
		}
	}
	c.Kube = withRate(c.Kube)
	if c.Now == nil {
		c.Now = time.Now
	}
	mgr, err := ctrl.NewManager(c.Kube, c.options(source))
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	k.client = mgr.GetClient()
	definitions := &config.Definitions{}
	if err := addReconcilers(mgr, c, definitions); err != nil {
		return err
	}
	ready := healthz.Ping
	if c.Webhooks != "" {
		serveWebhooks(mgr, c, definitions)
		ready = func(*http.Request) error { _, err := source.GetCertificate(nil); return err }
		if err := mgr.Add(source); err != nil {
			return fmt.Errorf("certificates: %w", err)
		}
	}
	end, err := serveMetricsOf(mgr)
	if err != nil {
		return fmt.Errorf("metrics of the cluster: %w", err)
	}
	defer end()
	if err := mgr.AddReadyzCheck("certificates", ready); err != nil {
		return fmt.Errorf("readiness: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("health: %w", err)
	}
	return mgr.Start(ctx)
}

// withRate raises the rate of requests where the configuration has none: client-go's default of
// 5 a second would take minutes for the EndpointSlices of 1,000 Services. The API server's
// priority and fairness protects it.
func withRate(c *rest.Config) *rest.Config {
	out := rest.CopyConfig(c)
	if out.QPS == 0 {
		out.QPS, out.Burst = 200, 400
	}
	return out
}

// options returns the manager's options. source has the certificate to serve with.
func (c Config) options(source certificateSource) ctrl.Options {
	leave, twice := 5*time.Second, true
	lease, renew, retry := leaseTime, renewTime, retryTime
	o := ctrl.Options{
		Scheme: Scheme(), HealthProbeBindAddress: c.Health,
		LeaderElection: c.LeaderElection, LeaderElectionID: leaseName, LeaderElectionNamespace: c.Namespace, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry,
		GracefulShutdownTimeout: &leave,
		Cache:                   cache.Options{ByObject: cacheForServices()},
		Controller:              ctrlconfig.Controller{SkipNameValidation: &twice}, // Run may be called twice in a process
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
			&corev1.Secret{}, &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{},
		}}},
	}
	c.serve(&o, source)
	return o
}

// Failed requests are tried again after firstRetry, and then after twice the time, up to lastRetry.
const firstRetry, lastRetry = 5 * time.Millisecond, 30 * time.Second

// newController begins a controller with a number of workers.
func newController(mgr ctrl.Manager, name string, workers int) *ctrl.Builder {
	return ctrl.NewControllerManagedBy(mgr).Named(name).WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: newRetries()})
}

// newRetries returns the delays of retries. controller-runtime's own grow to 17 minutes, and the
// failures of all requests share ten tries a second: those of one tenant would delay the others'
// (I7, TestRetries).
func newRetries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
}

func addReconcilers(mgr ctrl.Manager, config Config, definitions *config.Definitions) error {
	c := mgr.GetClient()
	foreign := &foreignAddresses{live: mgr.GetAPIReader(), everyPod: config.EveryPod, now: time.Now, definitions: definitions}
	addresses := &Addresses{Client: c, Live: mgr.GetAPIReader(), Foreign: foreign.ofPool, Definitions: definitions, Now: config.Now, Log: config.Log, Events: mgr.GetEventRecorderFor("culvert")}
	err := newController(mgr, "addresses", 4).
		Watches(&v1alpha1.NodeState{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return named(networksOf(o.(*v1alpha1.NodeState))) //nolint:forcetypeassert // what is watched
		}), builder.WithPredicates(changed(func(s *v1alpha1.NodeState) any { return s.Status.AddressRequests }))).
		Watches(&v1alpha1.AddressPool{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return poolsToCompare(ctx, c, o.(*v1alpha1.AddressPool)) //nolint:forcetypeassert // what is watched
		})).
		WatchesMetadata(node(), handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return poolsOf(ctx, c, o.GetName())
		}), builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})).
		Complete(addresses)
	if err != nil {
		return fmt.Errorf("addresses: %w", err)
	}
	self := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request { return named([]string{o.GetName()}) })
	err = newController(mgr, "states", 1).
		Watches(&v1alpha1.NodeState{}, self, builder.WithPredicates(changed(func(s *v1alpha1.NodeState) any { return s.Status.NodeUID }))).
		WatchesMetadata(node(), self, builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})).
		Complete(&States{Client: c, Live: mgr.GetAPIReader(), Now: config.Now})
	if err != nil {
		return fmt.Errorf("states: %w", err)
	}
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request { return everyPolicy(ctx, c) })
	err = newController(mgr, "policies", 1).
		For(&v1alpha1.NodePolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.NodeState{}, all, builder.WithPredicates(changed(toldOfPolicies))).
		WatchesMetadata(node(), all, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Complete(&Policies{Client: c, Now: time.Now})
	if err != nil {
		return fmt.Errorf("policies: %w", err)
	}
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return named([]string{"all"}) })
	err = newController(mgr, "drain", 1).
		Watches(&v1alpha1.NodeState{}, one, builder.WithPredicates(changed(func(s *v1alpha1.NodeState) any { return fmt.Sprint(changes(s)) }))).
		WatchesMetadata(node(), one, builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return isDrainForgotten(e.ObjectOld, e.ObjectNew) }})).
		Complete(&Drain{
			Client: c, Live: mgr.GetAPIReader(), Nodes: config.DrainNodes, Now: time.Now, Events: mgr.GetEventRecorderFor("culvert"),
		})
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	s := newServices(c, mgr.GetAPIReader(), config.Services, mgr.GetEventRecorderFor("culvert"), time.Now)
	s.Isolation = config.Isolation
	return s.setUp(mgr)
}

func serveWebhooks(mgr ctrl.Manager, config Config, definitions *config.Definitions) {
	c := mgr.GetClient()
	s := mgr.GetWebhookServer()
	for path, h := range map[string]admission.Handler{
		"/pods":         &pods{client: c, live: mgr.GetAPIReader(), isolation: config.Isolation, everyPod: config.EveryPod, resourceKeys: config.ResourceKeys, log: config.Log, links: links{definitions: definitions}},
		"/services":     &serviceWebhook{client: c, rules: config.Services},
		"/networks":     &networks{client: c},
		"/addresspools": &addressPools{client: c},
		"/claims":       claims{},
		"/nodepolicies": &nodePolicies{client: c},
	} {
		s.Register(path, oneCallEach{&admission.Webhook{Handler: h}})
	}
}

// oneCallEach is a webhook that closes the connection after each call. Otherwise both the API
// server and the webhook server close an idle connection after 90 s, and the API server may send a
// call over a closing connection. The API server does not repeat that call (a POST), and as
// webhooks may be away (failurePolicy Ignore), it makes the pod without its resources.
type oneCallEach struct{ *admission.Webhook }

func (o oneCallEach) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	o.Webhook.ServeHTTP(w, r)
}

func node() *metav1.PartialObjectMetadata {
	n := &metav1.PartialObjectMetadata{}
	n.SetGroupVersionKind(nodeKind)
	return n
}

// changed lets only those updates of NodeStates through that change the given part, since nodes
// write the other parts every few seconds.
func changed(part func(*v1alpha1.NodeState) any) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*v1alpha1.NodeState)
		after, ok2 := e.ObjectNew.(*v1alpha1.NodeState)
		return !ok1 || !ok2 || !equality.Semantic.DeepEqual(part(before), part(after))
	}}
}

func named(names []string) []reconcile.Request {
	out := make([]reconcile.Request, 0, len(names))
	for _, n := range names {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: n}})
	}
	return out
}

// poolsOf returns the networks whose pools have blocks of a node, and the networks that the node
// requests addresses of.
func poolsOf(ctx context.Context, c client.Reader, node string) []reconcile.Request {
	var networks []string
	state := &v1alpha1.NodeState{}
	if c.Get(ctx, client.ObjectKey{Name: node}, state) == nil {
		networks = networksOf(state)
	}
	var pools v1alpha1.AddressPoolList
	if err := c.List(ctx, &pools); err != nil {
		return named(networks) // the cache is not filled yet; when it is, each pool causes a Reconcile
	}
	for _, p := range pools.Items {
		for _, b := range p.Spec.Blocks {
			if b.Node == node {
				networks = append(networks, p.PoolID())
				break
			}
		}
	}
	return named(networks)
}

func everyPolicy(ctx context.Context, c client.Reader) []reconcile.Request {
	var policies v1alpha1.NodePolicyList
	if err := c.List(ctx, &policies); err != nil {
		return nil // as in poolsOf
	}
	var names []string
	for _, p := range policies.Items {
		names = append(names, p.Name)
	}
	return named(names)
}
