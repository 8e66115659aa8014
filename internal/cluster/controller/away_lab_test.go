//go:build lab

package controller

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/internal/node/service/agent"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/apiserver"
	"github.com/culvert-net/culvert/test/soak"
)

// nodeHalf is culvertd's half of Services on node n1, with a pod "client" on network net1: the real
// client of the API server and the real agent. The last table that the kernel would have is kept.
type nodeHalf struct {
	mu    sync.Mutex // guards table
	table balance.Table
}

// Apply is agent.Balancer.
func (n *nodeHalf) Apply(t balance.Table) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.table = t
	return nil
}

// Pending is agent.Balancer.
func (n *nodeHalf) Pending() bool { return false }

func (n *nodeHalf) Before() []string { return nil }

func (w *services) runNodeHalf() *nodeHalf {
	t := w.t
	t.Helper()
	k, err := kube.New(as(w.server.Config(), "n1"), "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.FollowServices(); err != nil {
		t.Fatal(err)
	}
	ledger, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = ledger.Update(func(tx *journal.Tx) error {
		return tx.Put(journal.Record{ID: vf.ID{PF: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}}, Phase: vf.PhaseAttached, Generation: 1,
			Lease: journal.Lease{Owner: vf.Owner{Kind: vf.OwnerPod, UID: "s1", Name: "default/client", Interface: "net1"}, Netns: "/run/netns/client", Network: "net1"}})
	})
	if err != nil {
		t.Fatal(err)
	}
	pod := runningPod("default", "client", "n1")
	pod.Annotations = map[string]string{netannotation.Status: `[{"name": "default/net1", "interface": "net1"}]`}
	createObject(t, w.admin, pod)
	n := &nodeHalf{}
	a := agent.New(agent.Config{Cluster: k, Ledger: ledger, Log: slog.New(slog.DiscardHandler), Mechanisms: []agent.Mechanism{{
		Name: "eBPF", Supports: func(balance.Protocol) bool { return true }, Open: func() (agent.Balancer, error) { return n, nil }, Left: func() bool { return false },
	}}})
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return k.Run(ctx) })
	g.Go(func() error { a.Run(ctx); return nil })
	t.Cleanup(func() {
		stop()
		_ = g.Wait()
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// reaches reports an error until the client is led from a cluster IP to these addresses and no others.
func (n *nodeHalf) reaches(ip string, want ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	got := []string{}
	for _, p := range n.table.Pods {
		for f, r := range n.table.Views[p.View] {
			for _, at := range r.Backends {
				if f.Addr.String() == ip {
					got = append(got, at.Addr().String())
				}
			}
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		return fmt.Errorf("the client of %s reaches %v, want %v", ip, got, want)
	}
	return nil
}

// runController runs a controller until the returned function is called.
func (w *services) runController(elect bool) (stop func() error) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var g errgroup.Group
	g.Go(func() error {
		return Run(ctx, Config{Kube: asController(w.server.Config()), Namespace: ownNamespace, Metrics: "0", Health: "0", LeaderElection: elect, Log: slog.New(slog.DiscardHandler)})
	})
	w.t.Cleanup(func() { cancel(); _ = g.Wait() })
	return func() error { cancel(); return g.Wait() }
}

// setReady writes a pod's readiness.
func (w *services) setReady(pod string, ready corev1.ConditionStatus) {
	w.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod}}
	body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, ready)
	if err := w.admin.Status().Patch(w.t.Context(), p, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		w.t.Fatal(err)
	}
}

