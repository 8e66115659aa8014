//go:build lab

package scale

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/cluster/controller"
	"github.com/culvert-net/culvert/internal/kernel/dirwatch"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/intake/deviceplugin"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/internal/node/membership"
	"github.com/culvert-net/culvert/internal/node/metrics"
	"github.com/culvert-net/culvert/internal/node/sources"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/apiserver"
)

// A fault of a PF reaches everything that must show it: the device plugin, the NodeState, an event
// of the Node, the condition Healthy of the NodePolicy, and the metrics. The node has a kernel in
// memory; the API server, the controller and the connection to them are real. The times are
// printed:
//
//	tools/go test -tags lab -run TestHealthReachesAll ./test/scale -v
func TestHealthReachesAll(t *testing.T) {
	h := newHealthNode(t)
	pf := vf.PCIAddr{Bus: 1}
	h.follow("link", func() { h.kernel.Cable(pf, false) }, "NoLink", "LinkDown", "culvert_pf_carrier{pf=\"enp1s0\"} 0", 0)
	h.follow("link-back", func() { h.kernel.Cable(pf, true) }, "Healthy", "LinkUp", "culvert_pf_carrier{pf=\"enp1s0\"} 1", 3)
	h.follow("errors", func() {
		h.mu.Lock()
		h.faults = []api.Problem{{Object: "PCIe of PF enp1s0", Reason: "errors"}}
		h.mu.Unlock()
		h.node.Inventory.SetFaults(map[vf.PCIAddr][]vf.Fault{pf: {vf.FaultPCIe}})
		h.member.WriteSoon()
	}, "DeviceErrors", "DeviceErrors", "culvert_pf_faulty{fault=\"PCIe\",pf=\"enp1s0\"} 1", 3)
}

// healthNode is a node with all parts that a fault passes through.
type healthNode struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // of the node's parts
	kernel *fake.Kernel
	node   *node.Node
	member *membership.Member
	api    client.Client
	scrape http.Handler

	pluginapi.UnimplementedRegistrationServer
	dir     string
	mu      sync.Mutex // guards the rest
	healthy int
	faults  []api.Problem
}

func newHealthNode(t *testing.T) *healthNode {
	t.Helper()
	server := apiserver.New(t)
	server.CRDs()
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	h := &healthNode{t: t, ctx: ctx, kernel: fake.New(fake.IGB, 1), healthy: -1}
	var g errgroup.Group
	ledger, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = g.Wait(); _ = ledger.Close() })
	if h.api, err = client.New(server.Config(), client.Options{Scheme: controller.Scheme()}); err != nil {
		t.Fatal(err)
	}
	policy := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	policy.Spec.PFs = []v1alpha1.PFRule{{Driver: "igb", VFs: intstr.FromInt32(3)}}
	policy.Spec.Pools = []v1alpha1.Pool{{Name: "a", Prefix: "x"}}
	err = errors.Join(h.api.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}), h.api.Create(ctx, policy))
	if err != nil {
		t.Fatal(err)
	}
	h.node = node.New(node.Config{Kernel: h.kernel, Ledger: ledger, BootID: "b", Log: log})
	if err := h.node.Start(ctx); err != nil {
		t.Fatal(err)
	}
	cluster, err := kube.New(server.Config(), "n1", log)
	if err != nil {
		t.Fatal(err)
	}
	set := sources.NewSet(h.node.Current, h.node.Inventory.PFs, h.node.Problems)
	shown := metrics.NewNode()
	shown.AddStatus(h.status)
	h.scrape = shown.Handler()
	h.member = membership.New(membership.Config{
		NodeName: "n1", Cluster: cluster, Writer: cluster, Node: h.node, Sources: set, Status: h.status, Faults: h.listFaults, Log: log,
	})
	wake, err := h.kernel.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	g.Go(func() error { return cluster.Run(ctx) })
	g.Go(func() error { h.member.Run(ctx); return nil })
	g.Go(func() error { h.node.Inventory.Follow(ctx, wake, 500*time.Millisecond, func(error) {}); return nil }) // as culvertd does
	g.Go(func() error {
		return controller.Run(ctx, controller.Config{Kube: server.Config(), Namespace: "default", Metrics: "0", Health: "0", Log: log})
	})
	h.serveKubelet(&g)
	plugin := deviceplugin.New(deviceplugin.Config{
		Dir: h.dir, InfoDir: filepath.Join(t.TempDir(), "info"), CDIDir: filepath.Join(t.TempDir(), "cdi"),
		Hardware: h.node.Inventory, Ledger: ledger, Kubelet: noPods{}, Spec: h.node.WatchSpec, Watch: dirwatch.Watch, Log: log,
	})
	g.Go(func() error { return plugin.Run(ctx) })
	h.await("the VFs are healthy", func() error { return h.reached("Healthy", "", "culvert_pf_carrier{pf=\"enp1s0\"} 1", 3) })
	return h
}

// noPods is a kubelet that has given no VF to a pod.
type noPods struct{}

func (noPods) Given(context.Context) (map[vf.PCIAddr]string, error) { return nil, nil }

