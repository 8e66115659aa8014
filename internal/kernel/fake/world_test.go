package fake

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// TestDelNetns: the netdevices of a netns that ends go to the host, down and bare, under the name
// they had, or as dev<ifindex> where the host has that name (default_device_exit_net of
// net/core/dev.c). Bonds end with it.
func TestDelNetns(t *testing.T) {
	k, a, b, host := inPod(t)
	doSteps(t, k, podBond(vf.BondActiveBackup, 0), step.Enslave{VF: b, Netns: podNetns, Bond: "bond0"}, step.Rename{VF: host, Name: "net1"})
	k.AddNetns("/run/netns/c2")
	shown := k.Shown()
	k.DelNetns(podNetns)
	if diff := cmp.Diff([]string{"/run/netns/c2"}, k.Netns()); diff != "" {
		t.Errorf("netns: -want +got:\n%s", diff)
	}
	for v, want := range map[vf.PCIAddr]string{a: fmt.Sprintf("dev%d", podLink(t, k, a).Index), b: "net2", host: "net1"} {
		l := podLink(t, k, v)
		if l.Name != want || l.Netns != "" || l.Up || len(l.Addrs) != 0 || l.Bond != nil {
			t.Errorf("VF %s: %+v, want %s on the host", v, l, want)
		}
	}
	if got := k.Shown(); got != shown+2 {
		t.Errorf("the host got to see %d netdevices more, want 2", got-shown)
	}
	k.DelNetns(podNetns) // it is gone
}

// TestSeenFrom: a read from the host does not show a netdevice that is in a netns, nor does a read
// from another netns. A read returns a copy.
func TestSeenFrom(t *testing.T) {
	k, v, _, host := inPod(t)
	k.AddNetns("/run/netns/c2")
	for netns, want := range map[string]bool{podNetns: true, "": false, "/run/netns/c2": false} {
		st, err := k.VF(t.Context(), v, netns)
		must(t, err)
		if (st.Link != nil) != want || st.Driver != "igbvf" {
			t.Errorf("from %q: %+v", netns, st)
		}
		if st, err = k.VF(t.Context(), host, netns); err != nil || st.Link == nil {
			t.Errorf("from %q, that of the host: %+v, %v", netns, st, err)
		}
	}
	l := podLink(t, k, v)
	l.Addrs[0], l.MTU = netip.MustParsePrefix("10.9.9.9/32"), 9
	if now := podLink(t, k, v); now.MTU != 1500 || now.Addrs[0].String() != "10.0.0.1/24" {
		t.Errorf("a caller changed the kernel: %+v", now)
	}
}

// TestReboot: after a reboot there is no netns, guard, bond, bridge or VF, and the PFs are down.
// They keep their identity.
func TestReboot(t *testing.T) {
	k, a, b, _ := inPod(t)
	id := first(t, k).ID
	doSteps(t, k, podBond(vf.BondActiveBackup, 0), step.Enslave{VF: b, Netns: podNetns, Bond: "bond0"},
		step.SetGuard{VF: a, Netns: podNetns, Guard: vf.Guard{Mode: vf.GuardARP}}, step.SetPFMTU{PF: first(t, k).PCI, MTU: 4000}, step.SetAutoprobe{PF: first(t, k).PCI})
	must(t, k.AddMaster("br0", vf.MasterBridge, ""))
	k.Reboot()
	if diff := cmp.Diff(New(IGB, 2).String(), k.String()); diff != "" {
		t.Errorf("-new +after the reboot:\n%s", diff)
	}
	if got := first(t, k).ID; got != id || len(k.Netns()) != 0 {
		t.Errorf("identity %s, want %s; netns %v", got, id, k.Netns())
	}
}

