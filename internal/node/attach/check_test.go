package attach_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/vf"
)

// CHECK tolerates the changes of later plugins of a chain. The CNI project's tuning changed the MAC
// address, which it writes into the result, and the MTU, which it does not. A default-route plugin
// removed the default routes. CHECK compares everything else.
func TestCheckOfAChain(t *testing.T) {
	tuned := vf.MAC{2, 0, 0, 0, 0, 0x77}
	for name, tc := range map[string]struct {
		meddle  func(*vf.State)
		linkMAC *vf.MAC
		mtu     bool // the request has an MTU
		want    string
	}{
		"MAC and MTU":           {func(s *vf.State) { s.Link.MAC, s.Link.MTU = tuned, 1300 }, &tuned, false, ""},
		"MAC, not in result":    {func(s *vf.State) { s.Link.MAC = tuned }, nil, false, "link mac is 02:00:00:00:00:77, not 02:aa:bb:cc:dd:ee"},
		"MAC, not in kernel":    {func(*vf.State) {}, &tuned, false, "link mac is 02:aa:bb:cc:dd:ee, not 02:00:00:00:00:77"},
		"MTU that is asked for": {func(s *vf.State) { s.Link.MTU = 1300 }, nil, true, "mtu is 1300, not 1400"},
		"default route": {func(s *vf.State) {
			s.Link.Routes = slices.DeleteFunc(s.Link.Routes, func(r vf.Route) bool { return r.Dst.Bits() == 0 })
		}, nil, false, ""},
		"route": {func(s *vf.State) {
			s.Link.Routes = slices.DeleteFunc(s.Link.Routes, func(r vf.Route) bool { return r.Dst.Bits() != 0 })
		}, nil, false, "route is [0.0.0.0/0 via 10.1.0.1], not 10.9.0.0/16 via 10.1.0.200"},
		"address": {func(s *vf.State) { s.Link.Addrs = []netip.Prefix{netip.MustParsePrefix("10.1.0.2/24")} }, nil, false, "address is [10.1.0.2/24], not fd00::2/64"},
		"trust":   {func(s *vf.State) { s.Admin.Trust = vf.No }, nil, false, "trust is no, not yes"},
	} {
		t.Run(name, func(t *testing.T) {
			k, n := newNode(t)
			rec, err := n.Engine.Attach(t.Context(), everything(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := k.Meddle(rec.PCI, tc.meddle); err != nil {
				t.Fatal(err)
			}
			asked := everything(t)
			asked.LinkMAC = tc.linkMAC
			if !tc.mtu {
				asked.Spec.MTU = nil
			}
			err = n.Engine.Check(t.Context(), rec.Lease.Owner, asked)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v\nwant %q", err, tc.want)
			}
		})
	}
}

// Multus passes a pod's MAC address to the ADD and not to the CHECK, which expects the lease's then.
func TestCheckWithoutTheMACOfTheADD(t *testing.T) {
	k, n := newNode(t)
	rec, err := n.Engine.Attach(t.Context(), everything(t))
	if err != nil {
		t.Fatal(err)
	}
	asked := everything(t)
	asked.Spec.MAC = nil
	if err := n.Engine.Check(t.Context(), rec.Lease.Owner, asked); err != nil {
		t.Error(err)
	}
	if err := k.Meddle(rec.PCI, func(s *vf.State) { s.Admin.MAC = vf.MAC{2, 0, 0, 0, 0, 0x77} }); err != nil {
		t.Fatal(err)
	}
	if err := n.Engine.Check(t.Context(), rec.Lease.Owner, asked); err == nil || !strings.Contains(err.Error(), "mac is 02:00:00:00:00:77") {
		t.Errorf("another MAC address: %v", err)
	}
}

// A network of type sriov gets the PF's MTU where it asks for a larger one: the SR-IOV CNI plugin does
// not read the key. The pod is warned, and CHECK expects that MTU. Other networks are refused.
func TestMTUAboveThatOfThePF(t *testing.T) {
	for mtu, want := range map[int]int{9000: 1500, 1500: 1500, 1400: 1400} {
		_, n := newNode(t)
		req := everything(t)
		req.Spec.MTU = &mtu
		if _, err := n.Engine.Attach(t.Context(), req); (err != nil) != (mtu > want) {
			t.Errorf("mtu %d of another network: %v", mtu, err)
		}
		_, n = newNode(t)
		var reports []string
		req.LowersMTU, req.Report = true, func(reason, text string) { reports = append(reports, reason+" "+text) }
		rec, err := n.Engine.Attach(t.Context(), req)
		if err != nil || rec.Lease.MTU != want || *rec.Lease.Wanted.MTU != want || *req.Spec.MTU != mtu {
			t.Errorf("mtu %d: %v, the lease has %d", mtu, err, rec.Lease.MTU)
			continue
		}
		warned := len(reports) == 1 && strings.HasPrefix(reports[0], fmt.Sprintf("MTULowered network blue: mtu %d is above that of PF ", mtu)) && strings.Contains(reports[0], fmt.Sprint("has ", want))
		if warned != (mtu > want) || len(reports) > 1 {
			t.Errorf("mtu %d: reports %q", mtu, reports)
		}
		if err := n.Engine.Check(t.Context(), rec.Lease.Owner, req); err != nil {
			t.Errorf("mtu %d: CHECK: %v", mtu, err)
		}
	}
}

// STATUS of a network fails while every VF that the network could use is held, and if its pool does
// not exist.
func TestReadyOfANetwork(t *testing.T) {
	_, n := newNode(t)
	ready := func(pool string, pci vf.PCIAddr) error {
		return n.Engine.Ready(t.Context(), attach.Request{Network: "blue", Pool: pool, VF: pci})
	}
	var first vf.PCIAddr
	for i := 0; ; i++ {
		if err := errors.Join(ready("x/a", vf.PCIAddr{}), ready("a", vf.PCIAddr{}), ready("", vf.PCIAddr{})); err != nil {
			t.Fatalf("with %d VFs held: %v", i, err)
		}
		req := everything(t)
		req.Owner.UID, req.Spec.MAC, req.Spec.Interface = fmt.Sprintf("c%d", i), nil, fmt.Sprintf("net%d", i)
		rec, err := n.Engine.Attach(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if first.IsZero() {
			first = rec.PCI
			if err := ready("", first); !errors.Is(err, vf.ErrNothingFree) {
				t.Errorf("the VF that the network names is held: %v", err)
			}
		}
		if errors.Is(ready("", vf.PCIAddr{}), vf.ErrNothingFree) {
			break
		}
	}
	for _, pool := range []string{"", "a", "x/a"} {
		if err := ready(pool, vf.PCIAddr{}); !errors.Is(err, vf.ErrNothingFree) || !strings.Contains(err.Error(), "network blue: none of ") || !strings.Contains(err.Error(), "attached of pod default/a") {
			t.Errorf("pool %q: %v", pool, err)
		}
	}
	if err := ready("y", vf.PCIAddr{}); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("a pool that is not there: %v", err)
	}
	if err := ready("", vf.PCIAddr{Bus: 0xff}); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("a VF that is not there: %v", err)
	}
}
