package attach_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// setAllow sets the key allow of every pool of a node.
func setAllow(n *node.Node, a *desired.Allow) {
	spec := n.VFs.Spec()
	spec.Pools = slices.Clone(spec.Pools)
	for i := range spec.Pools {
		spec.Pools[i].Allow = a
	}
	n.VFs.Spec = func() desired.Spec { return spec }
}

// I9: a request that its pool does not allow gets no lease and leaves every VF and
// address free. That holds for a request that names the pool or the VF, for a pod, a
// container or a guest.
func TestI9AllowIsEnforced(t *testing.T) {
	_, n := newNode(t)
	all := everything(t)
	allow := desired.Allow{
		Namespaces: []string{"default"}, VLANs: []desired.Range{{First: 100, Last: 100}}, VLANQoS: 3, Trust: true, SpoofChkOff: true,
		MACs: []desired.MACRange{{MAC: *all.Spec.MAC, Bits: 48}}, MTU: 1400, MaxTxRate: 200,
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24"), netip.MustParsePrefix("fd00::/64")},
	}
	for says, narrow := range map[string]func(*desired.Allow){
		"namespace default is not allowed":   func(a *desired.Allow) { a.Namespaces = []string{"blue"} },
		"vlan 100 is not allowed":            func(a *desired.Allow) { a.VLANs = nil },
		"vlanQoS 3 is not allowed":           func(a *desired.Allow) { a.VLANQoS = 2 },
		"trust on is not allowed":            func(a *desired.Allow) { a.Trust = false },
		"spoofchk off is not allowed":        func(a *desired.Allow) { a.SpoofChkOff = false },
		"mac 02:aa:bb:cc:dd:ee is not":       func(a *desired.Allow) { a.MACs = nil },
		"mtu 1400 is not allowed":            func(a *desired.Allow) { a.MTU = 1399 },
		"max_tx_rate 200 is not allowed":     func(a *desired.Allow) { a.MaxTxRate = 199 },
		"address fd00::2 is not allowed":     func(a *desired.Allow) { a.Addresses = a.Addresses[:1] },
		"allow.addresses has 10.2.0.0/16":    func(a *desired.Allow) { a.Addresses = []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")} },
		"labels of namespace default are no": func(a *desired.Allow) { a.Namespaces, a.NamespaceSelector = nil, map[string]string{"tier": "gold"} },
	} {
		a := allow
		narrow(&a)
		setAllow(n, &a)
		for _, named := range []vf.PCIAddr{{}, n.Inventory.PFs()[1].VFs[2].PCI} {
			req := all
			req.VF = named
			if _, err := n.Engine.Attach(t.Context(), req); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "network blue") {
				t.Errorf("%s: VF %s: %v", says, named, err)
			}
		}
	}
	setAllow(n, &allow)
	for _, o := range []vf.Owner{{Kind: vf.OwnerContainer, UID: "c1", Name: "default/a"}, {Kind: vf.OwnerPod, UID: "c1", Name: "a"}} {
		req := all
		req.Owner, req.Owner.Interface = o, "net1"
		if _, err := n.Engine.Attach(t.Context(), req); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), "no namespace") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	guest := all
	guest.Owner = vf.Owner{Kind: vf.OwnerGuest, UID: "6695eb01", Name: "db1", Interface: "net1"}
	guest.IPAM, guest.Netns, guest.VF = ipam.Config{}, "", n.Inventory.PFs()[0].VFs[0].PCI
	if _, err := n.Engine.Attach(t.Context(), guest); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), "no namespace") {
		t.Errorf("guest: %v", err)
	}
	clean(t, n, 14)
	if _, err := n.Engine.Attach(t.Context(), all); err != nil {
		t.Errorf("all that is asked for is allowed: %v", err)
	}
}

