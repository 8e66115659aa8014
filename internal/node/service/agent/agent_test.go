package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/service/table"
	"github.com/culvert-net/culvert/internal/vf"
)

var net1 = service.Network{Namespace: "default", Name: "net1"}

// world is a cluster, a ledger and a kernel in memory.
type world struct {
	t      *testing.T
	ledger *journal.Ledger
	woken  change.Wake

	mu      sync.Mutex // guards the rest
	in      table.Input
	known   bool
	refused error
	pods    map[string]api.Pod
	events  []string
	tables  []balance.Table
	fails   error
	opened  int
	lacks   error
	pending bool
	before  []string
	left    bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	l, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{t: t, ledger: l, woken: change.NewWake(), pods: map[string]api.Pod{}, known: true}
}

func (w *world) Services() (table.Input, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.in, w.known
}
func (w *world) ServicesChanged() <-chan struct{} { return w.woken }
func (w *world) WhyNoServices() error             { w.mu.Lock(); defer w.mu.Unlock(); return w.refused }

func (w *world) Known(namespace, name string) (api.Pod, bool) {
	p, ok := w.pods[namespace+"/"+name]
	return p, ok
}

func (w *world) PodEvent(p api.Pod, _, reason, _ string) {
	w.events = append(w.events, p.Name+" "+reason)
}

func (w *world) Apply(t balance.Table) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fails != nil {
		return w.fails
	}
	w.tables = append(w.tables, t)
	return nil
}

func (w *world) Pending() bool { return w.pending }

func (w *world) Before() []string { return w.before }

// agent returns an Agent with one mechanism, which lacks SCTP.
func (w *world) agent() *Agent {
	return New(Config{Cluster: w, Ledger: w.ledger, Log: slog.New(slog.DiscardHandler), Mechanisms: []Mechanism{{
		Name: "eBPF", Supports: func(p balance.Protocol) bool { return p != balance.SCTP },
		Open: func() (Balancer, error) { w.opened++; return w, w.lacks }, Left: func() bool { return w.left },
	}}})
}