// While the controller is away, the node balances by the EndpointSlices that exist, and a new
// Service has the pods' default addresses. Once the controller is back, it serves new and renamed
// Services, and corrects those that were released and those of deleted pods and networks. While the
// API server is away, the controller and the node keep all they have, and afterwards they follow
// changes again.
func TestServicesWhileControllerAndAPIServerAreAway(t *testing.T) {
	soak.Only(t, "an API server that stops and starts; TestSlicesThatTheCacheNeverHas and TestRetries do without")
	w := newServicesCluster(t)
	va := w.addPod("a", "n1", "10.244.1.5", "172.16.91.20")
	vb := w.addPod("b", "n2", "10.244.2.5", "172.16.91.21")
	for _, o := range append(worker("n1", "z1", va), worker("n2", "z2", vb)...) {
		createObject(t, w.admin, o)
	}
	addService := func(name, ip string, annotations map[string]string) {
		createObject(t, w.admin, webService(func(s *corev1.Service) {
			s.UID, s.Name, s.Annotations, s.Spec.ClusterIP = "", name, annotations, ip
		}))
	}
	over := map[string]string{service.NetworkAnnotation: "net1"}
	stop := w.runController(true)
	node := w.runNodeHalf()
	addService("stays", "10.96.0.50", over)
	addService("old-name", "10.96.0.51", over)
	addService("released", "10.96.0.52", over)
	both := []string{"172.16.91.20", "172.16.91.21"}
	for _, ip := range []string{"10.96.0.50", "10.96.0.51", "10.96.0.52"} {
		apiserver.Eventually(t, "both backends", func() error { return node.reaches(ip, both...) })
	}

	requireEnd(t, stop())
	if err := w.admin.Delete(t.Context(), runningPod("default", "b", "n2"), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	addService("later", "10.96.0.53", over)
	w.patch("released", `{"metadata":{"annotations":{"culvert.dev/network":""}}}`)
	if err := w.admin.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old-name"}}); err != nil {
		t.Fatal(err)
	}
	addService("new-name", "10.96.0.51", over)
	if err := w.admin.Delete(t.Context(), definitionOf("default", "net1", "")); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "a Service made without the controller has the overlay's addresses", func() error { return w.endpointsAre("later", "10.244.1.5") })
	apiserver.Eventually(t, "the garbage collector takes the slices of the old name", func() error { return node.reaches("10.96.0.51") })
	for _, ip := range []string{"10.96.0.50", "10.96.0.52"} {
		if err := node.reaches(ip, both...); err != nil {
			t.Errorf("while the controller is away: %v", err)
		}
	}
	stop = w.runController(true)
	for ip, want := range map[string][]string{"10.96.0.50": both[:1], "10.96.0.51": both[:1], "10.96.0.52": {}, "10.96.0.53": both[:1]} {
		apiserver.Eventually(t, "the controller is back", func() error { return node.reaches(ip, want...) })
	}
	apiserver.Eventually(t, "the overlay's addresses of the released Service", func() error { return w.endpointsAre("released", "10.244.1.5") })
	for _, name := range []string{"stays", "later"} {
		apiserver.Eventually(t, "Service "+name+" says that its network is gone", func() error { return w.conditionIs(name, reasons.NetworkMissing) })
	}
	if err := w.admin.Create(t.Context(), definitionOf("default", "net1", "")); err != nil {
		t.Fatal(err)
	}

	w.server.Stop()
	time.Sleep(3 * time.Second) // requests fail meanwhile, and watches end
	if err := node.reaches("10.96.0.50", both[:1]...); err != nil {
		t.Errorf("while the API server is away: %v", err)
	}
	w.server.Start()
	w.setReady("a", corev1.ConditionFalse)
	apiserver.Eventually(t, "a change after the API server is back", func() error { return node.reaches("10.96.0.50") })
	apiserver.Eventually(t, "the network is there again", func() error { return w.conditionIs("stays", reasons.Served) })
	requireEnd(t, stop())
	var all discoveryv1.EndpointSliceList
	if err := w.admin.List(t.Context(), &all, client.MatchingLabels{discoveryv1.LabelManagedBy: service.ManagedBy}); err != nil || len(all.Items) != 3 {
		t.Errorf("%d EndpointSlices of 3 Services: %v", len(all.Items), err)
	}
}

// conditionIs reports an error until a Service's condition has a reason.
func (w *services) conditionIs(name, want string) error {
	svc := &corev1.Service{}
	if err := w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, svc); err != nil {
		return err
	}
	for _, c := range svc.Status.Conditions {
		if c.Type == service.ConditionEndpoints && c.Reason == want {
			return nil
		}
	}
	return fmt.Errorf("its conditions are %v", svc.Status.Conditions)
}