// I9: a pool's addresses bound those that an IPAM plugin of another project gives, too, for a VF and for
// a bond. The network that says what the plugin gives is a tenant's. A refused attach leaves nothing.
func TestI9AllowBoundsAddressesOfOtherPlugins(t *testing.T) {
	for name, attachOne := range map[string]func(*node.Node, attach.Request) error{
		"a VF": func(n *node.Node, r attach.Request) error { _, err := n.Engine.Attach(t.Context(), r); return err },
		"a bond": func(n *node.Node, r attach.Request) error {
			r.Bond = plainBond(t).Bond
			_, err := n.Engine.AttachBond(t.Context(), r)
			return err
		},
	} {
		k, n := newNode(t)
		before := k.String()
		setAllow(n, &desired.Allow{MTU: 9000, Addresses: []netip.Prefix{netip.MustParsePrefix("10.7.0.0/28")}})
		for address, allowed := range map[string]bool{"10.7.0.3/24": true, "10.7.0.254/24": false} {
			given, err := ipam.Parse([]byte(`{"type":"static","addresses":[{"address":"` + address + `"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			req := everything(t)
			req.IPAM, req.Spec = ipam.Config{}, vf.Spec{Interface: "net1", Guard: vf.GuardIP}
			req.Late = func(context.Context) (ipam.Config, error) { return given, nil }
			err = attachOne(n, req)
			if allowed && err != nil || !allowed && (!errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), "address 10.7.0.254 is not allowed")) {
				t.Errorf("%s: %s: %v", name, address, err)
			}
			if err := n.Resets.Detach(t.Context(), req.Owner); err != nil {
				t.Fatal(err)
			}
			n.VFs.Wait()
			clean(t, n, 14)
			if after := k.String(); after != before {
				t.Errorf("%s: %s:\n%s", name, address, after)
			}
		}
	}
}

// I9: a pool that selects namespaces by label serves the namespaces that have the labels, and
// refuses every request while culvertd cannot read the labels.
func TestI9AllowByLabelRefusesUnknownLabels(t *testing.T) {
	_, n := newNode(t)
	req := everything(t)
	req.Spec = vf.Spec{Interface: "net1"}
	req.IPAM = everything(t).IPAM
	setAllow(n, &desired.Allow{NamespaceSelector: map[string]string{"tier": "gold"},
		Addresses: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}})
	labels, unknown := map[string]string{"tier": "gold"}, errors.New("the API server did not answer")
	n.Engine.NamespaceLabels = func(_ context.Context, namespace string) (map[string]string, error) {
		if namespace != "default" {
			t.Errorf("asked for the labels of %s", namespace)
		}
		return labels, unknown
	}
	if _, err := n.Engine.Attach(t.Context(), req); !errors.Is(err, unknown) {
		t.Errorf("labels that cannot be read: %v", err)
	}
	labels, unknown = map[string]string{"tier": "iron"}, nil
	if _, err := n.Engine.Attach(t.Context(), req); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), "those with label tier=gold") {
		t.Errorf("another label: %v", err)
	}
	clean(t, n, 14)
	labels = map[string]string{"tier": "gold"}
	if _, err := n.Engine.Attach(t.Context(), req); err != nil {
		t.Error(err)
	}
}

// I9: a running guest whose settings its VF's pool does not allow gets no lease, and
// the PF's settings stay.
func TestI9AdoptedGuestIsHeldToAllow(t *testing.T) {
	k, n := newNode(t)
	forGuests(t, n)
	victim := limited(vf.Spec{MAC: everything(t).Spec.MAC, VLAN: &vf.VLAN{ID: 100}})
	held, err := n.Engine.Attach(t.Context(), victim)
	if err != nil {
		t.Fatal(err)
	}
	req := guestWants(vf.Spec{Trust: ptr(true), VLAN: &vf.VLAN{ID: 100}})
	req.VF = n.Inventory.PFs()[1].VFs[2].PCI
	if err := k.Open(req.VF, vf.Process{PID: 4711, Name: "qemu"}); err != nil {
		t.Fatal(err)
	}
	before := k.String()
	refused := func(says string) {
		t.Helper()
		if err := n.Upkeep.Adopt(t.Context(), req); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("I9: got %v, want %q", err, says)
		}
		if k.String() != before {
			t.Errorf("I9: a PF's setting changed:\n%s", k)
		}
		_ = n.Ledger.View(func(tx *journal.Tx) error {
			for _, r := range tx.Records() {
				if r.PCI == req.VF && r.Phase != vf.PhaseFree {
					t.Errorf("I9: VF %s is %s", r.PCI, r.Phase)
				}
			}
			return nil
		})
	}
	setAllow(n, &desired.Allow{VLANs: []desired.Range{{First: 100, Last: 100}}})
	refused("trust on is not allowed")
	setAllow(n, nil)
	req.Spec.MAC = held.Lease.Wanted.MAC
	refused("MAC address 02:aa:bb:cc:dd:ee: held by pod default/a")
	req.Spec.MAC = nil
	if err := n.Upkeep.Adopt(t.Context(), req); err != nil || k.String() == before {
		t.Errorf("allowed: %v", err)
	}
}
