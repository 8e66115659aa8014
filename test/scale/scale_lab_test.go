//go:build lab

package scale

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	mathbits "math/bits"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/cluster/controller"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/test/apiserver"
)

var (
	nodes   = flag.Int("nodes", 50, "simulated nodes")
	pods    = flag.Int("pods", 20, "pods that each node starts on average")
	latency = flag.String("latency", "10ms", "added to each request of the API server, for one run each")
	named   = flag.Int("named", 10, "percent of pods that ask for an address by name")
	seed    = flag.Uint64("seed", 1, "of what happens")
	theirs  = flag.Duration("whereabouts", 0, "how long whereabouts gives addresses in the same run, for comparison; 0: not at all")
)

// simulation is a cluster of machines with one network.
type simulation struct {
	t       *testing.T
	dir     string
	network string
	ipam    ipam.Config
	// addresses is the number of addresses of the network.
	addresses int
	config    *rest.Config
	client    client.Client
	cache     cache.Cache

	machines atomic.Pointer[[]*machine] // never changed, only replaced
	ahead    atomic.Int64               // how far the controller's clock is ahead, a time.Duration
	deaths   int                        // how many Node objects were deleted

	writes   atomic.Int64 // of NodeStates
	requests atomic.Int64 // of the nodes and the controller to the API server
	names    atomic.Int64 // of pods

	mu       sync.Mutex // guards the next two
	has      map[netip.Addr]string
	refusals map[string]int // attaches, by the reason

	poolMu  sync.Mutex // guards the rest
	version string     // of the pool that was read last
	pool    blocks.Pool
}

// readPool parses each version of the pool once for all machines. Real nodes have processors of
// their own, but these machines share those of one host.
func (s *simulation) readPool(o *v1alpha1.AddressPool) (p blocks.Pool, err error) {
	s.poolMu.Lock()
	defer s.poolMu.Unlock()
	if o.ResourceVersion != s.version {
		if p, err = blocks.FromObject(o); err != nil {
			return p, err
		}
		s.version, s.pool = o.ResourceVersion, p
	}
	return s.pool, nil
}

func (s *simulation) poolObjects() []*v1alpha1.AddressPool {
	var list v1alpha1.AddressPoolList
	_ = s.cache.List(context.Background(), &list, client.UnsafeDisableDeepCopy)
	var out []*v1alpha1.AddressPool
	for i := range list.Items {
		if list.Items[i].Spec.Network == s.network {
			out = append(out, &list.Items[i])
		}
	}
	return out
}

// I4: pods start, end and move on many nodes. Some request an address by name that may be in
// another node's block. Meanwhile nodes are cut off, culvertds and the controller are killed, and
// Node objects are deleted: some of these nodes never come back, and others come back under their
// name as another machine. No address is ever on two pods. When all pods have ended, no address is
// lost, and the nodes that are gone have none.
//
// The long form, which tools/bench addresses runs:
// tools/go test -tags lab -run TestI4AtScale ./test/scale -args -nodes 1000 -latency 1ms,10ms,50ms
func TestI4AtScale(t *testing.T) {
	server := apiserver.New(t)
	server.CRDs()
	config := server.Config()
	p := newProxy(t, strings.TrimPrefix(config.Host, "https://"))
	config.Host = "https://" + p.addr
	var other *whereabouts
	if *theirs > 0 {
		other = newWhereabouts(t, server, p)
	}
	for i, text := range strings.Split(*latency, ",") {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(text, func(t *testing.T) {
			p.latency.Store(int64(d))
			ours := simulate(t, config, fmt.Sprintf("net%d", i), text)
			if other != nil {
				compare(t, other, ours, text)
			}
		})
	}
}

// compare prints how much faster Culvert is than whereabouts. First one node requests addresses of
// whereabouts, and then eight at once; the faster rate counts.
func compare(t *testing.T, other *whereabouts, ours float64, latency string) {
	t.Helper()
	best := max(other.rate(t, 1, *theirs/2), other.rate(t, 8, *theirs/2))
	fmt.Printf("BenchmarkAddressesAgainstWhereabouts/nodes=%d/latency=%s 1 %.0f addresses/s %.2f whereabouts/s %.0f x\n", *nodes, latency, ours, best, ours/best)
}

