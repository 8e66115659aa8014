//go:build lab

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/offer"
	"github.com/culvert-net/culvert/internal/vf"
	"github.com/culvert-net/culvert/test/apiserver"
)

const slicesURL = "/apis/resource.k8s.io/v1/resourceslices"

// sliceTest is a node with slices on a real API server.
type sliceTest struct {
	t      *testing.T
	server *apiserver.Server
	client *Client
	stop   func()

	mu     sync.Mutex // guards writes
	writes []string   // verbs
}

func newSliceTest(t *testing.T, args ...string) *sliceTest {
	t.Helper()
	s := &sliceTest{t: t, server: apiserver.New(t, args...)}
	s.server.Must(http.MethodPost, "/api/v1/nodes", `{apiVersion: v1, kind: Node, metadata: {name: n1}}`)
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

// start starts a client, as culvertd does.
func (s *sliceTest) start() {
	s.t.Helper()
	config := s.server.Config()
	CountRequests(config, func(verb, resource, _ string) {
		if resource == resourceSlices && slices.Contains([]string{"create", "update", "patch", "delete"}, verb) {
			s.mu.Lock()
			s.writes = append(s.writes, verb)
			s.mu.Unlock()
		}
	})
	var err error
	if s.client, err = New(config, "n1", slog.New(slog.DiscardHandler)); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { return s.client.Run(ctx) })
	g.Go(func() error { s.client.Slices.Follow(ctx); return nil })
	s.stop = func() { cancel(); _ = g.Wait() }
}

// put puts pools, and returns the writes.
func (s *sliceTest) put(pools []offer.Pool) string {
	s.t.Helper()
	s.mu.Lock()
	s.writes = nil
	s.mu.Unlock()
	if err := s.client.Slices.Put(s.t.Context(), pools); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.writes)
	return strings.Join(s.writes, " ")
}

// putExpect puts pools and compares the writes.
func (s *sliceTest) putExpect(what string, pools []offer.Pool, want string) {
	s.t.Helper()
	if got := s.put(pools); got != want {
		s.t.Errorf("%s: writes %q, want %q", what, got, want)
	}
}

// putEventually puts pools until a put needs these writes: another writer's changes come by the watch.
func (s *sliceTest) putEventually(what string, pools []offer.Pool, want string) {
	s.t.Helper()
	apiserver.Eventually(s.t, what, func() error {
		if got := s.put(pools); got != want {
			return fmt.Errorf("writes %q, want %q", got, want)
		}
		return nil
	})
	s.putExpect(what+", again", pools, "")
}

