package attach_test

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// newWires returns a node with four PFs of two VFs each. One pool has the VFs of the first and
// second PF, another pool those of the third. The VFs of the fourth PF are in no pool.
func newWires(t *testing.T) *node.Node {
	t.Helper()
	k := fake.New(fake.IGB, 4)
	k.AddNetns(podNetns)
	l, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	n := node.New(node.Config{Kernel: k, Ledger: l, BootID: "boot 1"})
	selected := func(names ...string) []desired.Selector {
		var parts []desired.Part[string]
		for _, name := range names {
			parts = append(parts, desired.Part[string]{PF: name})
		}
		return []desired.Selector{{PFNames: parts}}
	}
	n.SetSpec(desired.Spec{
		PFs: []desired.PFRule{{Name: "enp*", Want: desired.PFSpec{VFs: 2, Autoprobe: true, NeedCarrier: true}}},
		Pools: []desired.Pool{
			{Name: "both", Prefix: "x", DeviceType: desired.NetDevice, Selectors: selected("enp1s0", "enp2s0")},
			{Name: "third", Prefix: "x", DeviceType: desired.NetDevice, Selectors: selected("enp3s0")},
		},
	})
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.Reconciler.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.VFs.Wait)
	return n
}

// vfAt returns the VF of a PF of newWires, both counted from 0.
func vfAt(t *testing.T, n *node.Node, pf, index int) vf.State {
	t.Helper()
	v, ok := n.VFs.Hardware.PFs()[pf].VF(index)
	if !ok {
		t.Fatalf("PF %d has no VF %d", pf, index)
	}
	return v
}

// tenant is a request of a pod for a VF of a PF.
func tenant(t *testing.T, n *node.Node, pod string, pf, index int, spec vf.Spec) attach.Request {
	t.Helper()
	spec.Interface = fmt.Sprintf("%s%d", pod, pf)
	return attach.Request{
		Owner:   vf.Owner{Kind: vf.OwnerPod, UID: pod, Name: "d/" + pod, Interface: "net1"},
		Network: pod, Netns: podNetns, VF: vfAt(t, n, pf, index).PCI, Spec: spec,
	}
}

func wantHeldBy(t *testing.T, err error, holder string) {
	t.Helper()
	if !errors.Is(err, vf.ErrHeld) || !strings.Contains(err.Error(), holder) {
		t.Errorf("got %v, want a refusal that names %q", err, holder)
	}
}

// wantOneLease fails when the ledger has another lease besides the first pod's.
func wantOneLease(t *testing.T, n *node.Node) {
	t.Helper()
	_ = n.Ledger.View(func(tx *journal.Tx) error {
		for _, r := range tx.Records() {
			if r.Phase != vf.PhaseFree && r.Lease.Owner.UID != "a" {
				t.Errorf("VF %s is %s: %s", r.PCI, r.Phase, r.Holder())
			}
		}
		return nil
	})
}

