package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/sources"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/vf"
)

// fakeCluster is a cluster in memory, with the writes of a Member.
type fakeCluster struct {
	mu       sync.Mutex // guards the rest
	policies []*v1alpha1.NodePolicy
	pools    []*v1alpha1.AddressPool
	plugin   map[string]string
	networks []api.NetworkDefinition
	unheard  map[string]bool // the kinds that are not known yet
	down     bool
	refused  int
	written  []v1alpha1.NodeStateStatus
	events   []string
	changed  chan struct{}
	// confirmed is when a pod's Confirmation was last written.
	confirmed time.Time
}

func (c *fakeCluster) Policies() (all []sources.Policy, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.policies {
		all = append(all, sources.Policy{NodePolicy: p})
	}
	return all, !c.unheard["policies"]
}

func (c *fakeCluster) DevicePluginConfig() (map[string]string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plugin, !c.unheard["plugin"]
}

func (c *fakeCluster) AddressPools() ([]*v1alpha1.AddressPool, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pools, !c.unheard["pools"]
}

func (c *fakeCluster) NodeUID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unheard["node"] {
		return ""
	}
	return "uid"
}

func (c *fakeCluster) Networks() []api.NetworkDefinition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.networks
}

func (c *fakeCluster) ObjectsChanged() <-chan struct{} { return c.changed }

func (c *fakeCluster) WriteState(_ context.Context, s v1alpha1.NodeStateStatus) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		c.refused++
		return errors.New("the API server is down")
	}
	c.written = append(c.written, s)
	return nil
}

func (c *fakeCluster) LastConfirmation() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.confirmed
}

func (c *fakeCluster) NodeEvent(kind, reason, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, kind+" "+reason+" "+text)
}