// attach puts a VF of a pod into the ledger; netns is empty for vfio.
func (w *world) attach(index int, pod, sandbox, iface, netns string) {
	w.t.Helper()
	err := w.ledger.Update(func(tx *journal.Tx) error {
		return tx.Put(journal.Record{ID: vf.ID{PF: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 1}}, Index: index}, Phase: vf.PhaseAttached, Generation: 1,
			Lease: journal.Lease{Owner: vf.Owner{Kind: vf.OwnerPod, UID: sandbox, Name: pod, Interface: iface}, Netns: netns, Network: "anything"}})
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) sandbox(id, iface string, network service.Network) {
	w.t.Helper()
	plugin, err := netconf.ParsePlugin([]byte(`{"type":"culvert"}`))
	if err != nil {
		w.t.Fatal(err)
	}
	err = w.ledger.Update(func(tx *journal.Tx) error {
		return tx.PutSandbox(journal.Sandbox{ID: id, Phase: journal.SandboxAdded, Networks: []journal.SandboxNetwork{
			{Name: "cbr0", Interface: "eth0", Default: true, Plugins: []netconf.Plugin{plugin}, Result: []byte("{}")},
			{Name: network.String(), Interface: iface, Plugins: []netconf.Plugin{plugin}, Result: []byte("{}")},
		}})
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// serve makes a Service of a protocol over net1.
func (w *world) serve(p balance.Protocol) {
	port := []table.Port{{Number: 80, Protocol: p}}
	w.in = table.Input{
		Services: []*table.Service{{Name: "default/web", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, Ports: port}},
		Slices: []*table.Slice{{Name: "default/web-1", Service: "default/web", Network: net1, Ports: port, Endpoints: []table.Endpoint{
			{Addr: netip.MustParseAddr("172.16.91.1"), Ready: true, Serving: true},
		}}},
	}
}

// TestPass: the Agent finds the networks of pods that culvertd set up by their sandbox, and those
// of pods of another meta plugin by their network-status. A VF on vfio has no client, and its pod
// gets one event.
func TestPass(t *testing.T) {
	w := newWorld(t)
	w.serve(balance.TCP)
	w.sandbox("s1", "net1", net1)
	w.attach(0, "default/a", "s1", "net1", "/run/netns/a")
	w.pods["default/b"] = api.Pod{Namespace: "default", Name: "b", Annotations: map[string]string{
		netannotation.Status: `[{"name": "cbr0", "interface": "eth0"}, {"name": "default/net1", "interface": "net2"}]`,
	}}
	w.attach(1, "default/b", "s2", "net2", "/run/netns/b")
	w.attach(2, "default/unknown", "s3", "net1", "/run/netns/c")
	w.sandbox("s4", "net1", net1)
	w.attach(3, "default/dpdk", "s4", "net1", "")
	w.before = slices.Repeat([]string{"x"}, 100)
	a := w.agent()
	for range 2 {
		if wait := a.pass(); wait != 0 {
			t.Errorf("waits %v: %v", wait, a.Problems())
		}
	}
	got := w.tables[1]
	if len(got.Pods) != 2 || got.Pods[0].Netns != "/run/netns/a" || got.Pods[1].Netns != "/run/netns/b" || got.Pods[0].View != got.Pods[1].View {
		t.Errorf("pods are %+v", got.Pods)
	}
	if n := len(got.Views[got.Pods[0].View]); n != 1 {
		t.Errorf("a pod sees %d Frontends", n)
	}
	if !slices.Equal(w.events, []string{"dpdk ServiceUnreachable"}) {
		t.Errorf("events are %q", w.events)
	}
	if diff := cmp.Diff(&api.ServiceBalancing{Mechanism: "eBPF", Services: 1, Backends: 1, Pods: 2, Before: slices.Repeat([]string{"x"}, mostBefore)}, a.Status()); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// TestClear: after an uninstall the kernel balances nothing.
func TestClear(t *testing.T) {
	w := newWorld(t)
	a := w.agent()
	if err := a.Clear(); err != nil || len(w.tables) != 0 {
		t.Errorf("before anything was balanced: %v, %v", w.tables, err)
	}
	w.serve(balance.TCP)
	a.pass()
	if err := a.Clear(); err != nil || len(w.tables) != 2 || len(w.tables[1].Pods)+len(w.tables[1].Views) != 0 {
		t.Errorf("tables are %v: %v", w.tables, err)
	}
}

// TestNothingToDo: on a node without Services over VF networks the Agent opens no mechanism, unless
// an earlier culvertd left tables, which it removes.
func TestNothingToDo(t *testing.T) {
	w := newWorld(t)
	a := w.agent()
	if a.pass(); w.opened != 0 || a.Status() != nil {
		t.Errorf("opened %d times, status %+v", w.opened, a.Status())
	}
	w.left = true
	if a.pass(); w.opened != 1 || len(w.tables) != 1 || len(w.tables[0].Views) != 0 {
		t.Errorf("opened %d times, tables %v", w.opened, w.tables)
	}
}

// TestUnknown: the Agent changes nothing in the kernel before the caches of the cluster are
// complete, nor while the API server refuses to list Services.
func TestUnknown(t *testing.T) {
	w := newWorld(t)
	w.left, w.known, w.refused = true, false, errors.New("list endpointslices: forbidden")
	a := w.agent()
	if wait := a.pass(); wait == 0 || w.opened != 0 || len(w.tables) != 0 {
		t.Errorf("waits %v, opened %d times, tables %v", wait, w.opened, w.tables)
	}
	if p := a.Problems(); len(p) != 1 || !strings.Contains(p[0].Reason, "forbidden") {
		t.Errorf("problems are %v", p)
	}
	w.known = true
	if a.pass(); len(a.Problems()) != 0 {
		t.Errorf("problems are %v", a.Problems())
	}
}

// TestFailures: a failure is a problem, and the Agent tries again. A problem names what the host
// lacks for a mechanism, or a protocol that no mechanism balances.
func TestFailures(t *testing.T) {
	w := newWorld(t)
	w.serve(balance.SCTP)
	w.sandbox("s1", "net1", net1)
	w.attach(0, "default/a", "s1", "net1", "/run/netns/a")
	a := w.agent()
	expect := func(text string) {
		t.Helper()
		wait := a.pass()
		all := a.Problems()
		if text == "" && len(all) == 0 && wait == 0 {
			return
		}
		if text == "" || wait == 0 || len(all) == 0 || !strings.Contains(all[0].Reason, text) {
			t.Errorf("problems are %v, waits %v; want %q", all, wait, text)
		}
	}
	expect("connections of SCTP are not balanced")
	w.serve(balance.UDP)
	w.fails = errors.New("no space")
	expect("eBPF: no space")
	w.fails = nil
	expect("")
	w.pending = true
	if wait := a.pass(); wait != a.pause {
		t.Errorf("waits %v while something is pending", wait)
	}
	w.lacks = errors.New("no cgroup2")
	a = w.agent()
	expect("no cgroup2")
	if st := a.Status(); st.Mechanism != "none" || !strings.Contains(st.Why, "no cgroup2") {
		t.Errorf("status is %+v", st)
	}
	w.lacks, w.pending = nil, false
	expect("") // it is tried again
}

// TestNoRoom: a Service for which a mechanism has no room is a problem, also beside protocols that
// no mechanism balances. The Agent does not log it in each pass, and it does not delay the next
// pass for a pending Balancer.
func TestNoRoom(t *testing.T) {
	w := newWorld(t)
	w.serve(balance.TCP)
	large := &table.Service{Name: "greedy/web", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.2")}}
	for i := range 50 {
		large.Ports = append(large.Ports, table.Port{Number: uint16(i + 1), Protocol: balance.TCP})
	}
	w.in.Services = append(w.in.Services, large)
	w.in.Slices = append(w.in.Slices, &table.Slice{Name: "greedy/web-1", Service: "greedy/web", Network: net1})
	w.sandbox("s1", "net1", net1)
	w.attach(0, "default/a", "s1", "net1", "/run/netns/a")
	a := w.agent()
	a.Mechanisms[0].Limit = balance.Limit{Rules: 20}
	var log strings.Builder
	a.Log = slog.New(slog.NewTextHandler(&log, nil))
	for range 2 {
		if wait := a.pass(); wait < a.retry {
			t.Errorf("waits %v", wait)
		}
	}
	if p := a.Problems(); len(p) != 1 || !strings.Contains(p[0].Reason, "eBPF is full") || !strings.Contains(p[0].Reason, "[greedy/web]") {
		t.Errorf("problems are %v", p)
	}
	if st := a.Status(); !slices.Equal(st.NoRoom, []string{"greedy/web"}) {
		t.Errorf("no room for %v", st.NoRoom)
	}
	if n := strings.Count(log.String(), "greedy/web"); n != 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
	if got := w.tables[1]; len(got.Views[got.Pods[0].View]) != 1 {
		t.Errorf("the pod sees %v", got.Views[got.Pods[0].View])
	}
	w.pending = true
	if wait := a.pass(); wait != a.pause {
		t.Errorf("waits %v while something is pending", wait)
	}
}

// TestFirstOfEach: the Services of one namespace do not hide those of another.
func TestFirstOfEach(t *testing.T) {
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("greedy/%02d", i))
	}
	got := firstOfEach(append(many, "modest/web", "greedy/00", "modest/web"))
	if want := append(slices.Clone(many[:mostOfNamespace]), "modest/web"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range 100 {
		many = append(many, fmt.Sprintf("n%03d/web", i))
	}
	if got := firstOfEach(many); len(got) != mostWithoutRoom {
		t.Errorf("%d Services", len(got))
	}
}

// TestBackOff: failures in a row are retried ever later, up to a minute; after a success the
// first failure is retried soon again.
func TestBackOff(t *testing.T) {
	w := newWorld(t)
	w.serve(balance.TCP)
	a := w.agent()
	failing := func(times int) (waits []time.Duration) {
		w.fails = errors.New("no space")
		for range times {
			waits = append(waits, a.pass())
		}
		w.fails = nil
		return waits
	}
	want := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute}
	if got := failing(len(want)); !slices.Equal(got, want) {
		t.Errorf("waits %v, want %v", got, want)
	}
	if wait := a.pass(); wait != 0 {
		t.Errorf("after a success waits %v", wait)
	}
	if got := failing(1); got[0] != want[0] {
		t.Errorf("after a success and a failure waits %v", got)
	}
}

// TestRun: changes of the cluster and of the ledger each bring a new table.
func TestRun(t *testing.T) {
	w := newWorld(t)
	w.serve(balance.TCP)
	a := w.agent()
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { a.Run(ctx); return nil })
	await := func(what string, is func(balance.Table) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			w.mu.Lock()
			ok := len(w.tables) > 0 && is(w.tables[len(w.tables)-1])
			w.mu.Unlock()
			if ok {
				return
			}
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	await("the first table", func(balance.Table) bool { return true })
	w.sandbox("s1", "net1", net1)
	w.attach(0, "default/a", "s1", "net1", "/run/netns/a")
	await("a pod that was attached", func(t balance.Table) bool { return len(t.Pods) == 1 })
	w.mu.Lock()
	w.serve(balance.UDP)
	w.mu.Unlock()
	w.woken.Notify()
	await("a changed Service", func(t balance.Table) bool {
		return t.Views[balance.Foreign][balance.Frontend{Addr: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: balance.UDP}] != nil
	})
	stop()
	_ = g.Wait()
}

// TestLook: without any event the Agent applies the table again after a time, so that a Balancer finds
// out that another program detached Culvert's.
func TestLook(t *testing.T) {
	w := newWorld(t)
	w.serve(balance.TCP)
	a := w.agent()
	a.look = time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { a.Run(ctx); return nil })
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		applied := len(w.tables)
		w.mu.Unlock()
		if applied > 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("applied %d times", applied)
		}
	}
	stop()
	_ = g.Wait()
}