// I9: no network gives a pod a MAC address that is in use on its segment and VLAN. The
// refusal names the holder, and comes before a lease.
func TestI9MACInUseIsRefused(t *testing.T) {
	mac, stranger := vf.MAC{2, 0xaa, 0, 0, 0, 1}, vf.MAC{2, 0xaa, 0, 0, 0, 2}
	for name, tc := range map[string]struct {
		pod       string
		pf, index int
		mac       func(*node.Node) vf.MAC
		vlan      uint16
		holder    string // empty: the request succeeds
	}{
		"another pod's":                      {"b", 0, 1, nil, 7, "pod d/a"},
		"another pod's, over a pool":         {"b", 1, 0, nil, 7, "pod d/a"},
		"on another VLAN":                    {"b", 0, 1, nil, 8, ""},
		"on another segment":                 {"b", 2, 0, nil, 7, ""},
		"on a PF of no pool":                 {"b", 3, 0, nil, 7, ""},
		"of another interface of the pod's":  {"a", 1, 0, nil, 7, ""},
		"nobody's":                           {"b", 0, 1, func(*node.Node) vf.MAC { return stranger }, 7, ""},
		"the PF's":                           {"b", 0, 1, func(n *node.Node) vf.MAC { return n.VFs.Hardware.PFs()[0].ID.MAC }, 9, "PF enp1s0, whose own it is"},
		"another PF's of the segment":        {"b", 0, 1, func(n *node.Node) vf.MAC { return n.VFs.Hardware.PFs()[1].ID.MAC }, 0, "PF enp2s0, whose own it is"},
		"another PF's":                       {"b", 0, 1, func(n *node.Node) vf.MAC { return n.VFs.Hardware.PFs()[2].ID.MAC }, 0, ""},
		"a free VF's":                        {"b", 0, 1, func(n *node.Node) vf.MAC { return vfAt(t, n, 1, 1).Admin.MAC }, 7, "whose own it is"},
		"a VF's whose owner has another now": {"b", 0, 1, func(n *node.Node) vf.MAC { return vfAt(t, n, 0, 0).Admin.MAC }, 9, "pod d/a"},
		"its own":                            {"b", 0, 1, func(n *node.Node) vf.MAC { return vfAt(t, n, 0, 1).Admin.MAC }, 7, ""},
		"that of a VF that is not made":      {"b", 0, 1, func(n *node.Node) vf.MAC { return vf.StableMAC(n.VFs.Hardware.PFs()[1].ID, 5) }, 7, "VF 5 of PF enp2s0"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newWires(t)
			if _, err := n.Engine.Attach(t.Context(), tenant(t, n, "a", 0, 0, vf.Spec{MAC: &mac, VLAN: &vf.VLAN{ID: 7}})); err != nil {
				t.Fatal(err)
			}
			want := mac
			if tc.mac != nil {
				want = tc.mac(n)
			}
			req := tenant(t, n, tc.pod, tc.pf, tc.index, vf.Spec{MAC: &want, VLAN: &vf.VLAN{ID: tc.vlan}})
			req.Owner.Interface = "net2"
			rec, err := n.Engine.Attach(t.Context(), req)
			if tc.holder == "" {
				if err != nil || rec.Lease.LinkMAC != want {
					t.Errorf("%v, MAC %s, want %s", err, rec.Lease.LinkMAC, want)
				}
				return
			}
			wantHeldBy(t, err, tc.holder)
			wantOneLease(t, n)
		})
	}
}

// I9: of two pods that ask for one MAC address at once, one gets it. When the pod ends, another pod
// can have the address.
func TestI9OneMACAtOnce(t *testing.T) {
	n := newWires(t)
	mac := vf.MAC{2, 0xaa, 0, 0, 0, 1}
	var errs [2]error
	var reqs [2]attach.Request
	for i := range reqs {
		reqs[i] = tenant(t, n, fmt.Sprintf("p%d", i), i, 0, vf.Spec{MAC: &mac})
	}
	var g errgroup.Group
	for i, req := range reqs {
		g.Go(func() error {
			_, errs[i] = n.Engine.Attach(t.Context(), req)
			return nil
		})
	}
	_ = g.Wait()
	won, lost := 0, 1
	if errs[0] != nil {
		won, lost = 1, 0
	}
	if errs[won] != nil {
		t.Fatalf("neither pod has it: %v", errs)
	}
	wantHeldBy(t, errs[lost], reqs[won].Owner.String())
	if err := n.Resets.Detach(t.Context(), reqs[won].Owner); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Engine.Attach(t.Context(), reqs[lost]); err != nil {
		t.Error("after the holder gave it back:", err)
	}
}

// I9: the refusal of a MAC address that a VF in quarantine may still have names that
// VF. So the refusal does not name a pod that returns as its own rival.
func TestI9MACInQuarantineIsRefused(t *testing.T) {
	n := newWires(t)
	mac := vf.MAC{2, 0xaa, 0, 0, 0, 1}
	rec, err := n.Engine.Attach(t.Context(), tenant(t, n, "a", 0, 0, vf.Spec{MAC: &mac}))
	if err != nil {
		t.Fatal(err)
	}
	rec.Phase, rec.Reason = vf.PhaseQuarantined, "the driver does not answer"
	if err := n.Ledger.Update(func(tx *journal.Tx) error { return tx.Put(rec) }); err != nil {
		t.Fatal(err)
	}
	again := tenant(t, n, "a", 0, 1, vf.Spec{MAC: &mac})
	again.Owner.UID = "the next sandbox"
	_, err = n.Engine.Attach(t.Context(), again)
	wantHeldBy(t, err, "VF "+rec.PCI.String()+", in quarantine since pod d/a had it")
}