// change changes the cluster's objects, and wakes the Member.
func (c *fakeCluster) change(f func()) {
	c.mu.Lock()
	f()
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// joined returns a node with a fake NIC of seven VFs that is a member of a cluster, and the
// cluster.
func joined(t *testing.T) (*Member, *fakeCluster) {
	t.Helper()
	ledger, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	n := node.New(node.Config{Kernel: fake.New(fake.IGB, 1), Ledger: ledger, BootID: "b", Log: log})
	t.Cleanup(func() {
		n.VFs.Wait()
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &fakeCluster{unheard: map[string]bool{}, changed: make(chan struct{}, 1)}
	set := sources.NewSet(n.Current, n.Inventory.PFs, n.Problems)
	set.DevicePlugin.Node = "n1"
	picture := func(ctx context.Context) (api.NodeStatus, error) {
		pfs, err := n.Inventory.Refresh(ctx)
		if err != nil {
			return api.NodeStatus{}, err
		}
		records, err := n.Records()
		return status.Assemble(status.Input{Ready: true, Spec: n.Spec(), PFs: pfs, Records: records, Conditions: set.Problems()}), err
	}
	return New(Config{NodeName: "n1", Cluster: c, Writer: c, Node: n, Sources: set, Status: picture, Log: log}), c
}

func policy(name string, priority int32, vfs int, pools ...string) *v1alpha1.NodePolicy {
	p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
	p.Spec.Priority = priority
	if vfs >= 0 {
		p.Spec.PFs = []v1alpha1.PFRule{{Name: "enp*", VFs: intstr.FromInt(vfs)}}
	}
	for _, name := range pools {
		p.Spec.Pools = append(p.Spec.Pools, v1alpha1.Pool{Name: name, Prefix: "x"})
	}
	return p
}

// poolNames returns the names of the node's wanted pools, in their order.
func poolNames(m *Member) []string {
	out := []string{}
	for _, p := range m.Node.Spec().Pools {
		out = append(out, p.FullName())
	}
	return out
}

func pluginConfig(text string) map[string]string { return map[string]string{"config.json": text} }

const (
	pluginA = `{"resourceList": [{"resourceName": "a", "selectors": {"vendors": ["8086"]}}]}`
	pluginB = `{"resourceList": [{"resourceName": "b", "selectors": {"vendors": ["8086"]}}]}`
)

// The node follows the device plugin's ConfigMap after the policies. A ConfigMap that cannot be
// read is a problem: its last readable content stays, and the node follows no part of the new
// content.
func TestDevicePluginConfigIsFollowed(t *testing.T) {
	m, c := joined(t)
	for _, step := range []struct {
		name   string
		change func()
		pools  []string
		wrong  string // "": the ConfigMap is right; "-": there is no condition
	}{
		{"none", func() {}, []string{}, "-"},
		{"one", func() { c.plugin = pluginConfig(pluginA) }, []string{"intel.com/a"}, ""},
		{"another", func() { c.plugin = pluginConfig(pluginB) }, []string{"intel.com/b"}, ""},
		{"no JSON", func() { c.plugin = pluginConfig(`{"resourceList": [`) }, []string{"intel.com/b"}, "sriovdp-config/config.json:1"},
		{"half of it good", func() {
			c.plugin = pluginConfig(`{"resourceList": [{"resourceName": "c", "selectors": {"vendors": ["8086"]}}, {"resourceName": "d", "deviceType": "accelerator"}]}`)
		}, []string{"intel.com/c", "intel.com/d"}, "resources: 1; intel.com/d is not served: sriovdp-config/config.json:1: resourceList[1].deviceType"},
		{"only other nodes", func() { c.plugin = map[string]string{"other": pluginB} }, []string{}, ""},
		{"this node before all", func() { c.plugin = map[string]string{"n1": pluginB, "config.json": pluginA} }, []string{"intel.com/b"}, ""},
		{"nothing at all", func() { c.plugin = map[string]string{} }, []string{"intel.com/b"}, "it has no key config.json"},
		{"mended", func() { c.plugin = pluginConfig(pluginA) }, []string{"intel.com/a"}, ""},
		{"a policy comes first", func() { c.policies = append(c.policies, policy("p", 0, -1, "first")) }, []string{"x/first", "intel.com/a"}, ""},
		{"deleted", func() { c.plugin = nil }, []string{"x/first"}, "-"},
	} {
		step.change()
		m.readSpec()
		if diff := cmp.Diff(step.pools, poolNames(m)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		got := "-"
		for _, cond := range m.Sources.Conditions(nil) {
			if cond.Type == v1alpha1.ConditionDevicePluginConfig {
				got = ""
				if cond.Status != metav1.ConditionTrue {
					got = cond.Message
				}
			}
		}
		if step.wrong == "" && got != "" || !strings.Contains(got, step.wrong) {
			t.Errorf("%s: the condition says %q, want %q", step.name, got, step.wrong)
		}
		told := slices.ContainsFunc(m.Sources.Problems(), func(p api.Problem) bool {
			what, _ := strings.CutPrefix(step.wrong, "resources: 1; intel.com/d is not served: ")
			return (p.Object == "ConfigMap kube-system/sriovdp-config" || p.Object == "pool intel.com/d") && strings.Contains(p.Reason, what)
		})
		if wrong := len(step.wrong) > 1; told != wrong {
			t.Errorf("%s: told %t, wrong %t: %v", step.name, told, wrong, m.Sources.Problems())
		}
	}
}

// The ConfigMap waits until the policies are known: its pools would take the place of theirs.
func TestDevicePluginConfigWaitsForPolicies(t *testing.T) {
	m, c := joined(t)
	c.plugin, c.unheard = pluginConfig(pluginA), map[string]bool{"policies": true}
	if m.readSpec(); len(poolNames(m)) != 0 {
		t.Errorf("%v before the policies are known", poolNames(m))
	}
	c.unheard = map[string]bool{"plugin": true}
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, -1, "first")}
	if m.readSpec(); !slices.Equal(poolNames(m), []string{"x/first"}) {
		t.Errorf("policies wait for the ConfigMap: %v", poolNames(m))
	}
}

// The node follows the last readable content of a policy that cannot be read any more.
func TestUnreadablePolicyIsFollowedAsItWas(t *testing.T) {
	m, c := joined(t)
	c.policies = []*v1alpha1.NodePolicy{policy("a", 0, -1, "one"), policy("b", 0, -1, "two")}
	m.readSpec()
	broken := policy("a", 5, -1, "three", "three")
	c.policies = []*v1alpha1.NodePolicy{broken, policy("b", 0, -1, "changed"), policy("new", 0, -1, "x", "x")}
	m.readSpec()
	if want := []string{"x/one", "x/changed"}; !slices.Equal(poolNames(m), want) {
		t.Errorf("%v, want %v", poolNames(m), want)
	}
	var objects []string
	for _, p := range m.Sources.Problems() {
		objects = append(objects, p.Object)
	}
	if want := []string{"NodePolicy a", "NodePolicy new"}; !slices.Equal(objects, want) {
		t.Errorf("told of %v, want %v", objects, want)
	}
	c.policies = nil
	if m.readSpec(); len(poolNames(m)) != 0 {
		t.Errorf("deleted, and %v are wanted", poolNames(m))
	}
}

// A plan of host.yaml includes the NodePolicies of the cluster, and changes nothing.
func TestPlanKeepsTheClustersWishes(t *testing.T) {
	m, c := joined(t)
	c.policies = []*v1alpha1.NodePolicy{policy("a", 0, 3, "one")}
	m.readSpec()
	spec, err := desired.Parse("host.yaml", []byte("pools: [{name: mine}]"))
	if err != nil {
		t.Fatal(err)
	}
	got := m.Sources.PreviewHost(spec)
	if len(got.PFs) != 1 || len(got.Pools) != 2 || got.Pools[0].Name != "mine" || got.Pools[1].Name != "one" {
		t.Errorf("%+v", got)
	}
	if want := []string{"x/one"}; !slices.Equal(poolNames(m), want) {
		t.Errorf("a plan changed what is wanted: %v", poolNames(m))
	}
}

// I7: the node has the cluster's policies before it shows the kubelet any pool. A PF that follows
// them slowly does not delay addresses.
func TestI7SlowPFKeepsNoAddressWaiting(t *testing.T) {
	m, c := joined(t)
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 3, "a")}
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	defer func() { cancel(); _ = g.Wait() }()
	g.Go(func() error { m.keepState(ctx); return nil }) // and nothing makes VFs
	owner := vf.Owner{Kind: vf.OwnerPod, UID: "u", Interface: "net1"}
	sets, err := ipam.Parse([]byte(`{"type": "host-local", "subnet": "10.0.0.0/24"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer m.book.Need("n", sets, nil, owner)()
	until(t, "I7: what an attachment waits for is asked for", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.written) > 0 && len(c.written[len(c.written)-1].AddressRequests) == 1
	})
	select {
	case <-m.Followed():
		t.Error("followed before the VFs are made")
	default:
	}
	g.Go(func() error { m.followSpec(ctx); return nil })
	if <-m.Followed(); m.Node.Inventory.PFs()[0].NumVFs != 3 {
		t.Errorf("followed with %d VFs", m.Node.Inventory.PFs()[0].NumVFs)
	}
}

// I4: a node reports nothing before it knows the pools and the UID of its Node. The controller takes
// back blocks that a NodeState does not request, and the UID says which blocks are the node's. Until
// then the node logs no warning. Then it writes the NodeState, once as long as nothing changes, and
// again after the API server was down.
func TestI4NothingIsToldTooEarly(t *testing.T) {
	m, c := joined(t)
	m.writeInterval = 50 * time.Millisecond
	var said strings.Builder
	m.Log = slog.New(slog.NewTextHandler(&said, nil))
	c.unheard["pools"], c.unheard["node"] = true, true
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); m.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	count := func() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.written) }
	time.Sleep(100 * time.Millisecond) // as long as nothing may happen
	if n := count(); n != 0 {
		t.Fatalf("I4: written %d times before the pools are known", n)
	}
	c.change(func() { c.unheard = map[string]bool{"node": true} })
	time.Sleep(100 * time.Millisecond) // as long as nothing may happen
	if n := count(); n != 0 {
		t.Fatalf("I4: written %d times before the Node's UID is known", n)
	}
	c.change(func() { c.down, c.unheard = true, nil })
	until(t, "it is tried while the API server is down", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.refused > 1 })
	c.change(func() { c.down = false })
	until(t, "it is written when the API server is back", func() bool { return count() > 0 })
	for range 5 {
		c.change(func() {})
		m.urgent <- struct{}{}
	}
	time.Sleep(100 * time.Millisecond) // as long as nothing may happen
	cancel()
	<-ended
	if n := count(); n != 1 {
		t.Errorf("written %d times, and nothing changed", n)
	}
	if n := strings.Count(said.String(), "\n"); n != 1 || !strings.Contains(said.String(), "the API server is down") {
		t.Errorf("logged:\n%s", said.String())
	}
}

// A NodeState that was lost is written again, although nothing changes.
func TestStateComesBack(t *testing.T) {
	m, c := joined(t)
	m.writeInterval, m.idleInterval = time.Millisecond, 10*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); m.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	until(t, "it is written again", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.written) > 1 })
}

// until waits up to 30 s for is to return true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in 30 s", what)
		}
	}
}

// I7: a node reports a damaged pool, and the pool hides no other.
func TestI7DamagedPoolHidesNoOther(t *testing.T) {
	m, c := joined(t)
	pool := func(network string, blocks ...v1alpha1.AddressBlock) *v1alpha1.AddressPool {
		return &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: network}, Spec: v1alpha1.AddressPoolSpec{Network: network, Blocks: blocks}}
	}
	block := func(node, first, last string) v1alpha1.AddressBlock {
		return v1alpha1.AddressBlock{Node: node, First: first, Last: last}
	}
	c.pools = []*v1alpha1.AddressPool{
		pool("bad", block("n1", "10.0.0.2", "10.0.0.9"), block("n2", "10.0.0.9", "10.0.0.19")),
		pool("good", block("n1", "10.0.0.2", "10.0.0.9")),
	}
	s := m.look(t)
	if len(s.Problems) == 0 || s.Problems[0].Object != "AddressPool bad" || !strings.Contains(s.Problems[0].Reason, "overlap") {
		t.Errorf("%+v", s.Problems)
	}
	if len(c.events) != 1 || !strings.HasPrefix(c.events[0], "Warning NotAsWanted AddressPool bad: ") {
		t.Errorf("%q", c.events)
	}
	if own := m.book.Of("good", vf.Owner{}, nil); len(own.Runs) != 1 {
		t.Errorf("I7: %+v", own)
	}
	if own := m.book.Of("bad", vf.Owner{}, nil); len(own.Runs) != 0 {
		t.Errorf("given out of a damaged pool: %+v", own)
	}
}

func nad(name, resource, config string) api.NetworkDefinition {
	n := api.NetworkDefinition{Namespace: "d", Name: name, Config: config}
	if resource != "" {
		n.Annotations = map[string]string{"k8s.v1.cni.cncf.io/resourceName": resource}
	}
	return n
}

// One network with long lists of excluded addresses does not take the room of other namespaces' networks.
func TestI7OneNetworkOfManyRuns(t *testing.T) {
	m, c := joined(t)
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 3, "a")}
	var excluded []string
	for i := range maxRuns - 2 {
		excluded = append(excluded, fmt.Sprintf(`"10.0.%d.%d/32"`, i/100, 20+i%100*2))
	}
	c.networks = []api.NetworkDefinition{nad("large", "x/a", `{"type": "sriov", "ipam": {"type": "host-local", "subnet": "10.0.0.0/16", "exclude": [`+strings.Join(excluded, ",")+`]}}`)}
	for i := range 50 {
		other := nad("few", "x/a", `{"type": "sriov", "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}}`)
		other.Namespace = fmt.Sprintf("z%02d", i)
		c.networks = append(c.networks, other)
	}
	few := 0
	for _, r := range m.look(t).AddressRequests {
		if strings.HasPrefix(r.Pool, "z") {
			few++
		}
	}
	if few != 50 {
		t.Errorf("of 50 namespaces with one network each, blocks are asked for ahead for %d", few)
	}
}

// The node requests blocks as soon as one of its pods can have a network. It requests none for
// networks of other nodes or other plugins, nor for networks whose addresses the cluster does not
// share.
func TestBlocksAreAskedForAhead(t *testing.T) {
	m, c := joined(t)
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 3, "a")}
	const subnet = `"ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}`
	c.networks = []api.NetworkDefinition{
		nad("plain", "", `{"type": "sriov", `+subnet+`}`),
		nad("resource", "x/a", `{"cniVersion": "0.3.1", "name": "named", "type": "sriov", `+subnet+`}`),
		nad("pool", "", `{"cniVersion": "1.0.0", "type": "culvert", "pool": "a", `+subnet+`}`),
		nad("list", "x/a", `{"cniVersion": "1.0.0", "plugins": [{"type": "sriov", `+subnet+`}, {"type": "tuning"}]}`),
		nad("twice", "x/a", `{"cniVersion": "0.3.1", "name": "named", "type": "sriov", "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}}`),
		nad("elsewhere", "x/b", `{"type": "sriov", `+subnet+`}`),
		nad("node", "x/a", `{"type": "sriov", "ipam": {"type": "host-local", "scope": "node", "subnet": "10.0.0.0/24"}}`),
		nad("static", "x/a", `{"type": "sriov", "ipam": {"type": "static", "addresses": [{"address": "10.0.0.2/24"}]}}`),
		nad("none", "x/a", `{"type": "sriov"}`),
		nad("bridge", "", `{"cniVersion": "1.0.0", "type": "bridge", `+subnet+`}`),
		nad("shares", "x/a", `{"type": "sriov", "ipam": {"type": "culvert", "poolOf": "d/plain"}}`),
		nad("two", "x/a", `{"cniVersion": "1.0.0", "plugins": [{"type": "sriov"}, {"type": "culvert", `+subnet+`}]}`),
		nad("broken", "", `{"type": "sriov", "vlan": 5000, `+subnet+`}`),
		nad("file", "", ``),
	}
	asks := func() (out []string) {
		for _, r := range m.look(t).AddressRequests {
			out = append(out, r.Pool+" "+r.Ranges[0].First)
		}
		return out
	}
	if want, got := []string{"d/list 10.0.0.2", "d/plain 10.0.0.2", "d/pool 10.0.0.2", "d/resource 10.0.0.2", "d/twice 10.9.0.2", "d/two 10.0.0.2"}, asks(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	all := c.networks
	c.networks = nil
	for i := range 2 * maxRuns {
		c.networks = append(c.networks, nad(fmt.Sprintf("many%04d", i), "", `{"type": "sriov", `+subnet+`}`))
	}
	if got := len(asks()); got != maxRuns {
		t.Errorf("%d networks are asked for ahead: a NodeState of any size", got)
	}
	for i := range 20 {
		other := nad(fmt.Sprintf("few%d", i), "", `{"type": "sriov", `+subnet+`}`)
		other.Namespace = "z"
		c.networks = append(c.networks, other)
	}
	if got := asks(); len(got) != maxRuns || !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "z/few19 ") }) {
		t.Errorf("the networks of one namespace take all %d requests", len(got))
	}
	c.networks = all[:1]
	if want, got := []string{"d/plain 10.0.0.2"}, asks(); !slices.Equal(got, want) {
		t.Errorf("networks were deleted: %v, want %v", got, want)
	}
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 0, "a")}
	if got := asks(); len(got) != 0 {
		t.Errorf("without a VF: %v", got)
	}
}