// simulate returns how many addresses a second the pods of a cluster get.
func simulate(t *testing.T, config *rest.Config, network, latency string) float64 {
	t.Helper()
	s := newSimulation(t, config, network)
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	t.Cleanup(func() { cancel(); _ = g.Wait() })
	g.Go(func() error { return s.cache.Start(ctx) })
	s.cache.WaitForCacheSync(ctx)
	stopController := s.startController()
	defer func() { stopController() }()
	begin, processor := time.Now(), processorTimes()
	t.Cleanup(s.deleteObjects)
	s.startMachines(network)
	t.Cleanup(s.stopMachines)
	s.startFirstPods()
	t.Logf("%d nodes have blocks after %s; processor time: %s", *nodes, time.Since(begin).Round(time.Millisecond), describeProcessor(processor))

	writes, requests, total := s.writes.Load(), s.requests.Load(), int64(*nodes**pods)
	trouble, noMore := context.WithCancel(ctx)
	var troubles errgroup.Group
	troubles.Go(func() error { s.deleteNodes(trouble); return nil })
	troubles.Go(func() error {
		s.makeTrouble(trouble, func() { stopController(); stopController = s.startController() })
		return nil
	})
	begin, processor = time.Now(), processorTimes()
	refused := s.churn(total)
	took, busy := time.Since(begin), describeProcessor(processor)
	made := func(now, before int64) float64 { return float64(now-before) * 1000 / float64(total) }
	writesPer, requestsPer := made(s.writes.Load(), writes), made(s.requests.Load(), requests)
	noMore()
	_ = troubles.Wait()
	given := total - refused
	t.Logf("%d addresses given in %s, %d attaches refused, %d writes of NodeStates, %d Node objects deleted; processor time: %s",
		given, took.Round(time.Millisecond), refused, s.writes.Load()-writes, s.deaths, busy)
	fmt.Printf("BenchmarkAddresses/nodes=%d/latency=%s 1 %.0f addresses/s %.0f state-writes/1000-attaches %.0f requests/1000-attaches\n", *nodes, latency,
		float64(given)/took.Seconds(), writesPer, requestsPer)
	for _, reason := range slices.Sorted(maps.Keys(s.refusals)) {
		t.Logf("%5d attaches refused, %s", s.refusals[reason], reason)
	}
	if given < total/2 {
		t.Errorf("%d of %d attaches were refused", refused, total)
	}
	apiserver.Eventually(t, "no address is lost", s.findLost)
	return float64(given) / took.Seconds()
}

func newSimulation(t *testing.T, config *rest.Config, network string) *simulation {
	t.Helper()
	bits := 32 - 6 - mathbits.Len(uint(*nodes)) // some 64 addresses for each node, or 128
	section, err := ipam.Parse(fmt.Appendf(nil, `{"type": "host-local", "subnet": "10.0.0.0/%d"}`, bits))
	if err != nil {
		t.Fatal(err)
	}
	s := &simulation{t: t, dir: t.TempDir(), network: network, ipam: section, config: config, addresses: 1 << (32 - bits), has: map[netip.Addr]string{}, refusals: map[string]int{}}
	s.config = rest.CopyConfig(config)
	s.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counted{next, &s.requests} })
	scheme := controller.Scheme()
	s.client, err = client.New(config, client.Options{Scheme: scheme})
	if err == nil {
		s.cache, err = cache.New(config, cache.Options{Scheme: scheme})
	}
	if err != nil {
		t.Fatal(err)
	}
	informer, err := s.cache.GetInformer(t.Context(), &v1alpha1.AddressPool{}, cache.BlockUntilSynced(false))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := informer.AddEventHandler(wakeAll{s}); err != nil {
		t.Fatal(err)
	}
	return s
}

// counted counts the requests of a client.
type counted struct {
	next  http.RoundTripper
	count *atomic.Int64
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count.Add(1)
	return c.next.RoundTrip(r)
}

// wakeAll makes every machine look at the pools when one has changed.
type wakeAll struct{ s *simulation }

func (w wakeAll) OnAdd(any, bool)   { w.wake() }
func (w wakeAll) OnUpdate(any, any) { w.wake() }
func (w wakeAll) OnDelete(any)      { w.wake() }
func (w wakeAll) wake() {
	for _, m := range w.s.all() {
		m.wake()
	}
}

func (s *simulation) startController() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error {
		return controller.Run(ctx, controller.Config{Kube: s.config, Namespace: "default", Metrics: "0", Health: "0", Now: s.now, Log: slog.New(slog.DiscardHandler)})
	})
	return func() {
		cancel()
		if err := g.Wait(); err != nil { // on a busy machine it may not end in its grace period
			s.t.Logf("the controller: %v", err)
		}
	}
}

