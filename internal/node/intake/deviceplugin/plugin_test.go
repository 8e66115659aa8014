package deviceplugin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/dirwatch"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/intake/deviceplugin"
	"github.com/culvert-net/culvert/internal/node/inventory"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// patience bounds a wait for an event that must come, on a busy machine.
const patience = 5 * time.Minute

// machine is a node on the fake kernel with a device plugin, and its kubelet.
type machine struct {
	*fake.Kernel
	hardware *hardware
	faults   *faulty.Kernel
	t        *testing.T
	node     *node.Node
	ledger   *journal.Ledger
	kubelet  *fakeKubelet
	plugin   *deviceplugin.Plugin
	dir      string       // of the files
	later    atomic.Int64 // nanoseconds that the clock is ahead
	end      func()
}

// hardware is an inventory whose PFs may not be readable.
type hardware struct {
	*inventory.Inventory
	broken atomic.Bool
}

func (h *hardware) PFs() []vf.PF {
	pfs := h.Inventory.PFs()
	if h.broken.Load() {
		pfs[0].VFs, pfs[0].Carrier, pfs[0].Err = nil, false, "sriov_numvfs: input/output error"
	}
	return pfs
}

// spec cuts the VFs of enp1s0 and enp2s0 into x/a and x/b.
func spec() desired.Spec {
	pool := func(name, pf string) desired.Pool {
		return desired.Pool{Name: name, Prefix: "x", DeviceType: desired.NetDevice, Selectors: []desired.Selector{{PFNames: []desired.Part[string]{{PF: pf}}}}}
	}
	return desired.Spec{
		PFs:   []desired.PFRule{{Name: "enp*", Want: desired.PFSpec{VFs: desired.AllVFs, Autoprobe: true, NeedCarrier: true}}},
		Pools: []desired.Pool{pool("a", "enp1s0"), pool("b", "enp2s0")},
	}
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	k := fake.New(fake.IGB, 2)
	m := &machine{Kernel: k, faults: faulty.New(k), t: t, kubelet: newKubelet(t), dir: t.TempDir()}
	ledger, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	m.ledger = ledger
	m.boot()
	m.pass()
	return m
}

// boot starts culvertd.
func (m *machine) boot() {
	m.t.Helper()
	m.node = node.New(node.Config{Kernel: m.faults, Ledger: m.ledger, BootID: "boot 1"})
	m.node.SetSpec(spec())
	m.must(m.node.Start(m.t.Context()))
	m.t.Cleanup(m.node.VFs.Wait)
}

