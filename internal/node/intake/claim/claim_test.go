package claim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/dirwatch"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/intake/claim"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

const netnsA = "/run/netns/a"

// cluster has the claims of an API server, and counts how often it is asked.
type cluster struct {
	mu     sync.Mutex // guards the rest
	claims map[string]api.ResourceClaim
	asked  int
	err    error
}

func (c *cluster) ResourceClaim(_ context.Context, namespace, name string) (api.ResourceClaim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	obj, there := c.claims[namespace+"/"+name]
	if c.err == nil && !there {
		return obj, fmt.Errorf("ResourceClaim %s/%s: %w in the cluster", namespace, name, vf.ErrNotFound)
	}
	return obj, c.err
}

// change changes a claim.
func (c *cluster) change(name string, f func(*api.ResourceClaim)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	obj := c.claims["d/"+name]
	f(&obj)
	c.claims["d/"+name] = obj
}

// pods are the claims of a kubelet's pods.
type pods struct {
	claims map[string]bool
	err    error
}

func (p *pods) Claims(context.Context) (map[string]bool, error) { return p.claims, p.err }

// host is a machine with culvertd's driver.
type host struct {
	t       *testing.T
	k       *fake.Kernel
	ledger  *journal.Ledger
	node    *node.Node
	cluster *cluster
	kubelet *pods
	skew    time.Duration
	// patience is that of the driver; looked is called before each look at the VFs of a claim.
	patience time.Duration
	looked   func()
	dir      string
	driver   *claim.Driver
}

// newHost returns a machine with VFs 0 and 1 of each PF as netdevices, and the others for user space.
func newHost(t *testing.T) *host {
	t.Helper()
	dir, err := os.MkdirTemp("", "claims") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h := &host{t: t, k: fake.New(fake.IGB, 2), dir: dir, cluster: &cluster{claims: map[string]api.ResourceClaim{}}, kubelet: &pods{claims: map[string]bool{}}, patience: time.Nanosecond, looked: func() {}}
	h.k.AddNetns(netnsA)
	h.start()
	t.Cleanup(func() { h.node.VFs.Wait(); _ = h.ledger.Close() })
	return h
}

