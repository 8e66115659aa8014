package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/discovery/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writeTime bounds one write of an EndpointSlice: k8s.io/endpointslice passes no context.
const writeTime = 30 * time.Second

// sliceWriter is the part of a clientset that k8s.io/endpointslice uses, over the
// controller's own client. Every other method panics.
type sliceWriter struct {
	kubernetes.Interface
	c client.Client
}

// DiscoveryV1 returns the only API group that is used.
func (w sliceWriter) DiscoveryV1() typed.DiscoveryV1Interface { return sliceGroup{c: w.c} }

type sliceGroup struct {
	typed.DiscoveryV1Interface
	c client.Client
}

// EndpointSlices returns the slices of a namespace.
func (g sliceGroup) EndpointSlices(namespace string) typed.EndpointSliceInterface {
	return slicesIn{c: g.c, namespace: namespace}
}

type slicesIn struct {
	typed.EndpointSliceInterface
	c         client.Client
	namespace string
}

// Create makes a slice and returns it as the API server has it.
func (s slicesIn) Create(ctx context.Context, e *discoveryv1.EndpointSlice, _ metav1.CreateOptions) (*discoveryv1.EndpointSlice, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	made := e.DeepCopy()
	return made, s.c.Create(ctx, made)
}

// Update writes a slice and returns it as the API server has it.
func (s slicesIn) Update(ctx context.Context, e *discoveryv1.EndpointSlice, _ metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	made := e.DeepCopy()
	return made, s.c.Update(ctx, made)
}

// Delete deletes a slice.
func (s slicesIn) Delete(ctx context.Context, name string, _ metav1.DeleteOptions) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	return s.c.Delete(ctx, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}})
}

// nodeLister lists nodes by their metadata, which is all that the controller keeps of them.
type nodeLister struct {
	listers.NodeLister
	c client.Reader
}

// Get returns a node with its metadata.
func (l nodeLister) Get(name string) (*corev1.Node, error) {
	n := node()
	if err := l.c.Get(context.Background(), client.ObjectKey{Name: name}, n); err != nil { // from the cache
		return nil, err
	}
	return &corev1.Node{ObjectMeta: n.ObjectMeta}, nil
}

// List is not used while topologies are not cached.
func (l nodeLister) List(labels.Selector) ([]*corev1.Node, error) { return nil, nil }
