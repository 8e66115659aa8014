package kube

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/internal/node/service/table"
)

// Names of the Kubernetes API (k8s.io/api core/v1 and discovery/v1, which would double the
// size of culvertd's types).
const (
	labelManagedBy   = "endpointslice.kubernetes.io/managed-by"
	labelServiceName = "kubernetes.io/service-name"
	labelZone        = "topology.kubernetes.io/zone"
	headless         = "None"
	policyLocal      = "Local"
	affinityClientIP = "ClientIP"
	// defaultAffinity is core/v1's DefaultClientIPServiceAffinitySeconds.
	defaultAffinity = 10800
)

// services are the cluster's Services with a ClusterIP that isServed keeps, and the EndpointSlices that
// Culvert's controller makes (docs/design/0021-services.md).
type services struct {
	all, slices cache.SharedIndexInformer
	changed     change.Wake
}

// FollowServices makes Run follow Services and Culvert's EndpointSlices. Call it before Run.
// Pods are served without them.
func (c *Client) FollowServices() error {
	discovery, err := c.groupClient(discoveryV1)
	if err != nil {
		return err
	}
	s := services{changed: change.NewWake()}
	pods := len(c.informer)
	withIP := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.clusterIP", headless).String()
	}
	s.all = c.newInformerOf(listLean(c.core, "services", withIP, (*clusterService).isServed, c.stripService), "services", &clusterService{}, c.stripService)
	ours := func(o *metav1.ListOptions) {
		o.LabelSelector = labels.Set{labelManagedBy: service.ManagedBy}.String()
	}
	s.slices = c.newInformerOf(listLean[endpointSlice](discovery, "endpointslices", ours, nil, c.stripService), "endpointslices", &endpointSlice{}, c.stripService)
	c.others, c.informer = append(c.others, c.informer[pods:]...), c.informer[:pods:pods]
	for _, i := range []cache.SharedIndexInformer{s.all, s.slices, c.pods, c.objects.self} {
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { s.changed.Notify() }, UpdateFunc: func(_, _ any) { s.changed.Notify() }, DeleteFunc: func(any) { s.changed.Notify() },
		})
		if err != nil {
			return fmt.Errorf("watch Services: %w", err)
		}
	}
	c.services = s
	return nil
}

// ServicesChanged returns a channel that has a value when the result of Services, or the pods of
// the node, may have changed.
func (c *Client) ServicesChanged() <-chan struct{} { return c.services.changed }

// Services returns the Services, also those that are not served over VF networks, Culvert's
// EndpointSlices, and the node. known is false until the API server has listed all of them. That
// includes the node's pods: beside another meta plugin their network-status says which networks a
// pod has, and a culvertd that starts must not take a running pod for one without networks.
func (c *Client) Services() (in table.Input, known bool) {
	if c.services.all == nil || !c.services.all.HasSynced() || !c.services.slices.HasSynced() || !c.objects.self.HasSynced() || !c.pods.HasSynced() {
		return in, false
	}
	in.Node.Name = c.node
	for _, v := range c.objects.self.GetStore().List() {
		if n, ok := v.(*clusterNode); ok {
			in.Node.Zone = n.Labels[labelZone]
		}
	}
	served := map[string]bool{}
	for _, v := range c.services.slices.GetStore().List() {
		if s, ok := v.(*endpointSlice); ok && s.parsed != nil {
			in.Slices = append(in.Slices, s.parsed)
			served[s.parsed.Service] = true
		}
	}
	for _, v := range c.services.all.GetStore().List() {
		if s, ok := v.(*clusterService); ok && served[s.parsed.Name] {
			in.Services = append(in.Services, s.parsed)
		}
	}
	return in, true
}

// WhyNoServices returns the API server's error if Services, EndpointSlices or pods cannot be read.
// It returns nil if they can, and while the API server has not answered.
func (c *Client) WhyNoServices() error {
	for resource, i := range map[string]cache.SharedIndexInformer{"services": c.services.all, "endpointslices": c.services.slices, "pods": c.pods} {
		if failed, ok := c.failed.Load(resource); ok && i != nil && !i.HasSynced() {
			err, _ := failed.(error)
			return fmt.Errorf("list %s: %w", resource, err)
		}
	}
	return nil
}

