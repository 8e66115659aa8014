//go:build lab

package scale

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/internal/node/membership"
	"github.com/culvert-net/culvert/internal/node/sources"
	"github.com/culvert-net/culvert/internal/vf"
)

const podNetns = "/run/netns/pod"

// machine is a simulated node: culvertd's real parts (ledger, attach engine, membership, writer
// of the NodeState) over a kernel in memory. It gets the pools from one watch, which all
// machines share.
type machine struct {
	sim     *simulation
	name    string
	uid     string
	node    *node.Node
	ledger  *journal.Ledger
	client  *kube.Client
	changed chan struct{}

	running sync.RWMutex // held while culvertd is started anew, and by each attach and detach (for reading)
	off     bool         // for good; guarded by running
	stop    func()

	mu     sync.Mutex              // guards the rest
	cutOff bool                    // from the API server
	pools  []*v1alpha1.AddressPool // that it saw last
	heard  bool
	pods   []pod
}

// pod is an attachment.
type pod struct {
	owner vf.Owner
	addr  netip.Addr
}

func (s *simulation) newMachine(name, uid string) (*machine, error) {
	m := &machine{sim: s, name: name, uid: uid, changed: make(chan struct{}, 1)}
	ledger, err := journal.Open(filepath.Join(s.dir, uid+".db"), journal.Options{NoSync: true})
	if err != nil {
		return nil, err
	}
	m.ledger = ledger
	k := fake.New(fake.IGB, 1)
	k.AddNetns(podNetns)
	m.node = node.New(node.Config{Kernel: k, Ledger: ledger, BootID: "b", Log: slog.New(slog.DiscardHandler)})
	m.node.SetSpec(desired.Spec{
		PFs:   []desired.PFRule{{Name: "enp*", Want: desired.PFSpec{VFs: desired.AllVFs, Autoprobe: true, NeedCarrier: true}}},
		Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice}},
	})
	if err := m.node.Start(context.Background()); err != nil {
		return nil, err
	}
	if err := m.node.Reconciler.Pass(context.Background()); err != nil {
		return nil, err
	}
	m.client, err = kube.New(s.config, name, slog.New(slog.DiscardHandler))
	return m, err
}

// start starts the node's membership, as culvertd does at its start.
func (m *machine) start() {
	set := sources.NewSet(m.node.Current, m.node.Inventory.PFs, m.node.Problems)
	status := func(context.Context) (api.NodeStatus, error) {
		return api.NodeStatus{Ready: true, Pools: []api.Pool{{Name: "x/a", VFs: api.Counts{Total: 7}}}}, nil
	}
	member := membership.New(membership.Config{
		NodeName: m.name, Cluster: m, Writer: m, Node: m.node, Sources: set, Status: status, Log: slog.New(slog.DiscardHandler), ReadPool: m.sim.readPool,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { member.Run(ctx); return nil })
	m.stop = func() { cancel(); _ = g.Wait() }
}

// restart kills culvertd and starts another one on the same ledger.
func (m *machine) restart() {
	m.running.Lock()
	defer m.running.Unlock()
	if m.off {
		return
	}
	m.stop()
	m.start()
}

// errOff is the error of a machine that was turned off.
var errOff = errors.New("the machine is off")

// turnOff turns the machine off for good. Its pods are gone with it.
func (m *machine) turnOff() {
	m.running.Lock()
	defer m.running.Unlock()
	if m.off {
		return
	}
	m.off = true
	m.stop()
	m.node.VFs.Wait()
	if err := m.ledger.Close(); err != nil {
		m.sim.t.Error(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pods {
		m.sim.free(p.addr)
	}
	m.pods = nil
}

// setCutOff cuts the node off from the API server, or connects it again.
func (m *machine) setCutOff(cutOff bool) {
	m.mu.Lock()
	m.cutOff = cutOff
	m.mu.Unlock()
	m.wake()
}

func (m *machine) wake() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// The methods below are the cluster as membership reads and writes it.

func (m *machine) Policies() ([]sources.Policy, bool)            { return nil, false }
func (m *machine) DevicePluginConfig() (map[string]string, bool) { return nil, false }
func (m *machine) NodeUID() string                               { return m.uid }
func (m *machine) ObjectsChanged() <-chan struct{}               { return m.changed }
func (m *machine) LastConfirmation() time.Time                   { return m.client.LastConfirmation() }
func (m *machine) NodeEvent(string, string, string)              {}
func (m *machine) Networks() []api.NetworkDefinition             { return nil }
func (m *machine) AddressPools() ([]*v1alpha1.AddressPool, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.cutOff {
		m.pools, m.heard = m.sim.poolObjects(), true
	}
	return m.pools, m.heard
}

func (m *machine) WriteState(ctx context.Context, s v1alpha1.NodeStateStatus) error {
	m.mu.Lock()
	cutOff := m.cutOff
	m.mu.Unlock()
	if cutOff {
		return errors.New("the API server does not answer")
	}
	s.NodeUID = m.uid
	m.sim.writes.Add(1)
	return m.client.WriteState(ctx, s)
}

func (m *machine) podCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pods)
}

// startPod attaches a pod.
func (m *machine) startPod(named ...netip.Addr) error {
	m.running.RLock()
	defer m.running.RUnlock()
	if m.off {
		return errOff
	}
	ctx, cancel := context.WithTimeout(context.Background(), podBound)
	defer cancel()
	req := m.request(m.sim.names.Add(1), named...)
	rec, err := m.node.Engine.Attach(ctx, req)
	if err != nil {
		return err
	}
	a := rec.Lease.Wanted.Addresses[0].Prefix.Addr()
	if err := m.sim.take(a, m.name+" "+req.Owner.Name); err != nil { // before endPod can find the pod
		return err
	}
	m.mu.Lock()
	m.pods = append(m.pods, pod{req.Owner, a})
	m.mu.Unlock()
	return nil
}

// startFirstPod starts a pod on a node that has no addresses yet, and tries again as the kubelet
// does.
func (m *machine) startFirstPod() error {
	err := m.startPod()
	for end := time.Now().Add(5 * time.Minute); err != nil && time.Now().Before(end); err = m.startPod() {
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// podBound is how long an attach may wait here.
const podBound = 3 * time.Second

// endPod detaches the oldest pod.
func (m *machine) endPod() {
	m.running.RLock()
	defer m.running.RUnlock()
	m.mu.Lock()
	if len(m.pods) == 0 {
		m.mu.Unlock()
		return
	}
	one := m.pods[0]
	m.pods = m.pods[1:]
	m.mu.Unlock()
	m.sim.free(one.addr)
	if err := m.node.Resets.Detach(context.Background(), one.owner); err != nil {
		m.sim.t.Errorf("%s on %s: %v", one.owner, m.name, err)
	}
}

// request returns the attach request of a pod.
func (m *machine) request(pod int64, named ...netip.Addr) attach.Request {
	r := attach.Request{
		Owner:   vf.Owner{Kind: vf.OwnerPod, UID: fmt.Sprint(pod), Name: fmt.Sprintf("default/p%d", pod), Interface: "net1"},
		Network: m.sim.network, Netns: podNetns, IPAM: m.sim.ipam, Spec: vf.Spec{Interface: fmt.Sprintf("n%d", pod)},
	}
	for _, a := range named {
		r.Addresses = append(r.Addresses, netip.PrefixFrom(a, a.BitLen()))
	}
	return r
}
