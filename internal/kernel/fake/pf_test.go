package fake

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// TestCarrierOfPF: a PF has carrier if it is up and its cable is in (IFF_LOWER_UP of uapi
// linux/if.h). The kernel counts each loss (IFLA_CARRIER_DOWN_COUNT of uapi linux/if_link.h).
func TestCarrierOfPF(t *testing.T) {
	k := New(IGB, 1)
	pf := first(t, k).PCI
	for _, c := range []struct {
		what    string
		change  func()
		carrier bool
		losses  uint32
	}{
		{"at first", func() {}, false, 0},
		{"up", func() { doSteps(t, k, step.SetPFUp{PF: pf}) }, true, 0},
		{"its cable pulled", func() { k.Cable(pf, false) }, false, 1},
		{"down without a cable", func() { k.TakePFDown(pf) }, false, 1},
		{"down with a cable", func() { k.Cable(pf, true) }, false, 1},
		{"up again", func() { doSteps(t, k, step.SetPFUp{PF: pf}) }, true, 1},
		{"down", func() { k.TakePFDown(pf) }, false, 2},
	} {
		c.change()
		now := first(t, k)
		carrier, err := k.Carrier(pf)
		waited := k.Do(t.Context(), step.WaitCarrier{PF: pf})
		if now.Carrier != c.carrier || carrier != c.carrier || err != nil || now.CarrierLosses != c.losses || (now.SpeedMbps > 0) != c.carrier {
			t.Errorf("%s: carrier %t and %t, %d losses; want %t, %d", c.what, now.Carrier, carrier, now.CarrierLosses, c.carrier, c.losses)
		}
		if (waited == nil) != c.carrier || waited != nil && !errors.Is(waited, vf.ErrTimeout) {
			t.Errorf("%s: the wait for carrier: %v", c.what, waited)
		}
	}
	if carrier, err := k.Carrier(vf.PCIAddr{Bus: 99}); carrier || err != nil {
		t.Errorf("a PF that is gone: %t, %v", carrier, err)
	}
}

// TestPFAddresses: addresses that Culvert added have its mark (IFA_PROTO of uapi linux/if_addr.h),
// and those of the host have none. The errors are those of inet_rtm_newaddr and inet_rtm_deladdr
// (net/ipv4/devinet.c).
func TestPFAddresses(t *testing.T) {
	k := New(IGB, 1)
	pf := first(t, k).PCI
	own, others, none := netip.MustParsePrefix("10.0.0.1/24"), netip.MustParsePrefix("10.0.0.2/24"), netip.MustParsePrefix("10.0.0.3/24")
	must(t, k.AddOthersAddress(pf, others))
	for _, c := range []struct {
		step       step.Step
		want       error
		addrs, own []netip.Prefix
	}{
		{step.AddPFAddress{PF: pf, Address: own}, nil, []netip.Prefix{others, own}, []netip.Prefix{own}},
		{step.AddPFAddress{PF: pf, Address: own}, syscall.EEXIST, []netip.Prefix{others, own}, []netip.Prefix{own}},
		{step.AddPFAddress{PF: pf, Address: others}, syscall.EEXIST, []netip.Prefix{others, own}, []netip.Prefix{own}},
		{step.DelPFAddress{PF: pf, Address: none}, syscall.EADDRNOTAVAIL, []netip.Prefix{others, own}, []netip.Prefix{own}},
		{step.DelPFAddress{PF: pf, Address: own}, nil, []netip.Prefix{others}, nil},
		{step.DelPFAddress{PF: pf, Address: others}, nil, nil, nil},
	} {
		err := k.Do(t.Context(), c.step)
		now := first(t, k)
		if !errors.Is(err, c.want) || !slices.Equal(now.Addrs, c.addrs) || !slices.Equal(now.OwnAddrs, c.own) {
			t.Errorf("%s: %v, %v, of which Culvert's are %v; want %v, %v, %v", c.step, err, now.Addrs, now.OwnAddrs, c.want, c.addrs, c.own)
		}
	}
}

// TestResetPF: a PF that is reset loses its link and its settings of the VFs. Their interfaces go
// down, without addresses and with the first MTU. The VFs and their drivers stay.
func TestResetPF(t *testing.T) {
	k, v, _, _ := inPod(t)
	pf := first(t, k).PCI
	fresh := first(t, k).VFs[0].Admin
	doSteps(t, k, step.SetVFMAC{PF: pf, MAC: vf.MAC{2, 0, 0, 0, 0, 1}}, step.SetVFRate{PF: pf, Max: 100}, step.SetMTU{VF: v, Netns: podNetns, MTU: 4000})
	before, losses := *podLink(t, k, v), first(t, k).CarrierLosses
	must(t, k.ResetPF(pf))
	now := first(t, k)
	if now.VFs[0].Admin != fresh || now.CarrierLosses != losses+1 || !now.Carrier || now.VFs[0].Driver != "igbvf" {
		t.Errorf("after the reset: %+v", now)
	}
	want := vf.Link{Netns: podNetns, Index: before.Index, Name: "net1", MAC: before.MAC, MTU: 1500}
	if diff := cmp.Diff(want, *podLink(t, k, v), cmpopts.IgnoreFields(vf.Link{}, "Attributes")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := k.ResetPF(vf.PCIAddr{Bus: 99}); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("no PF: %v", err)
	}
}

