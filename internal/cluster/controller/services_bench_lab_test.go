//go:build lab

package controller

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/test/apiserver"
)

var benchServices = flag.Int("services", 1000, "how many Services BenchmarkServices has, with 10 endpoints each")

const (
	perService  = 10
	podsPerNode = 100
	updates     = 50
)

// BenchmarkServices starts the controller on a real API server that has 1,000 Services with 10 pods
// each and no EndpointSlice of Culvert's. It reports the time until all slices are there, the
// growth of the heap, and the time from one pod's change of readiness to the slice that a watcher
// gets.
func BenchmarkServices(b *testing.B) {
	s := apiserver.New(b)
	s.CRDs()
	c, err := client.NewWithWatch(s.Config(), client.Options{Scheme: Scheme()})
	if err != nil {
		b.Fatal(err)
	}
	fillCluster(b, c)
	for b.Loop() {
		before := heap()
		ctx, cancel := context.WithCancel(b.Context())
		var g errgroup.Group
		start := time.Now()
		g.Go(func() error {
			return Run(ctx, Config{Kube: s.Config(), Namespace: "default", Metrics: "0", Health: "0", Log: slog.New(slog.DiscardHandler)})
		})
		for countEndpoints(b, c) < *benchServices*perService {
			time.Sleep(100 * time.Millisecond)
		}
		b.ReportMetric(time.Since(start).Seconds(), "full-sync-s")
		b.ReportMetric(float64(heap()-before)/(1<<20), "heap-MiB")
		b.ReportMetric(medianUpdate(b, c).Seconds()*1e3, "update-p50-ms")
		cancel()
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}

// fillCluster makes nodes, their NodeStates, Services and their pods. The pods are published
// before they are ready: making one is then one write.
func fillCluster(b *testing.B, c client.Client) {
	b.Helper()
	ctx, create := b.Context(), errgroup.Group{}
	create.SetLimit(32)
	add := func(o client.Object) { create.Go(func() error { return c.Create(ctx, o) }) }
	for i := range *benchServices {
		add(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("s", i), Annotations: map[string]string{service.NetworkAnnotation: "net1"}},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": fmt.Sprint("s", i)}, PublishNotReadyAddresses: true,
				Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt(8080)}}},
		})
	}
	for n := range (*benchServices*perService + podsPerNode - 1) / podsPerNode {
		state := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", n)}}
		for i := range podsPerNode {
			at := n*podsPerNode + i
			p, v := backend(fmt.Sprint("p", at), state.Name, fmt.Sprintf("10.%d.%d.%d", at>>16, at>>8&255, at&255))
			v.PCI = fmt.Sprintf("0000:%02x:00.0", i)
			p.UID, p.Labels, p.Spec.Containers[0].Image = "", map[string]string{"app": fmt.Sprint("s", at%*benchServices)}, "i"
			add(p)
			state.Status.VFs = append(state.Status.VFs, v)
		}
		add(newNode(state.Name, map[string]string{corev1.LabelTopologyZone: fmt.Sprint("z", n%3)}))
		add(state)
	}
	if err := create.Wait(); err != nil {
		b.Fatal(err)
	}
}

func countEndpoints(b *testing.B, c client.Client) (count int) {
	b.Helper()
	var all discoveryv1.EndpointSliceList
	if err := c.List(b.Context(), &all, client.MatchingLabels{discoveryv1.LabelManagedBy: service.ManagedBy}); err != nil {
		b.Fatal(err)
	}
	for _, s := range all.Items {
		count += len(s.Endpoints)
	}
	return count
}

// medianUpdate makes pods ready, one after the other, and waits for each one's endpoint.
func medianUpdate(b *testing.B, c client.WithWatch) time.Duration {
	b.Helper()
	w, err := c.Watch(b.Context(), &discoveryv1.EndpointSliceList{}, client.MatchingLabels{discoveryv1.LabelManagedBy: service.ManagedBy})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	var took []time.Duration
	for i := range updates {
		name := fmt.Sprint("p", i*7)
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		start := time.Now()
		if err := c.Status().Patch(b.Context(), p, client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`))); err != nil {
			b.Fatal(err)
		}
		awaitServing(b, w, name)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

func awaitServing(b *testing.B, w watch.Interface, pod string) {
	b.Helper()
	for e := range w.ResultChan() {
		s, is := e.Object.(*discoveryv1.EndpointSlice)
		if is && slices.ContainsFunc(s.Endpoints, func(p discoveryv1.Endpoint) bool { return p.TargetRef.Name == pod && *p.Conditions.Serving }) {
			return
		}
	}
	b.Fatal("the watch of EndpointSlices ended")
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