// startMachines makes the Node objects and the machines, and starts these.
func (s *simulation) startMachines(prefix string) {
	s.t.Helper()
	all := make([]*machine, *nodes)
	var g errgroup.Group
	g.SetLimit(32)
	for i := range all {
		g.Go(func() (err error) {
			all[i], err = s.addNode(fmt.Sprintf("%s-%04d", prefix, i))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		s.t.Fatal(err)
	}
	s.machines.Store(&all)
	for _, m := range all {
		m.start()
	}
}

// all returns the machines that run.
func (s *simulation) all() []*machine {
	if p := s.machines.Load(); p != nil {
		return *p
	}
	return nil
}

func (s *simulation) stopMachines() {
	for _, m := range s.all() {
		m.turnOff()
	}
}

// deleteObjects deletes the objects of the cluster. The controller of the next simulation would wait
// a minute for the answers of these nodes (blocks.AnswerTime).
func (s *simulation) deleteObjects() {
	for _, o := range []client.Object{&corev1.Node{}, &v1alpha1.NodeState{}, &v1alpha1.AddressPool{}} {
		if err := s.client.DeleteAllOf(context.Background(), o); err != nil {
			s.t.Errorf("delete what the simulation made: %v", err)
		}
	}
}

// startFirstPods starts a pod on each node, which makes it request blocks.
func (s *simulation) startFirstPods() {
	s.t.Helper()
	var g errgroup.Group
	for _, m := range s.all() {
		g.Go(m.startFirstPod)
	}
	if err := g.Wait(); err != nil {
		s.t.Fatal(err)
	}
}

// churn starts total pods on the machines, and ends them some time later. It returns how many of
// them were refused an address.
func (s *simulation) churn(total int64) (refused int64) {
	var g errgroup.Group
	var done, no atomic.Int64
	for w := range min(64, len(s.all())) {
		r := rand.New(rand.NewPCG(*seed, uint64(w)))
		g.Go(func() error {
			for done.Add(1) <= total {
				all := s.all()
				m := all[r.IntN(len(all))]
				for m.podCount() > 1+r.IntN(5) {
					m.endPod()
				}
				var asks []netip.Addr
				if r.IntN(100) < *named {
					n := 2 + r.IntN(s.addresses-3)
					asks = append(asks, netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}))
				}
				switch err := m.startPod(asks...); {
				case errors.Is(err, errOff):
					done.Add(-1)
				case err != nil:
					no.Add(1)
					s.noteRefusal(m, len(asks) > 0, err)
				}
			}
			return nil
		})
	}
	_ = g.Wait()
	return no.Load()
}

// noteRefusal counts why attaches are refused.
func (s *simulation) noteRefusal(m *machine, named bool, err error) {
	m.mu.Lock()
	cutOff, first := m.cutOff, len(m.pods) == 0
	m.mu.Unlock()
	reason := "it waited " + podBound.String()
	if !errors.Is(err, context.DeadlineExceeded) {
		reason = err.Error()[strings.LastIndex(err.Error(), ": ")+2:]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals[fmt.Sprintf("named %t, node cut off %t, node without pods %t: %s", named, cutOff, first, reason)]++
}

// findLost ends the pods that are left, and returns an error for addresses in the pool that their
// node cannot give out.
func (s *simulation) findLost() error {
	machines := map[string]*machine{}
	for _, m := range s.all() {
		machines[m.name] = m
		for m.podCount() > 0 {
			m.endPod()
		}
	}
	s.passGrace()
	var lost []string
	for _, b := range s.blocksNow() {
		if b.Claim != "" || !s.gives(machines[b.Node], b) {
			lost = append(lost, fmt.Sprintf("%s of %s (claim %q)", b.Run, b.Node, b.Claim))
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("%d blocks are lost, as %s", len(lost), lost[0])
	}
	return nil
}

// gives reports whether the ledger of a block's machine has the block's grant with all of its
// addresses.
func (s *simulation) gives(m *machine, b blocks.Block) bool {
	if m == nil || m.uid != b.UID {
		return false
	}
	is := false
	_ = m.ledger.View(func(tx *journal.Tx) error {
		for _, g := range tx.Grants(s.network) {
			is = is || g.ID == b.Grant && (len(g.Runs) == 0 || covers(g.Runs, b.Run))
		}
		return nil
	})
	return is
}

func covers(runs []journal.AddressRun, r ipam.Run) bool {
	for _, one := range runs {
		if ipam.Run(one).Contains(r.First) && ipam.Run(one).Contains(r.Last) {
			return true
		}
	}
	return false
}

// errTwice is the violation of I4 that must never happen.
var errTwice = errors.New("I4: an address is given twice")

// take notes that a pod has an address.
func (s *simulation) take(a netip.Addr, pod string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, held := s.has[a]; held {
		s.t.Errorf("%v: %s has %s, and so has %s", errTwice, other, a, pod)
		return errTwice
	}
	s.has[a] = pod
	return nil
}

// free notes that a pod is about to give an address back.
func (s *simulation) free(a netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.has, a)
}