// edit changes a slice, as another writer.
func (s *sliceTest) edit(name string, change func(*resourcev1.ResourceSlice)) {
	s.t.Helper()
	var r resourcev1.ResourceSlice
	if err := s.server.Do(http.MethodGet, slicesURL+"/"+name, "", &r); err != nil {
		s.t.Fatal(err)
	}
	change(&r)
	body, err := json.Marshal(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.server.Must(http.MethodPut, slicesURL+"/"+name, string(body))
}

// list returns the slices of the cluster.
func (s *sliceTest) list() []resourcev1.ResourceSlice {
	s.t.Helper()
	var l resourcev1.ResourceSliceList
	if err := s.server.Do(http.MethodGet, slicesURL, "", &l); err != nil {
		s.t.Fatal(err)
	}
	return l.Items
}

// expect compares the slices, as POOL GENERATION/COUNT: DEVICES.
func (s *sliceTest) expect(what string, want ...string) {
	s.t.Helper()
	var got []string
	for _, i := range s.list() {
		got = append(got, fmt.Sprintf("%s %d/%d: %d", i.Spec.Pool.Name, i.Spec.Pool.Generation, i.Spec.Pool.ResourceSliceCount, len(i.Spec.Devices)))
		if o := i.OwnerReferences; i.Spec.Driver == "culvert.dev" && (len(o) != 1 || o[0].Kind != "Node" || o[0].Name != "n1") {
			s.t.Errorf("slice %s has the owners %v", i.Name, o)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// poolsOf returns the pools of PFs with so many VFs each, without the VFs gone of the first PF.
func poolsOf(t *testing.T, pfs, vfs int, gone ...int) []offer.Pool {
	t.Helper()
	spec, err := desired.Parse("host.yaml", []byte("pfs: [{name: '*', vfs: max, segment: storage}]\npools: [{name: a, offer: claims}]"))
	if err != nil {
		t.Fatal(err)
	}
	view := offer.View{Spec: spec}
	for i := range pfs {
		pf := &vf.PF{Name: "enp1s0", ID: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, byte(i)}}, PCIeRoot: "pci0000:00", PCI: vf.PCIAddr{Bus: uint8(i)}, MTU: 1500, Up: true, Carrier: true, SpeedMbps: 25000}
		for n := range vfs {
			view.VFs = append(view.VFs, offer.VF{PF: pf, IsFree: i > 0 || !slices.Contains(gone, n), State: vf.State{
				ID: vf.ID{PF: pf.ID, Index: n}, PCI: vf.PCIAddr{Bus: uint8(i), Device: uint8(n / 8), Function: uint8(n % 8)}, Vendor: "15b3", Device: "101e", Driver: "mlx5_core",
				RDMA: &vf.RDMA{Device: "mlx5_2"},
			}})
		}
	}
	pools, err := offer.Pools("n1", view, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return pools
}

// A real API server takes the slices, and culvertd writes only what differs: a VF is one write, more
// slices of a pool are the pool's next generation, and nothing is written twice, also after a restart.
func TestSlicesAreWrittenOnce(t *testing.T) {
	s := newSliceTest(t)
	s.putExpect("two PFs", poolsOf(t, 2, 3), "create create")
	s.putExpect("the same", poolsOf(t, 2, 3), "")
	s.expect("two PFs", "n1/02-00-00-00-00-00 1/1: 3", "n1/02-00-00-00-00-01 1/1: 3")
	s.putExpect("a VF is away", poolsOf(t, 2, 3, 1), "update")
	s.expect("a VF is away", "n1/02-00-00-00-00-00 1/1: 2", "n1/02-00-00-00-00-01 1/1: 3")
	s.putExpect("all VFs of a PF are away", poolsOf(t, 2, 3, 0, 1, 2), "update")
	s.putExpect("a PF has gone", poolsOf(t, 1, 3), "delete update")
	s.expect("a PF has gone", "n1/02-00-00-00-00-00 1/1: 3")
	s.stop()
	s.start()
	s.putExpect("after a restart", poolsOf(t, 1, 3), "")

	s.putExpect("many VFs", poolsOf(t, 1, 128), "create update")
	s.expect("many VFs", "n1/02-00-00-00-00-00 2/2: 64", "n1/02-00-00-00-00-00 2/2: 64")
	s.putExpect("one slice changes", poolsOf(t, 1, 128, 100), "update")
	s.expect("one slice changes", "n1/02-00-00-00-00-00 2/2: 64", "n1/02-00-00-00-00-00 2/2: 63")
	s.putExpect("both slices change", poolsOf(t, 1, 128, 1), "update update")
	s.expect("both slices change", "n1/02-00-00-00-00-00 3/2: 63", "n1/02-00-00-00-00-00 3/2: 64")
	s.putExpect("fewer VFs", poolsOf(t, 1, 50), "delete update")
	s.expect("fewer VFs", "n1/02-00-00-00-00-00 3/1: 50")
	s.putExpect("none", nil, "delete")
	s.putExpect("none, again", nil, "")
}

// The taints of a PF's VFs are one write, and are there when they come back from the API server.
func TestTaintsAreOneWrite(t *testing.T) {
	s := newSliceTest(t)
	healthy, sick := poolsOf(t, 1, 64), poolsOf(t, 1, 64)
	taintAll(sick)
	s.putExpect("healthy", healthy, "create")
	s.putExpect("a link is lost", sick, "update")
	s.putExpect("the same", sick, "")
	s.stop()
	s.start()
	s.putExpect("after a restart", sick, "")
	if !s.client.Slices.TakesTaints() {
		t.Error("the API server drops taints")
	}
	var l resourcev1.ResourceSliceList
	if err := s.server.Do(http.MethodGet, slicesURL, "", &l); err != nil {
		t.Fatal(err)
	}
	if taints := l.Items[0].Spec.Devices[63].Taints; len(taints) != 1 || taints[0].Key != "culvert.dev/link" || taints[0].Effect != resourcev1.DeviceTaintEffectNoSchedule || taints[0].TimeAdded.Unix() != 1000 {
		t.Errorf("taints %+v", taints)
	}
	s.putExpect("the link is back", healthy, "update")
}

// An API server without taints drops them. culvertd sees that by its first write of a taint.
func TestTaintsThatAreDropped(t *testing.T) {
	s := newSliceTest(t, "--feature-gates=DRADeviceTaints=false,DRADeviceTaintRules=false")
	sick := poolsOf(t, 1, 2)
	s.putExpect("healthy", poolsOf(t, 1, 2), "create")
	if !s.client.Slices.TakesTaints() {
		t.Error("no write has had a taint")
	}
	taintAll(sick)
	s.putExpect("a link is lost", sick, "update")
	if s.client.Slices.TakesTaints() {
		t.Error("the API server has dropped the taints")
	}
}

// taintAll gives all devices of pools the taint of a lost link.
func taintAll(pools []offer.Pool) {
	for _, p := range pools {
		for _, devices := range p.Slices {
			for i := range devices {
				devices[i].Taints = []offer.Taint{{Key: offer.TaintLink, Value: "down", Effect: "NoSchedule", TimeAdded: time.Unix(1000, 0).UTC()}}
			}
		}
	}
}

// culvertd repairs the changes of others to its slices, makes deleted ones again, and leaves slices of
// other drivers and nodes alone.
func TestSlicesOfOthers(t *testing.T) {
	s := newSliceTest(t)
	for name, spec := range map[string]string{
		"driver": `{"driver":"example.com","nodeName":"n1","pool":{"name":"n1","generation":1,"resourceSliceCount":1},"devices":[{"name":"x"}]}`,
		"node":   `{"driver":"culvert.dev","nodeName":"n10","pool":{"name":"n10","generation":1,"resourceSliceCount":1},"devices":[{"name":"x"}]}`,
	} {
		owner := `[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"1"}]`
		s.server.Must(http.MethodPost, slicesURL, fmt.Sprintf(`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":%q,"ownerReferences":%s},"spec":%s}`, name, owner, spec))
	}
	pools := poolsOf(t, 1, 2)
	others := []string{"n1 1/1: 1", "n10 1/1: 1"}
	s.putExpect("a PF", pools, "create")
	name := nameSlice("n1", pools[0].Name, 0)
	for what, edit := range map[string]func(*resourcev1.ResourceSlice){
		"devices":      func(r *resourcev1.ResourceSlice) { r.Spec.Devices = r.Spec.Devices[:1] },
		"an attribute": func(r *resourcev1.ResourceSlice) { *r.Spec.Devices[0].Attributes["vf"].IntValue = 7 },
		"the pool":     func(r *resourcev1.ResourceSlice) { r.Spec.Pool.Generation, r.Spec.Pool.ResourceSliceCount = 9, 2 },
		"a field that culvertd does not write": func(r *resourcev1.ResourceSlice) {
			r.Spec.Devices[1].Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"x": {Value: resource.MustParse("1")}}
		},
		"the owner": func(r *resourcev1.ResourceSlice) { r.OwnerReferences = nil },
	} {
		s.edit(name, edit)
		s.putEventually(what, pools, "update")
	}
	for range 2 {
		s.server.Must(http.MethodDelete, slicesURL+"/"+name, "")
		s.putEventually("a deleted slice", pools, "create")
	}
	if err := s.client.Slices.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect("after an uninstallation", others...)
}

// A cluster without a Node object for the node gets no slice: nothing would delete it with the Node.
func TestSlicesNeedANode(t *testing.T) {
	s := newSliceTest(t)
	s.server.Must(http.MethodDelete, "/api/v1/nodes/n1", "")
	apiserver.Eventually(t, "the Node goes", func() error {
		if err := s.client.Slices.Put(t.Context(), poolsOf(t, 1, 1)); !errors.Is(err, vf.ErrNotReady) {
			return fmt.Errorf("put: %w", err)
		}
		return nil
	})
}
