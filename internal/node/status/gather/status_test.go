package gather

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/claims"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

const podNetns = "/run/netns/a"

// host is a node on the fake kernel with a PF and four VFs. A pod has the VF net with a guard, and
// a guest has the VF user, which vfio-pci drives.
type host struct {
	*Gatherer
	kernel    *fake.Kernel
	now       time.Time
	log       bytes.Buffer
	net, user journal.Record
	free      vf.PCIAddr // a VF without an owner
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{kernel: fake.New(fake.IGB, 1), now: time.Now()}
	h.kernel.AddNetns(podNetns)
	l, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	n := node.New(node.Config{Kernel: h.kernel, Ledger: l, BootID: "boot 1"})
	n.VFs.Now = func() time.Time { return h.now }
	t.Cleanup(func() { n.VFs.Wait(); _ = l.Close() })
	spec, err := desired.Parse("host.yaml", []byte("pfs: [{name: enp1s0, vfs: 4}]\npools:\n"+
		"- {name: net, prefix: x, selectors: [{pfNames: ['enp1s0#0-1']}]}\n- {name: user, prefix: x, deviceType: vfio-pci, selectors: [{pfNames: ['enp1s0#2-3']}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	n.SetSpec(spec)
	if err := errors.Join(n.Start(t.Context()), n.Reconciler.Pass(t.Context())); err != nil {
		t.Fatal(err)
	}
	h.Gatherer = &Gatherer{
		Version: "v1.2.3", Node: n, Kernel: h.kernel, Claims: &claims.Reader{Root: fstest.MapFS{}},
		Ready: func() bool { return true }, Problems: func() []api.Problem { return nil },
		Log: slog.New(slog.NewTextHandler(&h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	h.net = h.attachVF(t, attach.Request{
		Owner: vf.Owner{Kind: vf.OwnerPod, UID: "a", Name: "default/a", Interface: "net1"},
		Pool:  "x/net", Netns: podNetns, Spec: vf.Spec{Interface: "net1", Guard: vf.GuardARP},
	})
	h.user = h.attachVF(t, attach.Request{Owner: vf.Owner{Kind: vf.OwnerGuest, UID: "g", Name: "g"}, Pool: "x/user"})
	for _, v := range n.Inventory.PFs()[0].VFs {
		if v.PCI != h.net.PCI && v.PCI != h.user.PCI && v.Driver != vf.DriverVFIO {
			h.free = v.PCI
		}
	}
	return h
}

func (h *host) attachVF(t *testing.T, req attach.Request) journal.Record {
	t.Helper()
	rec, err := h.Node.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// readStatus returns the status and finds VFs in it by their addresses.
func (h *host) readStatus(t *testing.T) (api.NodeStatus, func(vf.PCIAddr) api.VF) {
	t.Helper()
	st, err := h.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st, func(a vf.PCIAddr) api.VF {
		i := slices.IndexFunc(st.VFs, func(v api.VF) bool { return v.PCI == a })
		if i < 0 {
			t.Fatalf("the status has no VF %s", a)
		}
		return st.VFs[i]
	}
}

// The status of a sound node has the interface in the pod with its guard, the owners of all VFs and
// no problem.
func TestStatusOfASoundNode(t *testing.T) {
	h := newHost(t)
	st, vfAt := h.readStatus(t)
	if st.Version != "v1.2.3" || !st.Ready || st.Node == "" || len(st.PFs) != 1 || len(st.VFs) != 4 || len(st.Problems) > 0 || st.Services != nil {
		t.Errorf("%+v", st)
	}
	net, user, free := vfAt(h.net.PCI), vfAt(h.user.PCI), vfAt(h.free)
	if net.Link == nil || net.Link.Name != "net1" || net.Link.Netns != podNetns || !net.Link.Up || len(net.Differences) > 0 {
		t.Errorf("the VF of the pod: %+v", net.Link)
	}
	if g := net.Guard; g == nil || g.Mode != vf.GuardARP || g.Degree == vf.GuardNot {
		t.Errorf("the guard of the pod's VF: %+v", g)
	}
	if user.Owner == nil || user.Owner.Kind != vf.OwnerGuest || user.Guard != nil || len(user.OpenBy) > 0 {
		t.Errorf("the VF of the guest: %+v", user)
	}
	if free.Phase != string(vf.PhaseFree) || free.Owner != nil {
		t.Errorf("a free VF: %+v", free)
	}
	if h.log.Len() > 0 {
		t.Errorf("logged: %s", h.log.String())
	}
}

// The status follows each source: the kernel, the kubelet, the engine's looks, the error counts,
// the parts of culvertd and other managers' files.
func TestStatusFollowsItsSources(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*testing.T, *host)
		shown  func(*host, api.NodeStatus, func(vf.PCIAddr) api.VF) any
		want   any
	}{
		{"the pod changes its MTU", func(t *testing.T, h *host) {
			if err := h.kernel.Meddle(h.net.PCI, func(st *vf.State) { st.Link.MTU = 1300 }); err != nil {
				t.Fatal(err)
			}
		}, func(h *host, _ api.NodeStatus, at func(vf.PCIAddr) api.VF) any { return at(h.net.PCI).Link.MTU }, 1300},
		{"the guard is removed", func(_ *testing.T, h *host) {
			h.kernel.MeddleGuard(h.net.PCI, podNetns, nil)
		}, func(h *host, _ api.NodeStatus, at func(vf.PCIAddr) api.VF) any {
			return strings.Contains(strings.Join(at(h.net.PCI).Warnings, ""), "guard arp is not enforced: its rules are missing")
		}, true},
		{"the guest runs", func(t *testing.T, h *host) {
			if err := h.kernel.Open(h.user.PCI, vf.Process{PID: 7, Name: "qemu"}); err != nil {
				t.Fatal(err)
			}
		}, func(h *host, _ api.NodeStatus, at func(vf.PCIAddr) api.VF) any { return at(h.user.PCI).OpenBy }, []vf.Process{{PID: 7, Name: "qemu"}}},
		{"the kubelet gives a VF", func(_ *testing.T, h *host) {
			h.Given = func(context.Context) (map[vf.PCIAddr]string, error) {
				return map[vf.PCIAddr]string{h.free: "default/b"}, nil
			}
		}, func(h *host, _ api.NodeStatus, at func(vf.PCIAddr) api.VF) any {
			return at(h.free).Phase + " " + at(h.free).Owner.String()
		}, "given pod default/b"},
		{"the PF does not answer the VF", func(t *testing.T, h *host) { h.loseCarrier(t) }, func(h *host, _ api.NodeStatus, at func(vf.PCIAddr) api.VF) any {
			return []bool{at(h.net.PCI).NoCarrier, at(h.user.PCI).NoCarrier, at(h.free).NoCarrier}
		}, []bool{true, false, false}},
		{"the PF has had errors", func(_ *testing.T, h *host) {
			h.Errors = func(a vf.PCIAddr) vf.ErrorCounts { return vf.ErrorCounts{Fatal: uint64(a.Bus)} }
		}, func(_ *host, st api.NodeStatus, _ func(vf.PCIAddr) api.VF) any { return st.PFs[0].Errors }, vf.ErrorCounts{Fatal: 1}},
		{"connections to Services are balanced", func(_ *testing.T, h *host) {
			h.Services = func() *api.ServiceBalancing { return &api.ServiceBalancing{Mechanism: "eBPF", Services: 3} }
		}, func(_ *host, st api.NodeStatus, _ func(vf.PCIAddr) api.VF) any { return st.Services }, &api.ServiceBalancing{Mechanism: "eBPF", Services: 3}},
		{"the VFs are not made yet", func(_ *testing.T, h *host) { h.Ready = func() bool { return false } },
			func(_ *host, st api.NodeStatus, _ func(vf.PCIAddr) api.VF) any { return st.Ready }, false},
		{"a part of culvertd and another manager have problems", func(_ *testing.T, h *host) {
			h.Problems = func() []api.Problem { return []api.Problem{{Object: "host"}} }
			h.Claims.Root = fstest.MapFS{"etc/netplan/a.yaml": {Data: []byte("network: {ethernets: {enp1s0: {virtual-function-count: 8}}}\n")}}
		}, func(_ *host, st api.NodeStatus, _ func(vf.PCIAddr) api.VF) any { return objectsOf(st.Problems) }, []string{"host", "PF enp1s0 and netplan"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			tt.change(t, h)
			st, vfAt := h.readStatus(t)
			if diff := cmp.Diff(tt.want, tt.shown(h, st, vfAt)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// loseCarrier makes the PF answer no VF, for so long that the engine reports it.
func (h *host) loseCarrier(t *testing.T) {
	t.Helper()
	err := h.kernel.SetMailbox(h.Node.Inventory.PFs()[0].PCI, false)
	for range 4 {
		h.now = h.now.Add(time.Minute)
		err = errors.Join(err, h.Node.Reconciler.Pass(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func objectsOf(problems []api.Problem) (out []string) {
	for _, p := range problems {
		out = append(out, p.Object)
	}
	return out
}

// blindKernel is a kernel that fails one kind of reading.
type blindKernel struct {
	*fake.Kernel
	isBlind string // vf, guard, users or uses
}

var errBlind = errors.New("no answer from the kernel")

func (k blindKernel) VF(ctx context.Context, a vf.PCIAddr, netns string) (vf.State, error) {
	if k.isBlind == "vf" {
		return vf.State{}, errBlind
	}
	return k.Kernel.VF(ctx, a, netns)
}

func (k blindKernel) Guard(ctx context.Context, a vf.PCIAddr, netns string) (vf.Guard, error) {
	if k.isBlind == "guard" {
		return vf.Guard{}, errBlind
	}
	return k.Kernel.Guard(ctx, a, netns)
}

func (k blindKernel) Uses(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error) {
	if k.isBlind == "uses" {
		return nil, errBlind
	}
	return k.Kernel.Uses(ctx, vfs...)
}

func (k blindKernel) Users(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr][]vf.Process, error) {
	if k.isBlind == "users" {
		return nil, errBlind
	}
	return k.Kernel.Users(ctx, vfs...)
}

// A source that cannot be read takes nothing else out of the status. The pod still has its VF, and
// the log has the errors that an administrator can act on.
func TestStatusWithoutASource(t *testing.T) {
	for _, tt := range []struct {
		source            string
		hasLink, hasGuard bool
		openBy            int
		log               string
	}{
		{"", true, true, 1, ""},
		{"vf", false, false, 1, ""},
		{"guard", true, false, 1, ""},
		{"users", true, true, 0, "level=WARN"},
		{"kubelet", true, true, 1, "level=DEBUG"},
	} {
		t.Run("without "+tt.source, func(t *testing.T) {
			h := newHost(t)
			h.Kernel = blindKernel{h.kernel, tt.source}
			if tt.source == "kubelet" {
				h.Given = func(context.Context) (map[vf.PCIAddr]string, error) { return nil, errBlind }
			}
			if err := h.kernel.Open(h.user.PCI, vf.Process{PID: 7, Name: "qemu"}); err != nil {
				t.Fatal(err)
			}
			st, vfAt := h.readStatus(t)
			net, user := vfAt(h.net.PCI), vfAt(h.user.PCI)
			if net.Owner == nil || *net.Owner != h.net.Lease.Owner || user.Owner == nil || len(st.VFs) != 4 {
				t.Errorf("owners %v and %v, %d VFs", net.Owner, user.Owner, len(st.VFs))
			}
			isRead := net.Guard != nil && !strings.Contains(net.Guard.Reason, "cannot read it")
			if (net.Link != nil) != tt.hasLink || isRead != tt.hasGuard || len(user.OpenBy) != tt.openBy {
				t.Errorf("link %v, guard %+v, open by %v", net.Link, net.Guard, user.OpenBy)
			}
			if log := h.log.String(); !strings.Contains(log, tt.log) || (tt.log == "") != (log == "") || tt.log != "" && !strings.Contains(log, errBlind.Error()) {
				t.Errorf("logged %q, want %q", log, tt.log)
			}
		})
	}
}

// Uses that cannot be read take only their line out of the status.
func TestStatusWithoutUses(t *testing.T) {
	h := newHost(t)
	h.Kernel = blindKernel{h.kernel, "uses"}
	spec, err := desired.Parse("host.yaml", []byte("pfs: [{name: enp1s0, vfs: 5}]")) // so all VFs are asked about
	if err != nil {
		t.Fatal(err)
	}
	h.Node.SetSpec(spec)
	st, _ := h.readStatus(t)
	if log := h.log.String(); len(st.VFs) != 4 || !strings.Contains(log, "read who uses VFs without a lease") || !strings.Contains(log, errBlind.Error()) {
		t.Errorf("%d VFs, logged %q", len(st.VFs), log)
	}
}

// A kubelet that does not answer holds the status up for a second, not for longer.
func TestStatusBoundsTheWaitForTheKubelet(t *testing.T) {
	h := newHost(t)
	var bound time.Duration
	h.Given = func(ctx context.Context) (map[vf.PCIAddr]string, error) {
		if until, ok := ctx.Deadline(); ok {
			bound = time.Until(until)
		}
		return nil, context.DeadlineExceeded
	}
	h.readStatus(t)
	if bound <= 0 || bound > time.Second {
		t.Errorf("the kubelet has %s for its answer, want at most 1s", bound)
	}
}

// Without the NICs or the ledger there is no status, and the error names the one that cannot be
// read.
func TestStatusNeedsTheNICsAndTheLedger(t *testing.T) {
	h := newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Status(ctx); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "list the NICs: ") {
		t.Errorf("without NICs: %v", err)
	}
	damaged := errors.New("the ledger is damaged")
	for _, reads := range []int{0, 1} {
		h.Node.Ledger = &failingLedger{Ledger: h.Node.Ledger, left: reads, err: damaged}
		if _, err := h.Status(t.Context()); !errors.Is(err, damaged) {
			t.Errorf("the ledger fails after %d reads: %v", reads, err)
		}
		h.Node.Ledger = h.Node.Ledger.(*failingLedger).Ledger
	}
}

// failingLedger is a ledger that can be read some times, and then not.
type failingLedger struct {
	node.Ledger
	left int
	err  error
}

func (l *failingLedger) View(f func(*journal.Tx) error) error {
	if l.left--; l.left < 0 {
		return l.err
	}
	return l.Ledger.View(f)
}

// A file of another network manager that cannot be read is a problem, and the claims of the other
// files are shown.
func TestUnreadableFileOfAnotherManager(t *testing.T) {
	h := newHost(t)
	h.Claims.Root = fstest.MapFS{
		"etc/netplan/a.yaml": {Data: []byte("network: {ethernets: {enp1s0: {virtual-function-count: 8}}}\n")},
		"etc/netplan/b.yaml": {Data: bytes.Repeat([]byte("#"), 2<<20)},
	}
	st, _ := h.readStatus(t)
	if diff := cmp.Diff([]string{"PF enp1s0 and netplan", "other network managers"}, objectsOf(st.Problems)); diff != "" {
		t.Fatalf("problems (-want +got):\n%s", diff)
	}
	if p := st.Problems[1]; !strings.Contains(p.Reason, "etc/netplan/b.yaml") || !strings.Contains(p.Next, "culvert doctor") {
		t.Errorf("%+v", p)
	}
}

// The ledger's content has the leases and the boot that they are of.
func TestLedgerHasTheLeases(t *testing.T) {
	h := newHost(t)
	c, err := h.Ledger()
	if err != nil || c.Boot != "boot 1" || len(c.Records) != 4 {
		t.Fatalf("boot %q, %d records, %v", c.Boot, len(c.Records), err)
	}
	var owners []string
	for _, r := range c.Records {
		if r.Held() {
			owners = append(owners, r.Lease.Owner.Name)
		}
	}
	if diff := cmp.Diff([]string{"default/a", "g"}, owners); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

// The status asks who uses the free VFs of a PF while their number is to change.
func TestStatusNamesUsersWhileVFsChange(t *testing.T) {
	for vfs, want := range map[string]string{"4": "", "5": "open by qemu (process 7)"} {
		h := newHost(t)
		spec, err := desired.Parse("host.yaml", []byte("pfs: [{name: enp1s0, vfs: "+vfs+"}]"))
		if err != nil {
			t.Fatal(err)
		}
		h.Node.SetSpec(spec)
		free := vf.PCIAddr{}
		for _, v := range h.Node.Inventory.PFs()[0].VFs {
			if v.Driver == vf.DriverVFIO && v.PCI != h.user.PCI {
				free = v.PCI
			}
		}
		if err := h.kernel.Open(free, vf.Process{PID: 7, Name: "qemu"}); err != nil {
			t.Fatal(err)
		}
		if _, vfAt := h.readStatus(t); vfAt(free).UsedBy != want {
			t.Errorf("%s VFs: %q, want %q", vfs, vfAt(free).UsedBy, want)
		}
	}
}