// TestTwoNetworks: a pod with VFs of two networks sees the Services of both, each by the backends of
// its network. A pod with one of them is refused by the other Service (I9).
func TestTwoNetworks(t *testing.T) {
	w := newWorld(t)
	w.serve(balance.TCP)
	net2 := service.Network{Namespace: "tenant", Name: "net2"}
	port := []table.Port{{Number: 80, Protocol: balance.TCP}}
	w.in.Services = append(w.in.Services, &table.Service{Name: "tenant/db", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.2")}, Ports: port})
	w.in.Slices = append(w.in.Slices, &table.Slice{Name: "tenant/db-1", Service: "tenant/db", Network: net2, Ports: port, Endpoints: []table.Endpoint{
		{Addr: netip.MustParseAddr("10.2.0.1"), Ready: true, Serving: true},
	}})
	w.pods["default/both"] = api.Pod{Namespace: "default", Name: "both", Annotations: map[string]string{
		netannotation.Status: `[{"name": "cbr0", "interface": "eth0"}, {"name": "default/net1", "interface": "net1"}, {"name": "tenant/net2", "interface": "net2"}]`,
	}}
	w.attach(0, "default/both", "s1", "net1", "/run/netns/both")
	w.attach(1, "default/both", "s1", "net2", "/run/netns/both")
	w.sandbox("s2", "net1", net1)
	w.attach(2, "default/one", "s2", "net1", "/run/netns/one")
	a := w.agent()
	if a.pass(); len(w.tables) != 1 || len(w.tables[0].Pods) != 2 {
		t.Fatalf("tables are %+v: %v", w.tables, a.Problems())
	}
	got := w.tables[0]
	for i, want := range []map[string]string{
		{"10.96.0.1": "[172.16.91.1:80]", "10.96.0.2": "[10.2.0.1:80]"},
		{"10.96.0.1": "[172.16.91.1:80]", "10.96.0.2": "[]"},
	} {
		for ip, backends := range want {
			f := balance.Frontend{Addr: netip.MustParseAddr(ip), Port: 80, Protocol: balance.TCP}
			rule := got.Views[got.Pods[i].View][f]
			if rule == nil {
				rule = got.Views[balance.Foreign][f]
			}
			if rule == nil || fmt.Sprint(rule.Backends) != backends {
				t.Errorf("%s is led from %s to %+v, want %s", got.Pods[i].Netns, ip, rule, backends)
			}
		}
	}
	if st := a.Status(); st == nil || st.Services != 2 || st.Pods != 2 {
		t.Errorf("status is %+v", st)
	}
}

// A ledger that cannot be read is a problem; connections stay balanced as they were.
func TestLedgerThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.serve(balance.TCP)
	a := w.agent()
	if err := w.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	wait, all := a.pass(), a.Problems()
	if wait == 0 || len(all) != 1 || !strings.Contains(all[0].Reason, "read which pods have VFs") || !strings.Contains(all[0].Next, "as they were") {
		t.Errorf("waits %v, problems %v", wait, all)
	}
	if len(w.tables) > 0 {
		t.Errorf("the kernel got %v", w.tables)
	}
}
