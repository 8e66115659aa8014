//go:build lab

package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/kernel/balance/socket"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/internal/node/service/agent"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/apiserver"
)

// endpointChanges is how often BenchmarkEndpointChange has an endpoint leave, and join again.
const endpointChanges = 20

// BenchmarkEndpointChange prints how long new connections to a ClusterIP go on as before once a
// pod's condition was written: from the API server by the controller's EndpointSlice and the node's
// agent to the kernel's table of eBPF. Both halves are real, and run in this process. The client
// makes connections in a network namespace without a pause.
func BenchmarkEndpointChange(b *testing.B) {
	s := apiserver.New(b)
	s.CRDs()
	definitions, err := os.ReadFile("../../../dist/kubernetes/network-attachment-definitions.yaml")
	if err != nil {
		b.Fatal(err)
	}
	s.Must(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(definitions))
	c, err := client.New(s.Config(), client.Options{Scheme: Scheme()})
	if err != nil {
		b.Fatal(err)
	}
	clusterIP := createTwoBackends(b, c)
	ctx, cancel := context.WithCancel(b.Context())
	var g errgroup.Group
	defer func() {
		cancel()
		if err := g.Wait(); err != nil {
			b.Error(err)
		}
	}()
	g.Go(func() error {
		return Run(ctx, Config{Kube: s.Config(), Namespace: "default", Metrics: "0", Health: "0", Log: slog.New(slog.DiscardHandler)})
	})
	path := serveBackends(b)
	runAgent(ctx, b, &g, s, path)
	calls := &callLog{}
	g.Go(func() error {
		return netns.Run(path, func() error { return calls.makeCalls(ctx, clusterIP) })
	})
	calls.await(b, func(all []call) bool { return has(all, "a") && has(all, "b") })
	var leave, join []float64
	for range endpointChanges {
		since := setReady(b, c, "b", corev1.ConditionFalse)
		const sure = 50 // connections in a row to the other backend of two
		calls.await(b, func(all []call) bool {
			return len(all) >= sure && all[0].begun.After(since) && !has(all[len(all)-sure:], "b")
		}, since)
		leave = append(leave, calls.untilLast("b", since))
		since = setReady(b, c, "b", corev1.ConditionTrue)
		calls.await(b, func(all []call) bool { return has(all, "b") }, since)
		join = append(join, calls.untilFirst("b", since))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(bench.Median(leave), "leave-p50-ms")
	b.ReportMetric(slices.Max(leave), "leave-worst-ms")
	b.ReportMetric(bench.Median(join), "join-p50-ms")
	b.ReportMetric(slices.Max(join), "join-worst-ms")
}

// createTwoBackends makes a Service with the ready pods a and b, and the client's pod on node n1. It
// returns the Service's address.
func createTwoBackends(b *testing.B, c client.Client) netip.Addr {
	b.Helper()
	web := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: map[string]string{service.NetworkAnnotation: "net1"}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt(8080)}}},
	}
	asker, _ := backend("asker", "n1", "172.16.91.1")
	asker.Labels = nil
	for _, o := range append(twoBackends(), asker, web) {
		p, isPod := o.(*corev1.Pod)
		var status corev1.PodStatus
		if isPod {
			p.UID, p.Spec.Containers[0].Image, status = "", "i", p.Status
		}
		apiserver.Eventually(b, o.GetName(), func() error { return client.IgnoreAlreadyExists(c.Create(b.Context(), o)) })
		if isPod {
			p.Status = status
			if err := c.Status().Update(b.Context(), p); err != nil {
				b.Fatal(err)
			}
		}
	}
	at, err := netip.ParseAddr(web.Spec.ClusterIP)
	if err != nil {
		b.Fatal(err)
	}
	return at
}

// setReady writes a pod's condition, and returns the moment before.
func setReady(b *testing.B, c client.Client, name string, status corev1.ConditionStatus) time.Time {
	b.Helper()
	since := time.Now()
	patch := fmt.Sprintf(`{"status": {"conditions": [{"type": "Ready", "status": %q}]}}`, status)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := c.Status().Patch(b.Context(), pod, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		b.Fatal(err)
	}
	return since
}