// clusterService is the part of a core/v1 Service that is read; stripService parses and drops
// it.
type clusterService struct {
	object `json:",inline"`
	Spec   *serviceSpec `json:"spec,omitempty"`
	parsed *table.Service
}

type serviceSpec struct {
	ClusterIPs            []string          `json:"clusterIPs"`
	Selector              map[string]string `json:"selector"`
	Ports                 []servicePort     `json:"ports"`
	SessionAffinity       string            `json:"sessionAffinity"`
	SessionAffinityConfig struct {
		ClientIP struct {
			TimeoutSeconds *int32 `json:"timeoutSeconds"`
		} `json:"clientIP"`
	} `json:"sessionAffinityConfig"`
	InternalTrafficPolicy string `json:"internalTrafficPolicy"`
}

// isServed reports whether the Service may be served over a network of VFs. Its owner names the network,
// or the controller chose a default one. Then the selector has Culvert's key, or the owner asks for the
// fallback. Culvert's controller makes EndpointSlices for no other Service.
func (s *clusterService) isServed() bool {
	return s.Annotations[service.NetworkAnnotation] != "" || s.Annotations[service.FallbackAnnotation] != "" ||
		s.Spec != nil && s.Spec.Selector[service.SelectorKey] != ""
}

// servicePort is a port of a Service or of an EndpointSlice.
type servicePort struct {
	Name     string `json:"name"`
	Port     int32  `json:"port"`
	Protocol string `json:"protocol"`
}

// endpointSlice is the part of a discovery/v1 EndpointSlice that is read; stripService parses
// and drops it.
type endpointSlice struct {
	object    `json:",inline"`
	Ports     []servicePort   `json:"ports,omitempty"`
	Endpoints []sliceEndpoint `json:"endpoints,omitempty"`
	parsed    *table.Slice
}

type sliceEndpoint struct {
	Addresses  []string `json:"addresses"`
	Conditions struct {
		Ready       *bool `json:"ready"`
		Serving     *bool `json:"serving"`
		Terminating *bool `json:"terminating"`
	} `json:"conditions"`
	NodeName string `json:"nodeName"`
	Hints    struct {
		ForZones []named `json:"forZones"`
		ForNodes []named `json:"forNodes"`
	} `json:"hints"`
}

type named struct {
	Name string `json:"name"`
}

// stripService strips Services and EndpointSlices as stripObject does other objects.
func (c *Client) stripService(v any) (any, error) {
	switch o := v.(type) {
	case *clusterService:
		if o.parsed == nil {
			o.parsed = o.parseService()
		}
		o.object, o.Spec = leanObject(o.object), nil
		o.Annotations = nil
	case *endpointSlice:
		if o.parsed == nil {
			o.parsed = o.parseSlice(c.node)
		}
		o.object, o.Ports, o.Endpoints = leanObject(o.object), nil, nil
		o.Annotations = nil
	}
	return v, nil
}

// parseService leaves out texts that are no address, and ports with another protocol than Services
// have.
func (s *clusterService) parseService() *table.Service {
	out := &table.Service{Name: s.Namespace + "/" + s.Name, Fallback: s.Annotations[service.FallbackAnnotation] == service.FallbackDefault}
	if s.Spec == nil {
		return out
	}
	for _, text := range s.Spec.ClusterIPs {
		if addr, err := netip.ParseAddr(text); err == nil {
			out.ClusterIPs = append(out.ClusterIPs, addr)
		}
	}
	for _, p := range s.Spec.Ports {
		if port, ok := portOf(p.Name, p.Port, p.Protocol); ok {
			out.Ports = append(out.Ports, port)
		}
	}
	out.Local = s.Spec.InternalTrafficPolicy == policyLocal
	if s.Spec.SessionAffinity == affinityClientIP {
		timeout := valueOr(s.Spec.SessionAffinityConfig.ClientIP.TimeoutSeconds, defaultAffinity)
		out.Affinity = time.Duration(max(timeout, 0)) * time.Second
	}
	return out
}