// TestMeddle: changes by an outsider take effect as those by steps do. A netdevice that an outsider
// moves leaves its bond, and the hardware keeps to a rate that it has.
func TestMeddle(t *testing.T) {
	k, _, v, _ := inPod(t)
	doSteps(t, k, podBond(vf.BondActiveBackup, 0), step.Enslave{VF: v, Netns: podNetns, Bond: "bond0"})
	must(t, k.Meddle(v, func(s *vf.State) { s.Link.MTU = 1400 }))
	if l := podLink(t, k, v); l.MTU != 1400 || l.Bond == nil {
		t.Errorf("another MTU: %+v", l)
	}
	must(t, k.Meddle(v, func(s *vf.State) { s.Link.Netns = "" }))
	if l := podLink(t, k, v); l.Bond != nil || l.Netns != "" {
		t.Errorf("moved out of its bond: %+v", l)
	}
	k, pf := made(t, I40E, 1) // whose hardware counts in steps of 50 Mb/s (i40e_set_bw_limit)
	must(t, k.Meddle(pf.VFs[0].PCI, func(s *vf.State) { s.Admin.MaxTxRate = 120 }))
	if got := k.pfs[0].vfs[0].rate; got != 100 {
		t.Errorf("the hardware keeps to %d Mb/s", got)
	}
}

// TestAnnounced lists what pods have announced to their neighbours, in order.
func TestAnnounced(t *testing.T) {
	k, a, b, _ := inPod(t)
	one, two, three := netip.MustParsePrefix("10.0.0.1/24"), netip.MustParsePrefix("fd00::1/64"), netip.MustParsePrefix("10.0.0.2/24")
	doSteps(t, k, step.Announce{VF: a, Netns: podNetns, Addresses: []netip.Prefix{one, two}}, step.Announce{VF: b, Netns: podNetns, Addresses: []netip.Prefix{three}})
	if got := k.Announced(); !slices.Equal(got, []netip.Prefix{one, two, three}) {
		t.Errorf("%v", got)
	}
	if hung := k.Hung(); len(hung) != 0 {
		t.Errorf("steps hang: %v", hung)
	}
}