// serveBackends makes the client's network namespace, in which the pods a and b answer with their
// names as well. It returns its path.
func serveBackends(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "asker")
	if err := netns.New(path); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := netns.Delete(path); err != nil {
			b.Error(err)
		}
	})
	err := netns.Run(path, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(lo); err != nil {
			return err
		}
		for name, at := range map[string]string{"a": "172.16.91.20", "b": "172.16.91.21"} {
			address, err := netlink.ParseAddr(at + "/32")
			if err == nil {
				err = netlink.AddrAdd(lo, address)
			}
			if err != nil {
				return err
			}
			l, err := net.Listen("tcp", at+":8080")
			if err != nil {
				return err
			}
			b.Cleanup(func() { _ = l.Close() })
			go func() {
				for c, err := l.Accept(); err == nil; c, err = l.Accept() {
					_, _ = c.Write([]byte(name))
					_ = c.Close()
				}
			}()
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return path
}

// runAgent runs the half of node n1, whose ledger has the client's pod: the kernel balances for the
// network namespace at path.
func runAgent(ctx context.Context, b *testing.B, g *errgroup.Group, s *apiserver.Server, path string) {
	b.Helper()
	ledger, err := journal.Open(filepath.Join(b.TempDir(), "ledger.db"), journal.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := ledger.Close(); err != nil {
			b.Error(err)
		}
	})
	err = ledger.Update(func(tx *journal.Tx) error {
		return tx.Put(journal.Record{ID: vf.ID{PF: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}}, Phase: vf.PhaseAttached, Generation: 1,
			Lease: journal.Lease{Owner: vf.Owner{Kind: vf.OwnerPod, UID: "sandbox", Name: "default/asker", Interface: "net1"}, Netns: path, Network: "net1"}})
	})
	if err != nil {
		b.Fatal(err)
	}
	node, err := kube.New(s.Config(), "n1", slog.New(slog.DiscardHandler))
	if err == nil {
		err = node.FollowServices()
	}
	if err != nil {
		b.Fatal(err)
	}
	pins, cgroup := mountForPrograms(b)
	a := agent.New(agent.Config{Cluster: node, Ledger: ledger, Log: slog.New(slog.DiscardHandler), Mechanisms: []agent.Mechanism{{
		Name: "eBPF", Supports: socket.Supports, Left: func() bool { return false },
		Open: func() (agent.Balancer, error) { return socket.Open(pins, cgroup) },
	}}})
	g.Go(func() error { return node.Run(ctx) })
	g.Go(func() error { a.Run(ctx); return nil })
}

// mountForPrograms mounts the file systems that eBPF programs of a cgroup need. It returns where to
// pin them, and the root cgroup.
func mountForPrograms(b *testing.B) (pins, cgroup string) {
	b.Helper()
	dir := b.TempDir()
	for kind, name := range map[string]string{"bpf": "bpf", "cgroup2": "cgroup"} {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(at, 0o700), unix.Mount("culvert-bench", at, kind, 0, "")); err != nil {
			b.Skip(err)
		}
		b.Cleanup(func() {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				b.Error(err)
			}
		})
	}
	pins = filepath.Join(dir, "bpf", "culvert")
	b.Cleanup(func() {
		if err := socket.Remove(pins); err != nil {
			b.Error(err)
		}
	})
	return pins, filepath.Join(dir, "cgroup")
}

// call is one connection and the backend that answered; none where it failed.
type call struct {
	begun   time.Time
	backend string
}

func has(all []call, backend string) bool {
	return slices.ContainsFunc(all, func(c call) bool { return c.backend == backend })
}

// callLog has all connections of the client, in order.
type callLog struct {
	mu  sync.Mutex // guards all
	all []call
}

// makeCalls connects without a pause until ctx ends.
func (l *callLog) makeCalls(ctx context.Context, to netip.Addr) error {
	const long = 10 * time.Second
	answer := make([]byte, 8)
	for ctx.Err() == nil {
		one := call{begun: time.Now()}
		c, err := net.DialTimeout("tcp", netip.AddrPortFrom(to, 80).String(), long)
		if err == nil {
			_ = c.SetDeadline(time.Now().Add(long))
			n, _ := c.Read(answer)
			one.backend = strings.TrimSpace(string(answer[:n]))
			_ = c.Close()
		}
		l.mu.Lock()
		l.all = append(l.all, one)
		l.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	return nil
}

// after returns the connections that began at a time or later.
func (l *callLog) after(since time.Time) []call {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, _ := slices.BinarySearchFunc(l.all, since, func(c call, at time.Time) int { return c.begun.Compare(at) })
	return slices.Clone(l.all[i:])
}

// await waits until the connections since a time are as they should be.
func (l *callLog) await(b *testing.B, done func([]call) bool, since ...time.Time) {
	b.Helper()
	from := time.Time{}
	if len(since) > 0 {
		from = since[0]
	}
	for end := time.Now().Add(2 * time.Minute); !done(l.after(from)); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("after two minutes the last connections are %+v", l.after(time.Now().Add(-time.Second)))
		}
	}
}

// untilLast returns the milliseconds from a time until the last connection began that a backend
// answered; 0 where there is none.
func (l *callLog) untilLast(backend string, since time.Time) (ms float64) {
	for _, c := range l.after(since) {
		if c.backend == backend {
			ms = c.begun.Sub(since).Seconds() * 1e3
		}
	}
	return ms
}

// untilFirst returns the milliseconds until the first one.
func (l *callLog) untilFirst(backend string, since time.Time) float64 {
	for _, c := range l.after(since) {
		if c.backend == backend {
			return c.begun.Sub(since).Seconds() * 1e3
		}
	}
	return 0
}
