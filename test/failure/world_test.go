package failure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/intake/cni"
	guestintake "github.com/culvert-net/culvert/internal/node/intake/guest"
	"github.com/culvert-net/culvert/internal/node/intake/pod"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// tester is testing.T or rapid.T.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
}

// vfsPerPF keeps a world small enough for ten thousand of them.
const vfsPerPF = 3

// hostYAML gives the first two VFs of each PF to pool net, and the last one to user
// space.
const hostYAML = `
pfs:
- name: "*"
  vfs: %d
pools:
- name: net
  offer: claims
  selectors: {pfNames: ["*#0-1"]}
- name: user
  offer: claims
  deviceType: vfio-pci
`

// world is a machine, and the culvertds that run on it one after the other.
type world struct {
	t       tester
	k       *fake.Kernel
	profile fake.Profile
	path    string // of the ledger
	spec    desired.Spec
	boot    int
	skew    time.Duration // added to the clock
	disk    disk
	fault   *faulty.Kernel

	gate   *gate
	ledger *journal.Ledger
	node   *node.Node
	cni    *cni.Handler
	vms    *guestintake.Handler
	list   *guestintake.Comparer
	meta   *pod.Handler // made when a pod comes

	plugins *plugins
	members *members // nil: no cluster
	reads   *reads

	pristine map[vf.ID]vf.Baseline // VFs as they are when they have been made
	whole    string                // the machine with all VFs made and free
	expect   map[string]promise    // the answers to the runtime, by attachment
	claims   map[string]promise    // the answers to the kubelet, by the pod of the claim
	dirty    map[vf.PCIAddr]bool   // VFs that were changed outside Culvert
}

// promise is the state of an attachment by the answers so far.
type promise int

// An attachment is absent until an ADD has succeeded, and after a DEL has. If a call
// failed or its answer was lost, it may be either. If its VF was changed outside Culvert,
// it is meddled until that is mended.
const (
	absent promise = iota
	present
	either
	meddled
)

// newWorld returns a machine on which culvertd has not run yet.
func newWorld(t tester, p fake.Profile, dir string) *world {
	t.Helper()
	p.TotalVFs = vfsPerPF
	w := &world{t: t, profile: p, k: fake.New(p, 2), path: filepath.Join(dir, "ledger.db"), boot: 1, expect: map[string]promise{}, claims: map[string]promise{}, dirty: map[vf.PCIAddr]bool{}, plugins: &plugins{has: map[string]bool{}}, reads: &reads{}}
	w.fault = faulty.New(w.k)
	_ = os.Remove(w.path)
	_ = os.RemoveAll(filepath.Join(dir, "devinfo")) // of the world before
	w.want(vfsPerPF)
	for _, pod := range append(pods, sandboxID) {
		w.k.AddNetns(netnsOf(pod))
	}
	w.open()
	return w
}

// made returns a machine with its VFs made and free.
func made(t tester, p fake.Profile, dir string) *world {
	t.Helper()
	w := newWorld(t, p, dir)
	w.start()
	w.pass()
	w.remember()
	return w
}

// remember saves the present state of the machine, with which later checks compare.
func (w *world) remember() {
	w.t.Helper()
	w.pristine = map[vf.ID]vf.Baseline{}
	for _, r := range w.records() {
		if r.Phase != vf.PhaseFree {
			w.t.Fatalf("VF %s is %s after it was made: %s", r.PCI, r.Phase, r.Reason)
		}
		w.pristine[r.ID] = r.Baseline
	}
	w.whole = w.k.String()
}

func (w *world) want(vfs int) {
	w.t.Helper()
	spec, err := desired.Parse("host.yaml", fmt.Appendf(nil, hostYAML, vfs))
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	w.spec = spec
	if w.node != nil {
		w.node.SetSpec(spec)
	}
}

// open begins a new life of culvertd.
func (w *world) open() {
	w.t.Helper()
	now := func() time.Time { return time.Now().Add(w.skew) }
	l, err := journal.Open(w.path, journal.Options{Now: now, NoSync: true})
	if err != nil {
		w.t.Fatalf("open the ledger: %v", err)
	}
	w.gate, w.ledger = &gate{}, l
	w.node = node.New(node.Config{
		Kernel: mortalKernel{w.fault, w.gate, w.reads, w.mayRemake, w.k.CutAddBond}, Ledger: mortalLedger{l, w.gate, &w.disk},
		BootID: fmt.Sprintf("boot %d", w.boot), Now: now,
	})
	w.node.SetSpec(w.spec)
	w.followCluster(w.node.Upkeep)
	w.cni, w.meta = cni.New(cni.Parts{Engine: w.node.Engine, Resets: w.node.Resets, VFs: w.node.VFs}), nil
	guests := guestintake.Parts{Engine: w.node.Engine, Resets: w.node.Resets, VFs: w.node.VFs, Upkeep: w.node.Upkeep}
	w.vms = guestintake.New(guests, mortalLedger{l, w.gate, &w.disk})
	w.list = guestintake.NewComparer(guests, mortalLedger{l, w.gate, &w.disk}, now)
}