// parseSlice returns nil for a slice that names no Service or network. It also does for one that is
// being deleted: the controller has given it up, and a finalizer may keep it for ever. A condition that
// is not set has the meaning that kube-proxy gives it.
func (s *endpointSlice) parseSlice(node string) *table.Slice {
	network, err := service.ParseLabel(s.Labels[service.NetworkLabel])
	of := s.Labels[labelServiceName]
	if err != nil || of == "" || s.DeletionTimestamp != nil {
		return nil
	}
	out := &table.Slice{Name: s.Namespace + "/" + s.Name, Service: s.Namespace + "/" + of, Network: network}
	for _, p := range s.Ports {
		if port, ok := portOf(p.Name, p.Port, p.Protocol); ok {
			out.Ports = append(out.Ports, port)
		}
	}
	for _, e := range s.Endpoints {
		if len(e.Addresses) == 0 {
			continue
		}
		addr, err := netip.ParseAddr(e.Addresses[0]) // of several only the first counts, as kube-proxy has it
		if err != nil {
			continue
		}
		one := table.Endpoint{
			Addr: addr.Unmap(), Here: e.NodeName == node,
			Ready: valueOr(e.Conditions.Ready, true), Serving: valueOr(e.Conditions.Serving, true), Terminating: valueOr(e.Conditions.Terminating, false),
		}
		for _, z := range e.Hints.ForZones {
			one.Zones = append(one.Zones, z.Name)
		}
		for _, n := range e.Hints.ForNodes {
			one.Nodes = append(one.Nodes, n.Name)
		}
		out.Endpoints = append(out.Endpoints, one)
	}
	return out
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func portOf(name string, number int32, protocol string) (table.Port, bool) {
	p, ok := map[string]balance.Protocol{"": balance.TCP, "TCP": balance.TCP, "UDP": balance.UDP, "SCTP": balance.SCTP}[protocol]
	return table.Port{Name: name, Number: uint16(number), Protocol: p}, ok && number > 0 && number < 1<<16
}

// DeepCopyObject is for runtime.Object. The parsed fields are never changed.
func (s *clusterService) DeepCopyObject() runtime.Object {
	return &clusterService{s.copyMeta(), s.Spec, s.parsed}
}

// DeepCopyObject is for runtime.Object. The parsed fields are never changed.
func (s *endpointSlice) DeepCopyObject() runtime.Object {
	return &endpointSlice{s.copyMeta(), s.Ports, s.Endpoints, s.parsed}
}

// leanList is a list whose objects were stripped one by one.
type leanList[T any] list[T]

// DeepCopyObject is for runtime.Object.
func (l *leanList[T]) DeepCopyObject() runtime.Object {
	return &leanList[T]{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: slices.Clone(l.Items)}
}

// listLean lists and watches the objects of all namespaces that narrow leaves and that keep accepts (nil:
// all), and strips each before the next is read.
func listLean[T any](from rest.Interface, resource string, narrow func(*metav1.ListOptions), keep func(*T) bool, strip cache.TransformFunc) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			narrow(&options)
			out := &leanList[T]{}
			var err error
			out.ListMeta, err = listEach(ctx, listRequest(from, resource, options), func(o *T) {
				if keep != nil && !keep(o) {
					return
				}
				_, _ = strip(o) // never fails
				out.Items = append(out.Items, *o)
			})
			return out, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			narrow(&options)
			w, err := watchAll(ctx, from, resource, options)
			if err != nil || keep == nil {
				return w, err
			}
			return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
				if o, ok := any(e.Object).(*T); ok && e.Type != watch.Bookmark && !keep(o) {
					e.Type = watch.Deleted // the cache ignores it if it does not have the object
				}
				return e, true
			}), nil
		},
	}
}