// TestSetMailbox: while a PF does not answer, its VFs have no carrier, and a VF driver that binds
// makes up a MAC address (igbvf_probe of drivers/net/ethernet/intel/igbvf/netdev.c after a reset_hw
// that failed).
func TestSetMailbox(t *testing.T) {
	k, v, _, host := inPod(t)
	pf, mac := first(t, k).PCI, vf.MAC{2, 0, 0, 0, 0, 3}
	doSteps(t, k, step.SetVFMAC{PF: pf, Index: 2, MAC: mac})
	for _, answers := range []bool{false, true} {
		must(t, k.SetMailbox(pf, answers))
		doSteps(t, k, step.Unbind{VF: host}, step.Bind{VF: host})
		if got := podLink(t, k, v); got.Carrier != answers || !got.Up {
			t.Errorf("the PF answers: %t, and the VF is up %t with carrier %t", answers, got.Up, got.Carrier)
		}
		if got := podLink(t, k, host).MAC; (got == mac) != answers || got.IsZero() {
			t.Errorf("the PF answers: %t, and a new netdevice has %s", answers, got)
		}
	}
	if err := k.SetMailbox(vf.PCIAddr{Bus: 99}, true); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("no PF: %v", err)
	}
}

// TestWatch: a watcher wakes for a change, once for several, and its channel is closed when the
// caller ends the watch.
func TestWatch(t *testing.T) {
	k, v, _, _ := inPod(t)
	ctx, cancel := context.WithCancel(t.Context())
	wake, err := k.Watch(ctx)
	must(t, err)
	awake := func() bool {
		select {
		case <-wake:
			return true
		default:
			return false
		}
	}
	if awake() {
		t.Error("it wakes before a change")
	}
	for name, change := range map[string]func(){
		"a step": func() {
			doSteps(t, k, step.SetUp{VF: v, Netns: podNetns}, step.SetUp{VF: v, Netns: podNetns, Up: true})
		},
		"a cable":     func() { k.Cable(first(t, k).PCI, false) },
		"an outsider": func() { must(t, k.Meddle(v, func(s *vf.State) { s.Link.MTU = 1400 })) },
		"an address":  func() { must(t, k.AddOthersAddress(first(t, k).PCI, netip.MustParsePrefix("10.0.0.9/24"))) },
	} {
		if change(); !awake() || awake() {
			t.Errorf("%s does not wake once", name)
		}
	}
	cancel()
	if _, open := <-wake; open {
		t.Error("it wakes after the end, and the channel is not closed")
	}
	k.Cable(first(t, k).PCI, true) // nothing is sent to the closed channel
}

// TestCancelled: a caller whose context ended gets that as the error of each call, and changes
// nothing.
func TestCancelled(t *testing.T) {
	k, v, _, _ := inPod(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := k.String()
	for name, call := range map[string]func() error{
		"Do":    func() error { return k.Do(ctx, step.SetUp{VF: v, Netns: podNetns}) },
		"PFs":   func() error { _, err := k.PFs(ctx); return err },
		"VF":    func() error { _, err := k.VF(ctx, v, ""); return err },
		"Users": func() error { _, err := k.Users(ctx, v); return err },
		"Uses":  func() error { _, err := k.Uses(ctx, v); return err },
		"Guard": func() error { _, err := k.Guard(ctx, v, podNetns); return err },
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(before, k.String()); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
}

// TestAdminOfNone: settings for a VF that is not there are an error that says so, as are those of
// no PF.
func TestAdminOfNone(t *testing.T) {
	k, pf := made(t, IGB, 1)
	for _, s := range []step.Step{
		step.SetVFMAC{PF: pf.PCI, Index: 1}, step.SetVFVLAN{PF: vf.PCIAddr{Bus: 99}}, step.SetVFRate{PF: pf.PCI, Index: -1}, step.SetNumVFs{PF: vf.PCIAddr{Bus: 99}},
	} {
		if err := k.Do(t.Context(), s); !errors.Is(err, vf.ErrNotFound) {
			t.Errorf("%s: %v", s, err)
		}
	}
	if _, err := k.Probe(t.Context(), vf.PCIAddr{Bus: 99}, 0); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("abilities of no PF: %v", err)
	}
	// igb has no 802.1ad VLANs for VFs: igb_ndo_set_vf_vlan
	// (drivers/net/ethernet/intel/igb/igb_main.c) returns EPROTONOSUPPORT for another protocol than
	// 802.1Q.
	if err := k.Do(t.Context(), step.SetVFVLAN{PF: pf.PCI, VLAN: vf.VLAN{ID: 5, Proto: vf.Dot1AD}}); !errors.Is(err, vf.ErrUnable) {
		t.Errorf("802.1ad: %v", err)
	}
}