// I9: a pod whose runtime lost its sandbox, and with it the DEL, gets its MAC address in the
// next sandbox. A later pod of its name does not.
func TestI9MACOfALostSandboxComesBack(t *testing.T) {
	n := newWires(t)
	mac := vf.MAC{2, 0xaa, 0, 0, 0, 1}
	attachAs := func(sandbox, podUID string, index int) error {
		req := tenant(t, n, "a", 0, index, vf.Spec{MAC: &mac})
		req.Owner.UID, req.PodUID, req.Spec.Interface = sandbox, podUID, sandbox
		_, err := n.Engine.Attach(t.Context(), req)
		return err
	}
	if err := attachAs("s1", "u1", 0); err != nil {
		t.Fatal(err)
	}
	wantHeldBy(t, attachAs("s2", "u2", 1), "pod d/a")
	if err := attachAs("s3", "u1", 1); err != nil {
		t.Error(err)
	}
}

// A VF whose own MAC address another pod has is passed over, and pods get the other VFs of the
// pool. An upgrade from a version that let pods take such an address leads to this state.
func TestVFWithAForeignersMACIsPassedOver(t *testing.T) {
	n := newWires(t)
	rec, err := n.Engine.Attach(t.Context(), tenant(t, n, "a", 0, 0, vf.Spec{}))
	if err != nil {
		t.Fatal(err)
	}
	taken := vfAt(t, n, 1, 0)
	rec.Lease.Wanted.MAC, rec.Lease.Effective.MAC = &taken.Admin.MAC, taken.Admin.MAC
	if err := n.Ledger.Update(func(tx *journal.Tx) error { return tx.Put(rec) }); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []string{"b", "c"} {
		req := tenant(t, n, pod, 0, 0, vf.Spec{})
		req.VF, req.Pool = vf.PCIAddr{}, "both"
		if rec, err := n.Engine.Attach(t.Context(), req); err != nil || rec.PCI == taken.PCI {
			t.Errorf("pod %s: VF %s, %v", pod, rec.PCI, err)
		}
	}
	last := tenant(t, n, "d", 0, 0, vf.Spec{})
	last.VF, last.Pool = vf.PCIAddr{}, "both"
	_, err = n.Engine.Attach(t.Context(), last)
	wantHeldBy(t, err, "pod d/a")
}

// I9: a guest that comes back with the MAC address of a VF gets that very VF, and is
// refused while a pod has it.
func TestI9GuestComesBackToItsVF(t *testing.T) {
	n := newWires(t)
	mac := vfAt(t, n, 1, 1).Admin.MAC
	guest := attach.Request{Owner: vf.Owner{Kind: vf.OwnerGuest, UID: "g", Name: "db1", Interface: "net1"}, Pool: "both", Spec: vf.Spec{MAC: &mac}}
	rec, err := n.Engine.Attach(t.Context(), guest)
	if err != nil || rec.PCI != vfAt(t, n, 1, 1).PCI {
		t.Fatalf("got VF %s, %v; want %s", rec.PCI, err, vfAt(t, n, 1, 1).PCI)
	}
	if err := n.Resets.Detach(t.Context(), guest.Owner); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Engine.Attach(t.Context(), tenant(t, n, "a", 1, 1, vf.Spec{})); err != nil {
		t.Fatal(err)
	}
	_, err = n.Engine.Attach(t.Context(), guest)
	wantHeldBy(t, err, "pod d/a")
}