func (h *healthNode) listFaults() []api.Problem {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.faults
}

func (h *healthNode) status(ctx context.Context) (api.NodeStatus, error) {
	pfs, err := h.node.Inventory.Refresh(ctx)
	if err != nil {
		return api.NodeStatus{}, err
	}
	records, err := h.node.Records()
	return status.Assemble(status.Input{Ready: true, Spec: h.node.Spec(), PFs: pfs, Records: records}), err
}

// serveKubelet serves the kubelet's socket for device plugins.
func (h *healthNode) serveKubelet(g *errgroup.Group) {
	h.t.Helper()
	var err error
	if h.dir, err = os.MkdirTemp("", "kubelet"); err != nil { // the path of a socket is short
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = os.RemoveAll(h.dir) })
	l, err := net.Listen("unix", filepath.Join(h.dir, "kubelet.sock"))
	if err != nil {
		h.t.Fatal(err)
	}
	srv := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(srv, h)
	g.Go(func() error { return srv.Serve(l) })
	g.Go(func() error { <-h.ctx.Done(); srv.Stop(); return nil })
}

// Register follows the list of a plugin's devices.
func (h *healthNode) Register(_ context.Context, r *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	conn, err := grpc.NewClient("unix://"+filepath.Join(h.dir, r.GetEndpoint()), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	list, err := pluginapi.NewDevicePluginClient(conn).ListAndWatch(h.ctx, &pluginapi.Empty{})
	if err != nil {
		return nil, err
	}
	go func() {
		defer conn.Close()
		for {
			devices, err := list.Recv()
			if err != nil {
				return
			}
			healthy := 0
			for _, d := range devices.GetDevices() {
				if d.GetHealth() == pluginapi.Healthy {
					healthy++
				}
			}
			h.mu.Lock()
			h.healthy = healthy
			h.mu.Unlock()
		}
	}()
	return &pluginapi.Empty{}, nil
}

// follow causes a fault, and prints when it has reached each of the five places.
func (h *healthNode) follow(fault string, cause func(), reason, event, metric string, healthy int) {
	h.t.Helper()
	begin := time.Now()
	took := map[string]time.Duration{}
	cause()
	h.await(fault, func() error {
		var errs []error
		for name, err := range h.look(reason, event, metric, healthy) {
			if _, done := took[name]; err == nil && !done {
				took[name] = time.Since(begin)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	fmt.Printf("BenchmarkHealth/fault=%s 1 %d device-plugin-ms %d metrics-ms %d NodeState-ms %d event-ms %d NodePolicy-ms\n", fault,
		took["device plugin"].Milliseconds(), took["metrics"].Milliseconds(), took["NodeState"].Milliseconds(), took["event"].Milliseconds(), took["NodePolicy"].Milliseconds())
}

func (h *healthNode) reached(reason, event, metric string, healthy int) error {
	var errs []error
	for _, err := range h.look(reason, event, metric, healthy) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// look returns an error for each of the five places that the fault has not reached, and nil for
// the others.
func (h *healthNode) look(reason, event, metric string, healthy int) map[string]error {
	out := map[string]error{}
	h.mu.Lock()
	if h.healthy != healthy {
		out["device plugin"] = fmt.Errorf("%d healthy devices, want %d", h.healthy, healthy)
	} else {
		out["device plugin"] = nil
	}
	h.mu.Unlock()
	out["metrics"] = errors.New("not scraped: a scrape lists the hardware, for which the device plugin must not wait")
	if out["device plugin"] == nil {
		answer := httptest.NewRecorder()
		h.scrape.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		out["metrics"] = nil
		if !strings.Contains(answer.Body.String(), metric+"\n") {
			out["metrics"] = fmt.Errorf("no line %s", metric)
		}
	}
	var state v1alpha1.NodeState
	err := h.api.Get(h.ctx, client.ObjectKey{Name: "n1"}, &state)
	if err == nil && (len(state.Status.PFs) != 1 || state.Status.PFs[0].Carrier != (reason != "NoLink") || (len(state.Status.PFs[0].Faults) > 0) != (reason == "DeviceErrors")) {
		err = fmt.Errorf("NodeState: %+v", state.Status.PFs)
	}
	out["NodeState"] = err
	var policy v1alpha1.NodePolicy
	err = h.api.Get(h.ctx, client.ObjectKey{Name: "p"}, &policy)
	if c := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionHealthy); err == nil && (c == nil || c.Reason != reason || policy.Status.AppliedNodes != 1) {
		err = fmt.Errorf("NodePolicy: %+v", policy.Status)
	}
	out["NodePolicy"], out["event"] = err, h.findEvent(event)
	return out
}

func (h *healthNode) findEvent(reason string) error {
	if reason == "" {
		return nil
	}
	var events corev1.EventList
	if err := h.api.List(h.ctx, &events); err != nil {
		return err
	}
	for _, e := range events.Items {
		if e.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("no event %s among %d", reason, len(events.Items))
}

// await tries until is returns nil.
func (h *healthNode) await(what string, is func() error) {
	h.t.Helper()
	end := time.Now().Add(3 * time.Minute)
	for {
		err := is()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