// start does the work that culvertd does before it answers; a kill may end it. If the
// disk is full, start tries again, as systemd would.
func (w *world) start() {
	w.t.Helper()
	for {
		err := w.node.Start(context.Background())
		if errors.Is(err, syscall.ENOSPC) && w.gate.killed() == "" {
			w.restart()
			continue
		}
		if err != nil && w.gate.killed() == "" {
			w.t.Fatalf("start: %v", err)
		}
		return
	}
}

// pass makes one pass of the reconciler, which may fail, and waits for the engine.
func (w *world) pass() {
	_ = w.node.Reconciler.Pass(context.Background())
	w.node.VFs.Wait()
}

// restart ends this life of culvertd, if it has not ended, and begins another,
// which may be killed while it starts.
func (w *world) restart() {
	w.t.Helper()
	w.close()
	w.open()
}

func (w *world) close() {
	w.node.VFs.Wait()
	_ = w.ledger.Close()
}

// reboot removes VFs, pods and all other volatile state.
func (w *world) reboot() {
	w.close()
	w.boot++
	w.k.Reboot()
	for _, pod := range append(pods, sandboxID) {
		w.k.AddNetns(netnsOf(pod))
	}
	w.expect, w.claims = map[string]promise{}, map[string]promise{}
	w.open()
}

func (w *world) records() []journal.Record {
	w.t.Helper()
	all, err := journal.ReadRecords(w.ledger)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	return all
}

// attachment is an attachment that a runtime requests.
type attachment struct {
	pod, pool string
	vf        vf.PCIAddr // zero: any
	plain     bool       // no settings of its own
	bond      bool       // two VFs, of the two PFs
	six       bool       // an address of IPv6 too
	named     string     // the address of IPv6 that it names
}

var pods = []string{"a", "b", "c", "d"}

// guestE is a guest of libvirt, whose UUID is in place of a pod's name.
const guestE = "eeeeeeee-f6a4-8304-79aa-97f2502e193f"

// owners are all who may have VFs.
func owners() []string { return append(slices.Clone(pods), guestE) }

func netnsOf(pod string) string { return "/run/netns/" + pod }

func (w *world) able(s vf.Setting) bool { return w.profile.Abilities[s] == vf.Yes }

// settings requests all settings that the profile's driver supports, and those that every
// driver supports.
func (w *world) settings(a attachment) string {
	out := fmt.Sprintf(`"mtu":1400,"mac":"02:aa:00:00:00:%02x",`, a.pod[0])
	if a != guestD { // no guard holds against a guest
		out += `"guard":"ip",`
	}
	if w.able(vf.SetVLAN) {
		out += `"vlan":100,`
	}
	if w.able(vf.SetVLAN) && w.profile.Driver != "bnxt_en" && w.profile.Driver != "cxgb4" {
		out += `"vlanQoS":3,`
	}
	if w.able(vf.SetSpoofChk) {
		out += `"spoofchk":"off",`
	}
	if w.able(vf.SetTrust) {
		out += `"trust":"on",`
	}
	if w.able(vf.SetLinkState) {
		out += `"link_state":"enable",`
	}
	if w.able(vf.SetMaxTxRate) {
		out += `"max_tx_rate":210,`
	}
	if w.able(vf.SetMinTxRate) {
		out += `"min_tx_rate":60,`
	}
	return out
}

func (w *world) config(a attachment, command string, valid ...string) []byte {
	settings := fmt.Sprintf(`"pool":%q,`, a.pool)
	if !a.vf.IsZero() {
		settings += fmt.Sprintf(`"deviceID":%q,`, a.vf)
	}
	if a.pool == "net" {
		if !a.plain {
			settings += w.settings(a)
		}
		more := ""
		if a.six {
			more = `,[{"subnet":"fd00::/64"}]`
		}
		if a.named != "" {
			settings += fmt.Sprintf(`"capabilities":{"ips":true},"runtimeConfig":{"ips":[%q]},`, a.named)
		}
		settings += fmt.Sprintf(`"ipam":{"type":"host-local","scope":"node","ranges":[[{"subnet":"10.1.0.0/24"}]%s],"routes":[{"dst":"10.9.0.0/16"}]},`, more)
	}
	if a.bond {
		settings += fmt.Sprintf(`"bond":{"antiAffinity":"pf","primary":%q},`, w.primary())
	}
	if command == "GC" {
		settings += fmt.Sprintf(`"cni.dev/valid-attachments":[%s],`, joinAttachments(valid))
	}
	return fmt.Appendf(nil, `{"cniVersion":"1.1.0","name":%q,"type":"culvert",%s"logLevel":"info"}`, a.network(), settings)
}