// I9: no network gives a pod an address that is in use on its segment and VLAN, also
// when the two addresses are of different pools. A request that names no address gets another one.
func TestI9AddressInUseIsRefused(t *testing.T) {
	const ranged, static = `{"type":"host-local","scope":"node","subnet":"10.1.0.0/24"}`, `{"type":"static","addresses":[{"address":"10.1.0.2/24"}]}`
	for name, tc := range map[string]struct {
		pod, section, named string
		pf, index           int
		vlan                uint16
		gets, holder        string
	}{
		"static":                            {"b", static, "", 0, 1, 7, "", "pod d/a"},
		"static, over a pool":               {"b", static, "", 1, 0, 7, "", "pod d/a"},
		"asked for":                         {"b", ranged, "10.1.0.2/32", 0, 1, 7, "", "pod d/a"},
		"asked for, static":                 {"b", static, "10.1.0.2/16", 0, 1, 7, "", "pod d/a"},
		"not asked for":                     {"b", ranged, "", 0, 1, 7, "10.1.0.3/24", ""},
		"on another VLAN":                   {"b", static, "", 0, 1, 8, "10.1.0.2/24", ""},
		"on another segment":                {"b", static, "", 2, 0, 7, "10.1.0.2/24", ""},
		"of another interface of the pod's": {"a", static, "", 1, 0, 7, "10.1.0.2/24", ""},
		"another one":                       {"b", static, "10.1.0.9/24", 0, 1, 7, "10.1.0.9/24", ""},
		"the PF's":                          {"b", static, "10.1.0.77/24", 0, 1, 0, "", "host interface enp2s0"},
		"the bridge's above the PF":         {"b", static, "10.1.0.78/24", 0, 1, 0, "", "host interface above enp2s0"},
		"the bridge's, on a VLAN":           {"b", static, "10.1.0.78/24", 0, 1, 8, "10.1.0.78/24", ""},
		"the PF's, on a VLAN":               {"b", static, "10.1.0.77/24", 0, 1, 8, "10.1.0.77/24", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newWires(t)
			n.VFs.Hardware = addressed{n.VFs.Hardware.PFs()}
			first := tenant(t, n, "a", 0, 0, vf.Spec{VLAN: &vf.VLAN{ID: 7}})
			first.IPAM = parsedIPAM(t, ranged)
			if rec, err := n.Engine.Attach(t.Context(), first); err != nil || rec.Lease.Wanted.Addresses[0].Prefix.String() != "10.1.0.2/24" {
				t.Fatalf("%v, %v", rec.Lease.Wanted.Addresses, err)
			}
			req := tenant(t, n, tc.pod, tc.pf, tc.index, vf.Spec{VLAN: &vf.VLAN{ID: tc.vlan}})
			req.Owner.Interface, req.Network, req.IPAM = "net2", "other", parsedIPAM(t, tc.section)
			if tc.named != "" {
				req.Addresses = []netip.Prefix{netip.MustParsePrefix(tc.named)}
			}
			rec, err := n.Engine.Attach(t.Context(), req)
			if tc.holder != "" {
				wantHeldBy(t, err, tc.holder)
				wantOneLease(t, n)
				return
			}
			if err != nil || rec.Lease.Wanted.Addresses[0].Prefix.String() != tc.gets {
				t.Errorf("%v, %v; want %s", rec.Lease.Wanted.Addresses, err, tc.gets)
			}
		})
	}
}

// I9: while a PF cannot be read, culvertd does not know its pools. The addresses of its pods count
// as in use on every segment.
func TestI9UnreadPFKeepsWhatItsPodsHave(t *testing.T) {
	const static = `{"type":"static","addresses":[{"address":"10.1.0.2/24"}]}`
	mac := vf.MAC{2, 0xaa, 0, 0, 0, 1}
	for name, take := range map[string]func(*attach.Request){
		"MAC":     func(r *attach.Request) { r.Spec.MAC = &mac },
		"address": func(r *attach.Request) { r.IPAM = parsedIPAM(t, static) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newWires(t)
			first := tenant(t, n, "a", 0, 0, vf.Spec{MAC: &mac, VLAN: &vf.VLAN{ID: 7}})
			first.IPAM = parsedIPAM(t, static)
			if _, err := n.Engine.Attach(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			second := tenant(t, n, "b", 1, 0, vf.Spec{VLAN: &vf.VLAN{ID: 7}})
			second.Owner.Interface, second.Network = "net2", "other"
			take(&second)
			pfs := slices.Clone(n.VFs.Hardware.PFs())
			pfs[0] = vf.PF{PCI: pfs[0].PCI, ID: pfs[0].ID, Name: pfs[0].Name, Err: "no answer within 5s"}
			n.VFs.Hardware = listed(pfs)
			_, err := n.Engine.Attach(t.Context(), second)
			wantHeldBy(t, err, "pod d/a")
			wantOneLease(t, n)
		})
	}
}

// A PF that cannot be read counts as on every segment, except one with another name.
func TestUnreadPFAndNamedSegments(t *testing.T) {
	mac := vf.MAC{2, 0xaa, 0, 0, 0, 1}
	for name, named := range map[string]bool{"without names": false, "with names": true} {
		t.Run(name, func(t *testing.T) {
			n := newWires(t)
			if _, err := n.Engine.Attach(t.Context(), tenant(t, n, "a", 0, 0, vf.Spec{MAC: &mac, VLAN: &vf.VLAN{ID: 7}})); err != nil {
				t.Fatal(err)
			}
			second := tenant(t, n, "b", 2, 0, vf.Spec{MAC: &mac, VLAN: &vf.VLAN{ID: 7}})
			second.Owner.Interface, second.Network = "net2", "other"
			if named {
				spec, _ := n.WatchSpec()
				spec.PFs = []desired.PFRule{
					{Name: "enp1s0", Want: desired.PFSpec{VFs: 2, Segment: "one"}}, {Name: "enp3s0", Want: desired.PFSpec{VFs: 2, Segment: "two"}},
				}
				n.SetSpec(spec)
			}
			pfs := slices.Clone(n.VFs.Hardware.PFs())
			pfs[0] = vf.PF{PCI: pfs[0].PCI, ID: pfs[0].ID, Name: pfs[0].Name, Err: "no answer within 5s"}
			n.VFs.Hardware = listed(pfs)
			_, err := n.Engine.Attach(t.Context(), second)
			if named != (err == nil) {
				t.Errorf("the attach returns %v", err)
			}
			if !named {
				wantHeldBy(t, err, "pod d/a")
			}
		})
	}
}