func (m *machine) pass() {
	m.t.Helper()
	if err := m.node.Reconciler.Pass(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// run runs the plugin until the test ends, or m.end is called.
func (m *machine) run() {
	m.t.Helper()
	m.hardware = &hardware{Inventory: m.node.Inventory}
	m.plugin = deviceplugin.New(deviceplugin.Config{
		Dir: m.kubelet.dir, InfoDir: filepath.Join(m.dir, "dp"), CDIDir: filepath.Join(m.dir, "cdi"),
		Hardware: m.hardware, Ledger: m.ledger, Kubelet: m.kubelet, Spec: m.node.WatchSpec, Watch: dirwatch.Watch,
		HostUse: m.node.VFs.HostUse,
		Now:     func() time.Time { return time.Now().Add(time.Duration(m.later.Load())) },
	})
	m.node.VFs.Given = m.plugin.Given
	ctx, cancel := context.WithCancel(m.t.Context())
	wake, err := m.Watch(ctx)
	if err != nil {
		m.t.Fatal(err)
	}
	if _, err := m.node.Inventory.Refresh(ctx); err != nil { // the changes while culvertd did not watch
		m.t.Fatal(err)
	}
	var g errgroup.Group
	g.Go(func() error { return m.plugin.Run(ctx) })
	g.Go(func() error {
		m.node.Inventory.Follow(ctx, wake, 500*time.Millisecond, // as culvertd does
			func(err error) { m.t.Error(err) })
		return nil
	})
	m.end = func() {
		cancel()
		if err := g.Wait(); err != nil {
			m.t.Error(err)
		}
		for _, name := range []string{"x/a", "x/b"} { // the kubelet hears of it a little later
			m.kubelet.knows(name, "-")
		}
	}
	m.t.Cleanup(func() { m.end() })
}

// started returns a machine whose pools are registered.
func started(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.kubelet.start()
	m.run()
	m.kubelet.knows("x/a", "hhhhhhh")
	m.kubelet.knows("x/b", "hhhhhhh")
	return m
}

// pci returns the address of a VF. PFs count from 1, and the VFs of a PF from 0.
func (m *machine) pci(pf, index int) vf.PCIAddr { return m.node.Inventory.PFs()[pf-1].VFs[index].PCI }

// request returns an owner's request for a VF, in the netns of the owner's name.
func (m *machine) request(kind, name string, pci vf.PCIAddr) attach.Request {
	m.AddNetns("/run/netns/" + name)
	return attach.Request{
		Owner: vf.Owner{Kind: kind, UID: name, Name: "default/" + name, Interface: "net1"},
		VF:    pci, Netns: "/run/netns/" + name, Spec: vf.Spec{Interface: "net1"},
	}
}

// attach attaches the VF that is named; the kubelet lists a pod with its VF before.
func (m *machine) attach(kind, name string, pci vf.PCIAddr) journal.Record {
	m.t.Helper()
	if kind == vf.OwnerPod {
		m.kubelet.gives(pci, "default/"+name)
	}
	rec, err := m.node.Engine.Attach(m.t.Context(), m.request(kind, name, pci))
	if err != nil {
		m.t.Fatal(err)
	}
	return rec
}

// troubles waits until the plugin reports n problems.
func (m *machine) troubles(n int) []api.Problem {
	m.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		p := m.plugin.Problems()
		if len(p) == n {
			return p
		}
		if time.Now().After(end) {
			m.t.Fatalf("%d problems are told: %+v", len(p), p)
		}
	}
}

// The plugin waits for a kubelet that is not there yet. It registers again with each kubelet that
// starts, also after one that ended without notice.
func TestKubeletComesAndGoes(t *testing.T) {
	m := newMachine(t)
	m.run()
	if p := m.troubles(2); !strings.Contains(p[1].Reason, "no kubelet yet") {
		t.Errorf("%+v", p)
	}
	m.kubelet.start()
	m.kubelet.knows("x/a", "hhhhhhh")
	m.kubelet.knows("x/b", "hhhhhhh")
	m.troubles(0)
	for range 3 {
		m.kubelet.stop()
		m.kubelet.knows("x/a", "-")
		m.kubelet.start()
		m.kubelet.knows("x/a", "hhhhhhh")
		m.kubelet.knows("x/b", "hhhhhhh")
	}
	registered := m.kubelet.resource("x/a").register
	if registered < 4 || registered > 8 { // a try whose answer was late is repeated
		t.Errorf("x/a was registered %d times for 4 kubelets", registered)
	}
	// A kubelet only clears its folder, as it does when its own socket was removed.
	m.kubelet.eachSocket(func(path string) {
		if !strings.HasSuffix(path, "kubelet.sock") {
			_ = os.Remove(path)
		}
	})
	deadline := time.Now().Add(patience)
	for m.kubelet.resource("x/a").register <= registered {
		if time.Now().After(deadline) {
			t.Fatal("a socket that was removed is not missed")
		}
		time.Sleep(10 * time.Millisecond)
	}
	m.kubelet.knows("x/a", "hhhhhhh")
	m.end()
	m.kubelet.knows("x/a", "-")
	m.kubelet.eachSocket(func(path string) {
		if !strings.HasSuffix(path, "kubelet.sock") {
			t.Errorf("%s is left behind", path)
		}
	})
}

// A plugin that was killed leaves its socket; the next one takes its place.
func TestSocketOfAKilledPlugin(t *testing.T) {
	m := started(t)
	m.end()
	var first string
	m.run()
	m.kubelet.knows("x/a", "hhhhhhh")
	m.kubelet.eachSocket(func(path string) {
		if strings.Contains(path, "culvert-a") {
			first = path
		}
	})
	m.end()
	if err := os.WriteFile(first, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.run()
	m.kubelet.knows("x/a", "hhhhhhh")
}

// I1: the health of a VF follows link, driver, quarantine and owner within a second of
// the event. So the kubelet does not give out a VF that has an owner outside the
// kubelet.
func TestHealthFollows(t *testing.T) {
	for name, tc := range map[string]struct {
		change, back func(*machine)
		want         string
	}{
		"link": {
			func(m *machine) { m.Cable(vf.PCIAddr{Bus: 1}, false) },
			func(m *machine) { m.Cable(vf.PCIAddr{Bus: 1}, true) }, "uuuuuuu",
		},
		"driver": {
			func(m *machine) { m.bind(m.pci(1, 2), "") },
			func(m *machine) { m.bind(m.pci(1, 2), "igbvf") }, "hhuhhhh",
		},
		"VM": {
			func(m *machine) { m.attach(vf.OwnerGuest, "db1", m.pci(1, 0)) },
			func(m *machine) { m.detach("db1") }, "uhhhhhh",
		},
		"pod without the kubelet's knowing": {
			func(m *machine) {
				req := m.request(vf.OwnerPod, "other", vf.PCIAddr{})
				req.Pool = "x/a"
				_, err := m.node.Engine.Attach(m.t.Context(), req)
				m.must(err)
			},
			func(m *machine) { m.detach("other") }, "uhhhhhh",
		},
		"quarantine": {
			func(m *machine) {
				m.attach(vf.OwnerContainer, "c", m.pci(1, 3))
				m.faults.Fail(func(_ faulty.Moment, s step.Step) error {
					if _, ok := s.(step.Move); ok {
						return vf.ErrTimeout
					}
					return nil
				})
				_ = m.node.Resets.Detach(m.t.Context(), vf.Owner{UID: "c", Interface: "net1"})
			}, nil, "hhhuhhh",
		},
		"unplugged": {
			func(m *machine) { m.must(m.RemoveVF(m.pci(1, 6))) },
			func(m *machine) {
				m.must(m.ReturnVF(vf.PCIAddr{Bus: 1, Device: 0x11, Function: 4}))
			}, "hhhhhh",
		},
	} {
		t.Run(name, func(t *testing.T) {
			const within, tries = time.Second, 30 // a machine may be busy for a while
			var took time.Duration
			for range tries {
				m := started(t)
				begun := time.Now()
				tc.change(m)
				m.kubelet.knows("x/a", tc.want)
				took = time.Since(begun)
				m.kubelet.knows("x/b", "hhhhhhh")
				if tc.back != nil {
					tc.back(m)
					m.kubelet.knows("x/a", "hhhhhhh")
				}
				m.end()
				if took < within {
					return
				}
			}
			t.Errorf("the kubelet knows after %s, and in none of %d tries within %s", took, tries, within)
		})
	}
}

// A PF that cannot be read keeps its VFs on the kubelet's list. They stay healthy for a while, so that
// a pod that the kubelet admits meanwhile does not fail for good. Then they are unhealthy.
func TestUnreadablePF(t *testing.T) {
	m := started(t)
	look := func(broken bool) {
		m.hardware.broken.Store(broken)
		if _, err := m.node.Inventory.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	m.later.Store(int64(-time.Hour)) // it stays within the grace, however busy the machine is
	look(true)
	if _, err := m.kubelet.allocate("x/a", m.node.Inventory.PFs()[0].VFs[1].PCI.String()); err != nil {
		t.Errorf("a pod comes at the moment when the PF cannot be read: %v", err)
	}
	m.steady("x/a", "hhhhhhh")
	m.later.Store(0)
	m.kubelet.knows("x/a", "uuuuuuu")
	m.kubelet.knows("x/b", "hhhhhhh")
	_, err := m.kubelet.allocate("x/a", m.node.Inventory.PFs()[0].VFs[0].PCI.String())
	if err == nil || !strings.Contains(err.Error(), "PF enp1s0 cannot be read: sriov_numvfs: input/output error") {
		t.Errorf("%v", err)
	}
	look(false)
	m.kubelet.knows("x/a", "hhhhhhh")
}

// While nothing happens, the plugin does not list the hardware for a whole second: the kubelet's
// list follows events, and the plugin does not poll.
func TestNothingIsPolled(t *testing.T) {
	m := started(t)
	for end := time.Now().Add(patience); ; { // first, the work that the start caused ends
		listed := m.node.Inventory.Listed()
		m.steady("x/a", "hhhhhhh")
		again := m.node.Inventory.Listed()
		if again.Equal(listed) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the hardware was listed %s later, and nothing had happened", again.Sub(listed))
		}
	}
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) bind(a vf.PCIAddr, driver string) {
	m.must(m.Meddle(a, func(st *vf.State) { st.Driver = driver }))
}

func (m *machine) detach(name string) {
	m.t.Helper()
	m.must(m.node.Resets.Detach(m.t.Context(), vf.Owner{UID: name, Interface: "net1"}))
}

// A VF that the kubelet gave to the pod which has it is healthy all the time, also if culvertd
// started after the kubelet gave it, and while the kubelet does not answer.
func TestHolderThatTheKubeletKnows(t *testing.T) {
	m := started(t)
	pci := m.pci(1, 0)
	if _, err := m.kubelet.allocate("x/a", pci.String()); err != nil {
		t.Fatal(err)
	}
	m.attach(vf.OwnerPod, "a", pci)
	if _, err := m.node.Inventory.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.steady("x/a", "hhhhhhh")
	m.end()
	m.run()
	m.kubelet.knows("x/a", "hhhhhhh")
	m.steady("x/a", "hhhhhhh")
	m.detach("a")
	m.kubelet.gives(pci, "")
	m.steady("x/a", "hhhhhhh")

	m.attach(vf.OwnerPod, "b", pci)
	m.kubelet.mu.Lock()
	m.kubelet.answers = vf.ErrNotReady
	m.kubelet.mu.Unlock()
	m.steady("x/a", "hhhhhhh")
}

// I2: a pod uses its VF by another plugin, which moves the interface into the pod. The VF stays
// healthy while the pod has it, also for a culvertd that started later: the scheduler subtracts the
// VFs of pods from the healthy ones. A free VF without interface that no pod has is unhealthy.
func TestPodUsesItsVFByAnotherPlugin(t *testing.T) {
	m := started(t)
	pci := m.pci(1, 0)
	if _, err := m.kubelet.allocate("x/a", pci.String()); err != nil {
		t.Fatal(err)
	}
	m.kubelet.gives(pci, "default/a")
	m.AddNetns("/run/netns/pod")
	m.must(m.Meddle(pci, func(st *vf.State) { st.Link.Netns = "/run/netns/pod" }))
	look := func() {
		t.Helper()
		if _, err := m.node.Inventory.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	look()
	m.steady("x/a", "hhhhhhh")
	m.end()
	m.run()
	m.kubelet.knows("x/a", "hhhhhhh")
	look()
	m.steady("x/a", "hhhhhhh")
	m.kubelet.gives(pci, "")
	look()
	m.kubelet.knows("x/a", "uhhhhhh")
}

// No pod gets a free VF while the host uses it. The interface stays in its place below a bridge, so
// the device plugin learns of that use by HostUse alone.
func TestVFsThatTheHostUsesAreUnhealthy(t *testing.T) {
	m := started(t)
	changed := m.pci(1, 0)
	pass := func() {
		t.Helper()
		pfs, err := m.node.Inventory.Refresh(t.Context())
		m.must(err)
		m.must(m.node.Upkeep.Tend(t.Context(), pfs))
	}
	m.must(m.Occupy(changed, "the host uses it as ens1f0v0 below br0"))
	m.must(m.Meddle(changed, func(st *vf.State) { st.Link.Up = true }))
	pass()
	m.kubelet.knows("x/a", "uhhhhhh")
	m.must(m.Occupy(changed, ""))
	pass()
	m.kubelet.knows("x/a", "hhhhhhh")

	// The use ends, and the VF is as it was left: then nothing has to be mended.
	m.must(m.Meddle(changed, func(st *vf.State) { st.Link.Up = true }))
	m.must(m.Occupy(changed, "the host uses it as ens1f0v0 below br0"))
	pass()
	m.kubelet.knows("x/a", "uhhhhhh")
	m.must(m.Meddle(changed, func(st *vf.State) { st.Link.Up = false }))
	pass()
	m.steady("x/a", "uhhhhhh")
	m.must(m.Occupy(changed, ""))
	pass()
	m.kubelet.knows("x/a", "hhhhhhh")
}

// A kubelet that has just started lists no pod until it has read them from the API server. culvertd
// counts their VFs as taken by others only until it asks the kubelet again, for the next pod.
func TestHolderThatTheKubeletListsLater(t *testing.T) {
	m := started(t)
	pci := m.pci(1, 0)
	if _, err := m.kubelet.allocate("x/a", pci.String()); err != nil {
		t.Fatal(err)
	}
	m.attach(vf.OwnerPod, "a", pci)
	m.steady("x/a", "hhhhhhh")
	m.end()
	m.kubelet.gives(pci, "")
	m.run()
	m.kubelet.knows("x/a", "uhhhhhh")
	m.kubelet.gives(pci, "default/a")
	next := m.pci(1, 1)
	if _, err := m.kubelet.allocate("x/a", next.String()); err != nil {
		t.Fatal(err)
	}
	m.attach(vf.OwnerPod, "b", next)
	m.kubelet.knows("x/a", "hhhhhhh")
}

// culvertd is killed and started again: the devices are as before, and each owner keeps its VF.
func TestKilledAndStartedAgain(t *testing.T) {
	m := started(t)
	pci := m.pci(1, 0)
	if _, err := m.kubelet.allocate("x/a", pci.String()); err != nil {
		t.Fatal(err)
	}
	m.attach(vf.OwnerPod, "a", pci)
	m.attach(vf.OwnerGuest, "db1", m.pci(1, 1))
	m.kubelet.knows("x/a", "huhhhhh")
	m.end()
	m.boot()
	m.run()
	m.kubelet.knows("x/a", "huhhhhh")
	m.steady("x/a", "huhhhhh")
	if err := m.node.Engine.Check(t.Context(), vf.Owner{UID: "a", Interface: "net1"}, attach.Request{}); err != nil {
		t.Errorf("the pod's VF: %v", err)
	}
}

// steady requires that the kubelet's list of a resource stays as wanted for a second.
func (m *machine) steady(name, want string) {
	m.t.Helper()
	for end := time.After(time.Second); ; {
		m.kubelet.mu.Lock()
		changed, got := m.kubelet.changed, m.kubelet.text(name)
		m.kubelet.mu.Unlock()
		if got != want {
			m.t.Fatalf("%s is %s, want %s", name, got, want)
		}
		select {
		case <-changed:
		case <-end:
			return
		}
	}
}

// Pools appear, change and vanish with the Spec, and VFs with the hardware.
func TestPoolsFollowTheSpec(t *testing.T) {
	m := started(t)
	s := spec()
	s.Pools = []desired.Pool{s.Pools[0], {Name: "c", Prefix: "y.org", DeviceType: desired.NetDevice}}
	s.Pools[0].Selectors[0].PFNames[0].Indexes = []desired.Range{{First: 0, Last: 2}}
	m.node.SetSpec(s)
	m.kubelet.knows("x/a", "hhh")
	m.kubelet.knows("x/b", "-")
	m.kubelet.knows("y.org/c", "hhhhhhhhhhh")
	m.node.SetSpec(desired.Spec{PFs: s.PFs})
	m.kubelet.knows("x/a", "-")
	m.node.SetSpec(spec())
	m.kubelet.knows("x/a", "hhhhhhh")
	m.must(m.WriteNumVFs(vf.PCIAddr{Bus: 2}, 3))
	m.kubelet.knows("x/b", "hhh")
	m.must(m.WriteNumVFs(vf.PCIAddr{Bus: 2}, 0))
	m.kubelet.knows("x/b", "")
}

// I7: a pool that the kubelet does not take keeps none of the others from pods.
func TestI7RefusedPoolHidesNoOther(t *testing.T) {
	m := newMachine(t)
	m.kubelet.refuses["x/a"] = true
	m.kubelet.start()
	m.run()
	m.kubelet.knows("x/b", "hhhhhhh")
	if p := m.troubles(1); p[0].Object != "pool x/a" || !strings.Contains(p[0].Reason, "is refused") {
		t.Errorf("%+v", p)
	}
	m.kubelet.mu.Lock()
	m.kubelet.refuses["x/a"] = false
	m.kubelet.mu.Unlock()
	m.kubelet.knows("x/a", "hhhhhhh")
}

func TestAllocate(t *testing.T) {
	m := started(t)
	a := m.pci(1, 0)
	got, err := m.kubelet.allocate("x/a", a.String(), m.pci(1, 1).String())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"PCIDEVICE_X_A":      "0000:01:10.0,0000:01:10.2",
		"PCIDEVICE_X_A_INFO": `{"0000:01:10.0":{"generic":{"deviceID":"0000:01:10.0"}},"0000:01:10.2":{"generic":{"deviceID":"0000:01:10.2"}}}`,
	}
	if diff := cmp.Diff(want, got.GetEnvs()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(got.GetMounts())+len(got.GetDevices())+len(got.GetCdiDevices()) > 0 {
		t.Errorf("a netdevice brings %v", got)
	}
	// The kubelet gives an init container's devices to the next container again.
	if _, err := m.kubelet.allocate("x/a", a.String()); err != nil {
		t.Error(err)
	}
}

// A pool that is offered to claims has no device for the kubelet, whose calls with an older list are
// refused. A pod that has a VF keeps it with its files. Offered as a resource again, it has its devices
// back.
func TestPoolOfClaimsHasNoDevice(t *testing.T) {
	m := started(t)
	m.attach(vf.OwnerPod, "p", m.pci(1, 0))
	claims := spec()
	claims.Pools[0].Offer = desired.OfferClaims
	m.node.SetSpec(claims)
	m.kubelet.knows("x/a", "")
	m.kubelet.knows("x/b", "hhhhhhh")
	_, err := m.kubelet.allocate("x/a", m.pci(1, 1).String())
	if err == nil || !strings.Contains(err.Error(), "pool x/a: it is offered to ResourceClaims") {
		t.Errorf("a VF of a pool of claims is given: %v", err)
	}
	if files, _ := filepath.Glob(filepath.Join(m.dir, "dp", "x-a-*")); len(files) != 7 {
		t.Errorf("device-info files: %q", files)
	}
	m.node.SetSpec(spec())
	m.kubelet.knows("x/a", "hhhhhhh")
}

// I1: culvertd does not promise a pod a VF that is not free, although the kubelet's
// view may be old. A VF that is promised is not chosen for another owner.
func TestI1AllocateAndOthers(t *testing.T) {
	m := started(t)
	held := m.pci(1, 0)
	m.attach(vf.OwnerGuest, "db1", held)
	_, err := m.kubelet.allocate("x/a", held.String())
	if err == nil || !strings.Contains(err.Error(), "pool x/a: VF 0000:01:10.0 cannot be given to a pod: held by vm default/db1") {
		t.Errorf("held by a VM: %v", err)
	}
	for id, says := range map[string]string{"0000:02:10.0": "not in the pool any more", "GPU-1": "none of Culvert's"} {
		if _, err := m.kubelet.allocate("x/a", id); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", id, err)
		}
	}
	for i := 1; i < 7; i++ {
		if _, err := m.kubelet.allocate("x/a", m.pci(1, i).String()); err != nil {
			t.Fatal(err)
		}
	}
	req := m.request(vf.OwnerContainer, "c", vf.PCIAddr{})
	req.Pool = "x/a"
	if rec, err := m.node.Engine.Attach(t.Context(), req); err == nil {
		t.Errorf("%s was promised to a pod", rec.PCI)
	}
	// A VF that the plugin refused is not promised.
	m.detach("db1")
	if rec, err := m.node.Engine.Attach(t.Context(), req); err != nil || rec.PCI != held {
		t.Errorf("%s, %v; want %s", rec.PCI, err, held)
	}
}

// I3: Allocate waits for a VF that its last pod is giving back, and the VF is clean then.
func TestI3AllocateWaitsForTheLastPod(t *testing.T) {
	m := started(t)
	pci := m.pci(1, 0)
	if _, err := m.kubelet.allocate("x/a", pci.String()); err != nil {
		t.Fatal(err)
	}
	m.attach(vf.OwnerPod, "a", pci)
	going, gone := make(chan struct{}), make(chan struct{})
	m.faults.Fail(func(at faulty.Moment, s step.Step) error {
		if _, ok := s.(step.Move); ok && at == faulty.Before {
			close(going)
			<-gone
		}
		return nil
	})
	var g errgroup.Group
	g.Go(func() error { return m.node.Resets.Detach(t.Context(), vf.Owner{UID: "a", Interface: "net1"}) })
	<-going
	g.Go(func() error {
		_, err := m.kubelet.allocate("x/a", pci.String())
		return err
	})
	time.Sleep(100 * time.Millisecond) // the kubelet asks meanwhile
	close(gone)
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// I1: the kubelet gives a VF again before its last pod's networks are taken down.
// The new pod is not ended for that: its ADD is refused until the VF is free.
func TestI1AllocateBeforeTheLastPodIsGone(t *testing.T) {
	m := started(t)
	pci := m.pci(1, 0)
	if _, err := m.kubelet.allocate("x/a", pci.String()); err != nil {
		t.Fatal(err)
	}
	m.attach(vf.OwnerPod, "a", pci)
	if _, err := m.kubelet.allocate("x/a", pci.String()); err != nil {
		t.Errorf("pod a has the VF still: %v", err)
	}
	if rec, err := m.node.Engine.Attach(t.Context(), m.request(vf.OwnerPod, "b", pci)); !errors.Is(err, vf.ErrHeld) {
		t.Errorf("pod a has the VF still, and pod b gets it: %+v, %v", rec, err)
	}
	m.detach("a")
	m.attach(vf.OwnerPod, "b", pci)
}

// I1: culvertd does not give a pod a VF with device nodes while the VF's last pod has
// it. The pod could open the nodes before its networks are set up.
func TestI1AllocateOfDeviceNodes(t *testing.T) {
	m := newMachine(t)
	s := spec()
	s.Pools[0].DeviceType = desired.VFIO
	m.node.SetSpec(s)
	m.pass()
	m.kubelet.start()
	m.run()
	m.kubelet.knows("x/a", "hhhhhhh")
	pci := m.pci(1, 0)
	if _, err := m.kubelet.allocate("x/a", pci.String()); err != nil {
		t.Fatal(err)
	}
	m.attach(vf.OwnerPod, "a", pci)
	if _, err := m.kubelet.allocate("x/a", pci.String()); err == nil || !strings.Contains(err.Error(), "another pod has it still") {
		t.Errorf("pod a has the VF still: %v", err)
	}
	m.detach("a")
	if _, err := m.kubelet.allocate("x/a", pci.String()); err != nil {
		t.Error(err)
	}
}

// I1: no VF is promised to a pod and held by another owner. Meanwhile the kubelet gives
// VFs to pods, and other owners take any of the pool.
func TestI1RaceOfAllocateAndOthers(t *testing.T) {
	m := started(t)
	for range 5 {
		var (
			g     errgroup.Group
			mu    sync.Mutex // guards both
			pods  = map[vf.PCIAddr]bool{}
			taken = map[vf.PCIAddr]string{}
		)
		for i := range 7 {
			pci := m.pci(1, i)
			g.Go(func() error {
				if _, err := m.kubelet.allocate("x/a", pci.String()); err == nil {
					mu.Lock()
					defer mu.Unlock()
					pods[pci] = true
				}
				return nil
			})
			req := m.request(vf.OwnerContainer, fmt.Sprintf("c%d", i), vf.PCIAddr{})
			req.Pool = "x/a"
			g.Go(func() error {
				if rec, err := m.node.Engine.Attach(t.Context(), req); err == nil {
					mu.Lock()
					defer mu.Unlock()
					taken[rec.PCI] = req.Owner.UID
				}
				return nil
			})
		}
		m.must(g.Wait())
		for pci, who := range taken {
			if pods[pci] {
				t.Errorf("%s was given to a pod and to %s", pci, who)
			}
			m.detach(who)
		}
		if len(taken)+len(pods) < 7 {
			t.Errorf("%d VFs for pods, %d for others, of 7", len(pods), len(taken))
		}
		m.end()
		m.run() // forgets the promises, as if the pods had come and gone
		m.kubelet.knows("x/a", "hhhhhhh")
	}
}