// primary returns the PF that a bond prefers: the second one, or none while that PF is
// unplugged.
func (w *world) primary() string {
	pfs, err := w.k.PFs(context.Background())
	if err != nil || len(pfs) < 2 {
		return ""
	}
	return pfs[1].PCI.String()
}

func (a attachment) network() string { return "over-" + a.pool }

func joinAttachments(pods []string) string {
	s := ""
	for i, pod := range pods {
		if i > 0 {
			s += ","
		}
		s += fmt.Sprintf(`{"containerID":%q,"ifname":"net1"}`, pod)
	}
	return s
}

// errAnswerLost is the error of a call whose answer did not reach the caller.
var errAnswerLost = errors.New("culvertd was killed before it answered")

// call makes one call as a runtime, and waits for the work that culvertd does after its
// answer.
func (w *world) call(command string, a attachment, config []byte) error {
	err := w.serve(command, a, config)
	w.node.VFs.Wait() // for the announcement
	return err
}

func (w *world) serve(command string, a attachment, config []byte) error {
	req := api.CNIRequest{Command: command, ContainerID: a.pod, IfName: "net1", Netns: netnsOf(a.pod), Args: w.args(a.pod), Config: config}
	params, err := json.Marshal(req)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	answer, err := w.cni.Serve(context.Background(), params, nil)
	if w.gate.pass("the answer to %s", command) != nil {
		return errAnswerLost
	}
	if err != nil {
		w.t.Fatalf("%s: %v", command, err)
	}
	if resp := answer.(api.CNIResponse); resp.Exit != 0 {
		return fmt.Errorf("%s", resp.Stdout)
	}
	return nil
}

// add calls CNI ADD, and notes what its answer promises.
func (w *world) add(a attachment) error {
	err := w.call("ADD", a, w.config(a, "ADD"))
	switch {
	case err == nil:
		w.expect[a.pod] = present
	case errors.Is(err, errAnswerLost) && w.expect[a.pod] == absent:
		w.expect[a.pod] = either
	}
	return err
}

// guest gives a guest a VF, with every setting that the PF can hold, and notes what the
// answer promises.
func (w *world) guest() error {
	c, err := config.Parse(w.config(guestD, "ADD"))
	must(w, err)
	spec := c.Spec
	spec.MTU = nil
	_, err = w.node.Engine.Attach(context.Background(), attach.Request{
		Owner: vf.Owner{Kind: vf.OwnerGuest, UID: guestD.pod, Name: "db1", Interface: "net1"}, Pool: guestD.pool, Spec: spec,
	})
	switch {
	case w.gate.pass("the answer for the guest") != nil:
		if w.expect[guestD.pod] == absent {
			w.expect[guestD.pod] = either
		}
		return errAnswerLost
	case err == nil:
		w.expect[guestD.pod] = present
	}
	return err
}

// del calls CNI DEL.
func (w *world) del(a attachment) error {
	err := w.call("DEL", a, w.config(a, "DEL"))
	if err == nil {
		w.expect[a.pod] = absent
	} else if w.expect[a.pod] != absent {
		w.expect[a.pod] = either
	}
	return err
}

// gc calls CNI GC of a's network when no attachment is new any more. The pods in valid keep their
// attachments.
func (w *world) gc(a attachment, valid ...string) error {
	isNew := func(r journal.Record) bool { return hold.IsYoung(r.Since, time.Now().Add(w.skew)) }
	for slices.ContainsFunc(w.records(), isNew) {
		w.skew += 2 * hold.GCGrace
	}
	var stale, elsewhere []string
	for _, r := range w.records() {
		pod := r.Lease.Owner.UID
		switch {
		case !r.Held() || slices.Contains(valid, pod):
		case r.Lease.Network == a.network():
			stale = append(stale, pod)
		case r.Phase == vf.PhaseAttached: // beside what an ADD of this network left, which failed
			elsewhere = append(elsewhere, pod)
		}
	}
	stale = slices.DeleteFunc(stale, func(pod string) bool { return slices.Contains(elsewhere, pod) })
	err := w.call("GC", a, w.config(a, "GC", valid...))
	for _, pod := range stale {
		w.expect[pod] = either
		if err == nil {
			w.expect[pod] = absent
		}
	}
	return err
}