// TestString: tests compare the text of the whole machine. It has a line for each part of the
// state, so that no change goes unseen.
func TestString(t *testing.T) {
	build := func() (k *Kernel, pf, a, b vf.PCIAddr) {
		k, a, b, _ = inPod(t)
		pf = first(t, k).PCI
		doSteps(t, k, podBond(vf.BondActiveBackup, 0), step.Enslave{VF: b, Netns: podNetns, Bond: "bond0"}, step.SetGuard{VF: a, Netns: podNetns, Guard: vf.Guard{Mode: vf.GuardARP}})
		must(t, k.AddMaster("br0", vf.MasterBridge, ""))
		return k, pf, a, b
	}
	k, _, _, _ := build()
	want := `PF enp1s0 52:54:00:c0:00:01 mtu 1500 up true carrier true autoprobe yes vfs 3
  vf 0 0000:01:10.0 mac  vlan none spoofchk yes trust no rss unknown link_state auto rates 0-0 driver "igbvf"
    link "/run/netns/c1" net1 mac 06:00:00:00:00:03 mtu 1500 up true promisc false addrs 10.0.0.1/24 routes []
`
	if got := k.String(); !strings.HasPrefix(got, want) {
		t.Errorf("-want +got:\n%s", cmp.Diff(want, got))
	}
	address := netip.MustParsePrefix("fd00::1/64")
	for name, change := range map[string]func(k *Kernel, pf, a, b vf.PCIAddr){
		"PF MTU":    func(k *Kernel, pf, _, _ vf.PCIAddr) { doSteps(t, k, step.SetPFMTU{PF: pf, MTU: 4000}) },
		"PF down":   func(k *Kernel, pf, _, _ vf.PCIAddr) { k.TakePFDown(pf) },
		"cable":     func(k *Kernel, pf, _, _ vf.PCIAddr) { k.Cable(pf, false) },
		"autoprobe": func(k *Kernel, pf, _, _ vf.PCIAddr) { doSteps(t, k, step.SetAutoprobe{PF: pf}) },
		"admin MAC": func(k *Kernel, pf, _, _ vf.PCIAddr) { doSteps(t, k, step.SetVFMAC{PF: pf, MAC: vf.MAC{2}}) },
		"VLAN":      func(k *Kernel, pf, _, _ vf.PCIAddr) { doSteps(t, k, step.SetVFVLAN{PF: pf, VLAN: vf.VLAN{ID: 5}}) },
		"trust": func(k *Kernel, pf, _, _ vf.PCIAddr) {
			doSteps(t, k, step.SetVFSwitch{PF: pf, Setting: vf.SetTrust, On: true})
		},
		"rate":         func(k *Kernel, pf, _, _ vf.PCIAddr) { doSteps(t, k, step.SetVFRate{PF: pf, Max: 100}) },
		"VF unplugged": func(k *Kernel, _, a, _ vf.PCIAddr) { must(t, k.RemoveVF(a)) },
		"driver":       func(k *Kernel, _, a, _ vf.PCIAddr) { doSteps(t, k, step.Unbind{VF: a}) },
		"name":         func(k *Kernel, _, a, _ vf.PCIAddr) { must(t, k.Meddle(a, func(s *vf.State) { s.Link.Name = "x" })) },
		"MTU":          func(k *Kernel, _, a, _ vf.PCIAddr) { doSteps(t, k, step.SetMTU{VF: a, Netns: podNetns, MTU: 1400}) },
		"MAC": func(k *Kernel, _, a, _ vf.PCIAddr) {
			doSteps(t, k, step.SetLinkMAC{VF: a, Netns: podNetns, MAC: vf.MAC{2}})
		},
		"promiscuity": func(k *Kernel, _, a, _ vf.PCIAddr) { must(t, k.Meddle(a, func(s *vf.State) { s.Link.Promisc = true })) },
		"address": func(k *Kernel, _, a, _ vf.PCIAddr) {
			doSteps(t, k, step.AddAddress{VF: a, Netns: podNetns, Address: address})
		},
		"tentative": func(k *Kernel, _, a, _ vf.PCIAddr) {
			must(t, k.Meddle(a, func(s *vf.State) { s.Link.Tentative = s.Link.Addrs }))
		},
		"duplicate": func(k *Kernel, _, a, _ vf.PCIAddr) {
			must(t, k.Meddle(a, func(s *vf.State) { s.Link.Duplicates = s.Link.Addrs }))
		},
		"route": func(k *Kernel, _, a, _ vf.PCIAddr) {
			doSteps(t, k, step.AddRoute{VF: a, Netns: podNetns, Route: routeVia("10.1.0.0/16", "")})
		},
		"attribute": func(k *Kernel, _, a, _ vf.PCIAddr) { must(t, k.SetAttribute(a, "rings", "1")) },
		"bond up": func(k *Kernel, _, _, b vf.PCIAddr) {
			doSteps(t, k, step.SetUp{VF: b, Netns: podNetns, Bond: "bond0", Up: true})
		},
		"bond member":   func(k *Kernel, _, _, b vf.PCIAddr) { doSteps(t, k, step.SetUp{VF: b, Netns: podNetns}) },
		"bond's MTU":    func(k *Kernel, _, _, _ vf.PCIAddr) { k.bonds[0].link.MTU = 1400 },
		"guard":         func(k *Kernel, _, a, _ vf.PCIAddr) { k.MeddleGuard(a, podNetns, nil) },
		"host's master": func(k *Kernel, pf, _, _ vf.PCIAddr) { must(t, k.JoinMaster(pf, "br0")) },
		"its MTU":       func(k *Kernel, _, _, _ vf.PCIAddr) { must(t, k.SetMasterMTU("br0", 1400)) },
	} {
		k, pf, a, b := build()
		before := k.String()
		if change(k, pf, a, b); k.String() == before {
			t.Errorf("%s: the text is the same", name)
		}
	}
}

// TestRoundedRateShows: the kernel reports the requested rate. If the hardware uses another rate,
// the text of String has both.
func TestRoundedRateShows(t *testing.T) {
	k, pf := made(t, I40E, 1)
	for asked, want := range map[uint32]string{100: "rates 0-100 driver", 120: "rates 0-120 (100) driver"} {
		doSteps(t, k, step.SetVFRate{PF: pf.PCI, Max: asked})
		if !strings.Contains(k.String(), want) {
			t.Errorf("asked for %d: no %q in %s", asked, want, k)
		}
	}
}