// listed is hardware with these PFs.
type listed []vf.PF

func (l listed) PFs() []vf.PF { return l }

// addressed is hardware whose second PF has an address, and is a member of a bridge with another.
type addressed struct{ pfs []vf.PF }

func (a addressed) PFs() []vf.PF {
	a.pfs[1].Addrs = []netip.Prefix{netip.MustParsePrefix("10.1.0.77/24")}
	a.pfs[1].HostAddrs = []netip.Prefix{netip.MustParsePrefix("10.1.0.78/24")}
	return a.pfs
}

func parsedIPAM(t *testing.T, section string) ipam.Config {
	t.Helper()
	c, err := ipam.Parse([]byte(section))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// I9 has a limit: nodes do not compare their MAC addresses, so two nodes may give out the same one
// if networks name it (docs/kubernetes.md). A pool whose allow has no macs
// refuses such an address on each node.
func TestI9MACAcrossNodes(t *testing.T) {
	first, second := newWires(t), newWires(t)
	spec := vf.Spec{MAC: &vf.MAC{2, 0xaa, 0, 0, 0, 1}}
	for i, n := range []*node.Node{first, second} {
		setAllow(n, &desired.Allow{})
		if _, err := n.Engine.Attach(t.Context(), tenant(t, n, "a", 0, 0, spec)); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), "allow.macs has none") {
			t.Errorf("I9: node %d: %v", i, err)
		}
		setAllow(n, nil)
		if _, err := n.Engine.Attach(t.Context(), tenant(t, n, "a", 0, 0, spec)); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
	}
}

// I9: PFs whose segments have one name are on one segment, also without a pool that has VFs of both.
func TestI9MACOnANamedSegment(t *testing.T) {
	spec := vf.Spec{MAC: &vf.MAC{2, 0xaa, 0, 0, 0, 1}, VLAN: &vf.VLAN{ID: 7}}
	n := newWires(t)
	for i, name := range []vf.Segment{"storage", "", "storage", "front"} {
		wanted := n.Spec()
		pf := n.VFs.Hardware.PFs()[i]
		wanted.PFs = append([]desired.PFRule{{PCI: pf.PCI, Want: desired.PFSpec{VFs: pf.NumVFs, Segment: name}}}, wanted.PFs...)
		n.SetSpec(wanted)
	}
	if _, err := n.Engine.Attach(t.Context(), tenant(t, n, "a", 0, 0, spec)); err != nil {
		t.Fatal(err)
	}
	_, err := n.Engine.Attach(t.Context(), tenant(t, n, "b", 2, 0, spec))
	wantHeldBy(t, err, "pod d/a")
	if _, err := n.Engine.Attach(t.Context(), tenant(t, n, "c", 3, 0, spec)); err != nil {
		t.Errorf("a PF of another name: %v", err)
	}
}

// I9: a VF without a VLAN may send tagged frames, with the MAC address that its network
// names. So that address is in use on every VLAN, and none of another VLAN is given there.
func TestI9MACWithoutVLANIsOnEachVLAN(t *testing.T) {
	mac := vf.MAC{2, 0xaa, 0, 0, 0, 1}
	for name, vlans := range map[string][2]*vf.VLAN{
		"the second has none": {{ID: 7}, nil}, "the second has VLAN 0": {{ID: 7}, {}}, "the first has none": {nil, {ID: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newWires(t)
			if _, err := n.Engine.Attach(t.Context(), tenant(t, n, "a", 0, 0, vf.Spec{MAC: &mac, VLAN: vlans[0]})); err != nil {
				t.Fatal(err)
			}
			_, err := n.Engine.Attach(t.Context(), tenant(t, n, "b", 1, 0, vf.Spec{MAC: &mac, VLAN: vlans[1]}))
			wantHeldBy(t, err, "pod d/a")
			wantOneLease(t, n)
		})
	}
}