// start starts culvertd, which may have run before.
func (h *host) start() {
	h.t.Helper()
	if h.ledger != nil {
		h.node.VFs.Wait()
		_ = h.ledger.Close()
	}
	var err error
	if h.ledger, err = journal.Open(filepath.Join(h.dir, "ledger.db"), journal.Options{NoSync: true}); err != nil {
		h.t.Fatal(err)
	}
	now := func() time.Time { return time.Now().Add(h.skew) }
	h.node = node.New(node.Config{Kernel: faulty.New(h.k), Ledger: h.ledger, BootID: "boot 1", Now: now})
	spec, err := desired.Parse("host.yaml", []byte("pfs: [{name: '*', vfs: 4}]\npools:\n- {name: net, prefix: x, offer: claims, selectors: {pfNames: ['*#0-1']}}\n- {name: user, prefix: x, offer: claims, deviceType: vfio-pci}\n"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.node.SetSpec(spec)
	if err := errors.Join(h.node.Start(h.t.Context()), h.node.Reconciler.Pass(h.t.Context())); err != nil {
		h.t.Fatal(err)
	}
	h.driver = claim.New(claim.Config{
		Node: "n1", KubeletDir: h.dir, CDIDir: filepath.Join(h.dir, "cdi"), MetadataDir: filepath.Join(h.dir, "metadata"), Claims: h.node.Claims, Cluster: h.cluster, Kubelet: h.kubelet,
		Records: h.node.Records, PFs: h.node.Inventory.PFs, Spec: h.node.VFs.Spec, Uses: h.k.Uses, Watch: dirwatch.Watch, Now: now,
		Patience: h.patience,
		Changed: func() <-chan struct{} {
			h.looked()
			return h.ledger.Changed()
		},
	})
}

// allocate has the scheduler allocate VFs of the first PF to a claim of pod d/a, each to a request of its
// own: vf0 for VF 0.
func (h *host) allocate(name string, indexes ...int) *drapb.Claim {
	obj := api.ResourceClaim{Namespace: "d", Name: name, UID: "uid-" + name, Allocated: true, Pods: []api.ClaimPod{{Name: "a", UID: "pod-a"}}}
	obj.Results = []api.ClaimResult{{Request: "gpu", Driver: "gpu.example", Pool: "n1", Device: "gpu-0"}}
	for _, i := range indexes {
		obj.Results = append(obj.Results, api.ClaimResult{Request: fmt.Sprint("vf", i, "/sub"), Driver: "culvert.dev", Pool: h.pool(), Device: fmt.Sprint("vf-", i)})
	}
	h.cluster.change(name, func(o *api.ResourceClaim) { *o = obj })
	return &drapb.Claim{Namespace: "d", Name: name, UID: obj.UID}
}

// pool returns the name of the DRA pool of the first PF.
func (h *host) pool() string {
	return "n1/" + strings.ReplaceAll(h.node.Inventory.PFs()[0].ID.MAC.String(), ":", "-") + portOf(h.node.Inventory.PFs()[0])
}

func portOf(pf vf.PF) string {
	if pf.ID.Port == "" {
		return ""
	}
	return "." + strings.ToLower(pf.ID.Port)
}

// record returns the record of a VF of the first PF.
func (h *host) record(index int) (rec journal.Record) {
	h.t.Helper()
	err := h.ledger.View(func(tx *journal.Tx) (err error) {
		for _, p := range tx.Verify() {
			h.t.Errorf("the ledger cannot be true: %s", p)
		}
		rec, err = tx.Record(vf.ID{PF: h.node.Inventory.PFs()[0].ID, Index: index})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return rec
}

// prepare calls NodePrepareResources for claims, and returns the errors by name.
func (h *host) prepare(claims ...*drapb.Claim) (*drapb.NodePrepareResourcesResponse, map[string]string) {
	h.t.Helper()
	answer, err := h.driver.NodePrepareResources(h.t.Context(), &drapb.NodePrepareResourcesRequest{Claims: claims})
	if err != nil {
		h.t.Fatal(err)
	}
	errs := map[string]string{}
	for uid, a := range answer.Claims {
		errs[strings.TrimPrefix(uid, "uid-")] = a.Error
	}
	return answer, errs
}

// unprepare calls NodeUnprepareResources for claims, and returns the errors by UID.
func (h *host) unprepare(claims ...*drapb.Claim) map[string]string {
	h.t.Helper()
	answer, err := h.driver.NodeUnprepareResources(h.t.Context(), &drapb.NodeUnprepareResourcesRequest{Claims: claims})
	if err != nil {
		h.t.Fatal(err)
	}
	errs := map[string]string{}
	for uid, a := range answer.Claims {
		errs[uid] = a.Error
	}
	return errs
}

// cdiFiles returns the CDI files of claims, by name.
func (h *host) cdiFiles() map[string]string {
	h.t.Helper()
	out := map[string]string{}
	names, err := filepath.Glob(filepath.Join(h.dir, "cdi", "*.json"))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			h.t.Fatal(err)
		}
		out[filepath.Base(name)] = string(text)
	}
	return out
}

// add attaches a VF of a claim to pod d/a.
func (h *host) add(index int) error {
	rec := h.record(index)
	_, err := h.node.Engine.Attach(h.t.Context(), attach.Request{
		Owner: vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "d/a", Interface: "net1"}, PodUID: "pod-a", Netns: netnsA, VF: rec.PCI,
		Spec: vf.Spec{Interface: "net1"},
	})
	return err
}

// I1, I8: the kubelet finds the driver by its registration, and prepares and ends a claim over the socket.
// Prepare asks the API server once; later calls, also after a restart of culvertd, answer the same from
// the ledger while the API server is away.
func TestI8ClaimOverTheSocket(t *testing.T) {
	h := newHost(t)
	c := h.allocate("c", 1, 2)
	h.cluster.change("c", func(o *api.ResourceClaim) {
		o.Configs = []api.ClaimConfig{
			{Source: api.FromClass, Driver: "culvert.dev", Parameters: []byte(`{"apiVersion":"culvert.dev/v1alpha1","kind":"VFConfig","mtu":1400}`)},
			{Source: api.FromClaim, Driver: "culvert.dev", Requests: []string{"vf1"}, Parameters: []byte(`{"apiVersion":"culvert.dev/v1alpha1","kind":"VFConfig","vlan":7}`)},
			{Source: api.FromClaim, Driver: "gpu.example", Parameters: []byte(`{}`)},
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return h.driver.Run(ctx) })
	conn, err := grpc.NewClient("unix:"+filepath.Join(h.dir, "plugins_registry", "culvert.dev-reg.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	kubelet := registerapi.NewRegistrationClient(conn)
	info, err := kubelet.GetInfo(t.Context(), &registerapi.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil || info.Type != "DRAPlugin" || info.Name != "culvert.dev" || info.Endpoint != "" || !slices.Contains(info.SupportedVersions, "v1.DRAPlugin") {
		t.Fatalf("%v, %v", info, err)
	}
	if _, err := kubelet.NotifyRegistrationStatus(t.Context(), &registerapi.RegistrationStatus{PluginRegistered: true}); err != nil {
		t.Error(err)
	}
	client := drapb.NewDRAPluginClient(conn)
	first, err := client.NodePrepareResources(t.Context(), &drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{c}}, grpc.WaitForReady(true))
	want := []*drapb.Device{
		{RequestNames: []string{"vf1"}, PoolName: h.pool(), DeviceName: "vf-1", CDIDeviceIDs: []string{"culvert.dev/claim=uid-c_vf1.sub"}},
		{RequestNames: []string{"vf2"}, PoolName: h.pool(), DeviceName: "vf-2", CDIDeviceIDs: []string{"culvert.dev/claim=uid-c_vf2.sub"}},
	}
	if d := cmp.Diff(want, first.GetClaims()["uid-c"].GetDevices()); err != nil || d != "" {
		t.Fatalf("%v, %s\n%s", err, first, d)
	}
	if a, b := string(h.record(1).Claim.Config), string(h.record(2).Claim.Config); !strings.Contains(a, "vlan") || !strings.Contains(b, "mtu") {
		t.Errorf("the configurations are %s and %s", a, b)
	}
	files := h.cdiFiles()
	stop()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	h.start()
	h.cluster.err = vf.ErrNotReady
	second, errs := h.prepare(c)
	if d := cmp.Diff(want, second.Claims["uid-c"].Devices); d != "" || errs["c"] != "" || h.cluster.asked != 1 {
		t.Errorf("after a restart: %s, the API server was asked %d times\n%s", errs["c"], h.cluster.asked, d)
	}
	if d := cmp.Diff(files, h.cdiFiles()); d != "" {
		t.Errorf("the CDI files, -before +after the restart:\n%s", d)
	}
	if err := h.add(1); err != nil {
		t.Fatal(err)
	}
	if _, errs := h.prepare(c); errs["c"] != "" {
		t.Errorf("the kubelet prepares a claim that its pod uses: %s", errs["c"])
	}
	for range 2 {
		if errs := h.unprepare(c); errs["uid-c"] != "" || len(errs) != 1 {
			t.Errorf("Unprepare: %v", errs)
		}
	}
	if h.record(1).Phase != vf.PhaseFree || h.record(2).Phase != vf.PhaseFree || len(h.cdiFiles()) != 0 || h.cluster.asked != 1 {
		t.Errorf("after Unprepare: %s, %s, %v, asked %d times", h.record(1).Phase, h.record(2).Phase, h.cdiFiles(), h.cluster.asked)
	}
}

// A container has the variables of the device plugin, and the device nodes of VFs of user space.
func TestCDIFile(t *testing.T) {
	h := newHost(t)
	h.prepare(h.allocate("c", 0, 2))
	var spec struct {
		Kind    string
		Devices []struct {
			Name           string
			ContainerEdits struct {
				Env         []string
				DeviceNodes []struct{ Path string }
			}
		}
	}
	if err := json.Unmarshal([]byte(h.cdiFiles()["culvert.dev-claim_uid-c.json"]), &spec); err != nil || len(spec.Devices) != 2 {
		t.Fatalf("%+v, %v, %v", spec, err, h.cdiFiles())
	}
	net, user := spec.Devices[0].ContainerEdits, spec.Devices[1].ContainerEdits
	if len(net.DeviceNodes) != 0 || !slices.Contains(net.Env, "PCIDEVICE_X_NET="+h.record(0).PCI.String()) || len(net.Env) != 2 {
		t.Errorf("the netdevice: %+v", net)
	}
	if len(user.DeviceNodes) != 2 || !slices.Contains(user.Env, "PCIDEVICE_X_USER="+h.record(2).PCI.String()) || !strings.HasPrefix(user.Env[1], "PCIDEVICE_X_USER_INFO={") {
		t.Errorf("the VF of user space: %+v", user)
	}
}

// I1, I7, I9: a claim that cannot be prepared is refused with the reason, and does not keep the others of
// the call. A refused claim has nothing in the ledger and no file.
func TestI7OneBadClaim(t *testing.T) {
	h := newHost(t)
	good := h.allocate("good", 0)
	bad := map[string]func(*api.ResourceClaim){
		"has UID other now":           func(o *api.ResourceClaim) { o.UID = "other" },
		"has not allocated it":        func(o *api.ResourceClaim) { o.Allocated = false },
		"reserved for no pod":         func(o *api.ResourceClaim) { o.Pods = nil },
		"adminAccess":                 func(o *api.ResourceClaim) { o.Results[1].AdminAccess = true },
		"a share of the device":       func(o *api.ResourceClaim) { o.Results[1].ShareID = "s" },
		"not of node n1":              func(o *api.ResourceClaim) { o.Results[1].Pool = "n10/x" },
		"PF is not on the node":       func(o *api.ResourceClaim) { o.Results[1].Pool = "n1/x" },
		"want the name of a VF":       func(o *api.ResourceClaim) { o.Results[1].Device = "pf-1" },
		"has 4 VFs":                   func(o *api.ResourceClaim) { o.Results[1].Device = "vf-9" },
		"held by claim d/good":        func(o *api.ResourceClaim) { o.Results[1].Device = "vf-0" },
		"its configuration: vlan":     func(o *api.ResourceClaim) { o.Configs = configs(`"vlan":"x"`) },
		"ResourceClaim d/gone: not f": nil,
	}
	h.prepare(good)
	claims, want := []*drapb.Claim{good}, map[string]string{"good": ""}
	for says, change := range bad {
		name := fmt.Sprint("bad", len(claims))
		if change == nil {
			name = "gone"
			claims = append(claims, &drapb.Claim{Namespace: "d", Name: name, UID: "uid-gone"})
		} else {
			claims = append(claims, h.allocate(name, 1, 2))
			h.cluster.change(name, change)
		}
		want[name] = says
	}
	_, errs := h.prepare(claims...)
	for name, says := range want {
		if got := errs[name]; !strings.Contains(got, says) || (got == "") != (says == "") || says != "" && !strings.HasPrefix(got, "claim d/"+name+": ") {
			t.Errorf("claim %s: %q, want %q", name, got, says)
		}
	}
	if len(errs) != len(want) || len(h.cdiFiles()) != 1 || h.record(1).Phase != vf.PhaseFree || h.record(2).Phase != vf.PhaseFree {
		t.Errorf("%d answers, files %v, VFs %s and %s", len(errs), h.cdiFiles(), h.record(1).Phase, h.record(2).Phase)
	}
	odd := &drapb.Claim{Namespace: "d", Name: "odd", UID: "../x"}
	if _, errs := h.prepare(odd); !strings.Contains(errs["../x"], "want letters") {
		t.Errorf("a UID that is a path: %v", errs)
	}
	h.cluster.err = vf.ErrNotReady
	if _, errs := h.prepare(h.allocate("late", 1)); errs["late"] == "" {
		t.Error("a claim is prepared without an answer of the API server")
	}
	if errs := h.unprepare(claims...); len(errs) != len(claims) || slices.ContainsFunc(claims, func(c *drapb.Claim) bool { return errs[c.UID] != "" }) {
		t.Errorf("Unprepare of claims that have no VF: %v", errs)
	}
}

func configs(keys string) []api.ClaimConfig {
	return []api.ClaimConfig{{Source: api.FromClaim, Driver: "culvert.dev", Parameters: []byte(`{"apiVersion":"culvert.dev/v1alpha1","kind":"VFConfig",` + keys + `}`)}}
}

// I1: a claim of two VFs of which one has gone from the bus is prepared anew, from the API server.
func TestI1ClaimThatLostAVF(t *testing.T) {
	h := newHost(t)
	c := h.allocate("c", 0, 1)
	h.prepare(c)
	lost := h.record(1)
	if err := errors.Join(h.k.RemoveVF(lost.PCI), h.node.Reconciler.Pass(t.Context())); err != nil {
		t.Log(err)
	}
	if _, errs := h.prepare(c); errs["c"] == "" || h.record(0).Phase != vf.PhasePrepared {
		t.Errorf("without a VF: %q; the other is %s", errs["c"], h.record(0).Phase)
	}
	if err := errors.Join(h.k.ReturnVF(lost.PCI), h.node.Reconciler.Pass(t.Context())); err != nil {
		t.Fatal(err)
	}
	if answer, errs := h.prepare(c); errs["c"] != "" || len(answer.Claims["uid-c"].Devices) != 2 {
		t.Errorf("with the VF again: %q, %v", errs["c"], answer)
	}
}

// I1, I3: a claim whose Unprepare is lost ends when the API server, the kubelet and the kernel agree for
// ten minutes. Each of them can keep it, and a look without an answer begins anew.
func TestI3LostClaims(t *testing.T) {
	ends := func(h *host, minutes int) bool {
		h.t.Helper()
		for range minutes {
			h.skew += time.Minute
			_ = h.driver.EndLost(h.t.Context())
		}
		return h.record(2).Phase == vf.PhaseFree
	}
	gone := func(h *host) { delete(h.cluster.claims, "d/c") }
	user := func(h *host, by ...vf.Process) {
		if err := h.k.Open(h.record(2).PCI, by...); err != nil {
			h.t.Fatal(err)
		}
	}
	for name, keeps := range map[string]struct{ keep, release func(*host) }{
		"the API server":            {func(*host) {}, gone},
		"no API server":             {func(h *host) { gone(h); h.cluster.err = vf.ErrNotReady }, func(h *host) { h.cluster.err = nil }},
		"the kubelet":               {func(h *host) { gone(h); h.kubelet.claims["d/c"] = true }, func(h *host) { h.kubelet.claims = nil }},
		"no kubelet":                {func(h *host) { gone(h); h.kubelet.err = vf.ErrNotReady }, func(h *host) { h.kubelet.err = nil }},
		"a process":                 {func(h *host) { gone(h); user(h, vf.Process{PID: 7, Name: "dpdk"}) }, func(h *host) { user(h) }},
		"an allocation of its name": {func(*host) {}, func(h *host) { h.cluster.change("c", func(o *api.ResourceClaim) { o.UID = "another" }) }},
		"until it is deallocated":   {func(*host) {}, func(h *host) { h.cluster.change("c", func(o *api.ResourceClaim) { o.Allocated = false }) }},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.prepare(h.allocate("c", 2))
			keeps.keep(h)
			if ends(h, 40) {
				t.Fatal("the claim has ended, although that kept it")
			}
			keeps.release(h)
			if ends(h, 10) {
				t.Error("the claim has ended too early")
			}
			if !ends(h, 2) || len(h.cdiFiles()) != 0 {
				t.Errorf("the claim has not ended, files %v", h.cdiFiles())
			}
		})
	}
}

// A claim that is in use costs no request to the API server.
func TestEndLostAsksNothingAboutLeases(t *testing.T) {
	h := newHost(t)
	h.prepare(h.allocate("c", 0))
	if err := h.add(0); err != nil {
		t.Fatal(err)
	}
	h.skew += time.Hour
	h.kubelet.err = errors.New("the kubelet is not to be asked")
	if err := h.driver.EndLost(t.Context()); err != nil || h.cluster.asked != 1 {
		t.Errorf("%v, asked %d times", err, h.cluster.asked)
	}
}

// I1: calls about the same and other claims run at once. Each claim has its VFs, or none.
func TestI1ConcurrentCalls(t *testing.T) {
	h := newHost(t)
	var g errgroup.Group
	claims := []*drapb.Claim{h.allocate("a", 0, 1), h.allocate("b", 1, 2), h.allocate("c", 3)}
	for range 6 {
		g.Go(func() error {
			h.prepare(claims...)
			return nil
		})
		g.Go(func() error {
			h.unprepare(claims...)
			return nil
		})
	}
	_ = g.Wait() // the calls have no errors
	for _, c := range claims {
		if errs := h.unprepare(c); errs[c.UID] != "" {
			t.Errorf("%s: %v", c.Name, errs)
		}
	}
	for i := range 4 {
		if r := h.record(i); r.Phase != vf.PhaseFree {
			t.Errorf("VF %d is %s", i, r.Phase)
		}
	}
	if left := h.cdiFiles(); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
}
