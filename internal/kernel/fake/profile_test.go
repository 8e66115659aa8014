package fake

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// P13: the fake kernel refuses what vf.PF.Fits refuses, and its hardware uses the rate that
// vf.Driver.Effective returns. The tests of package vf have the results of both for each driver.
func TestRatesAgreeWithTheDrivers(t *testing.T) {
	rates := []uint32{0, 1, 10, 11, 49, 50, 99, 170, 1000, 1001, 10000, 10001, 25000, 25001, 100000, 100001}
	for name, p := range limitingProfiles() {
		for _, speed := range []int{p.SpeedMbps, 1000, 0} {
			k, pf := made(t, p, 1)
			if err := k.SetLinkSpeed(pf.PCI, max(speed, 1)); err != nil {
				t.Fatal(err)
			}
			k.Cable(pf.PCI, speed > 0)
			pf = first(t, k)
			for _, highest := range rates {
				err := k.Do(t.Context(), step.SetVFRate{PF: pf.PCI, Max: highest})
				spec := vf.Spec{MaxTxRate: &highest}
				if highest == 0 {
					if pf.CanClearRates() != (err == nil) {
						t.Errorf("%s at %d Mb/s, cleared: %v", name, speed, err)
					}
					continue
				}
				if said := pf.Fits(spec, vf.Admin{}, ""); (said != nil) != (err != nil) {
					t.Errorf("%s at %d Mb/s, rate %d: Fits says %v, the driver says %v", name, speed, highest, said, err)
				}
				if err != nil {
					continue
				}
				f := k.pfs[0].vfs[0]
				if f.Admin.MaxTxRate != highest {
					t.Errorf("%s reports %d for %d", name, f.Admin.MaxTxRate, highest)
				}
				if got := vf.DriverOf(p.Driver).Effective(f.Admin).MaxTxRate; got != f.rate {
					t.Errorf("%s, rate %d: vf says %d, the hardware keeps to %d", name, highest, got, f.rate)
				}
			}
		}
	}
}

func allProfiles() map[string]Profile {
	all := Profiles()
	maps.Copy(all, RareProfiles())
	return all
}

// limitingProfiles returns the NICs whose drivers limit the rate of a VF.
func limitingProfiles() map[string]Profile {
	all := allProfiles()
	maps.DeleteFunc(all, func(_ string, p Profile) bool { return p.Abilities[vf.SetMaxTxRate] != vf.Yes })
	return all
}

// A setting that a driver lacks reads back as unknown and cannot be set (compat.md, driver
// abilities).
func TestProfilesHaveTheirAbilities(t *testing.T) {
	for name, p := range allProfiles() {
		k, pf := made(t, p, 2)
		for setting, s := range map[vf.Setting]step.Step{
			vf.SetSpoofChk:  step.SetVFSwitch{PF: pf.PCI, Index: 1, Setting: vf.SetSpoofChk},
			vf.SetTrust:     step.SetVFSwitch{PF: pf.PCI, Index: 1, Setting: vf.SetTrust},
			vf.SetRSSQuery:  step.SetVFSwitch{PF: pf.PCI, Index: 1, Setting: vf.SetRSSQuery},
			vf.SetLinkState: step.SetVFLinkState{PF: pf.PCI, Index: 1},
			vf.SetVLAN:      step.SetVFVLAN{PF: pf.PCI, Index: 1, VLAN: vf.VLAN{ID: 4}},
			vf.SetMinTxRate: step.SetVFRate{PF: pf.PCI, Index: 1, Min: 100, Max: 200},
		} {
			has := p.Abilities[setting] == vf.Yes
			if err := k.Do(t.Context(), s); has != (err == nil) || !has && !errors.Is(err, vf.ErrUnable) {
				t.Errorf("%s %s: %v", name, s, err)
			}
		}
		a := first(t, k).VFs[1].Admin
		for setting, read := range map[vf.Setting]vf.Tri{vf.SetSpoofChk: a.SpoofChk, vf.SetTrust: a.Trust, vf.SetRSSQuery: a.RSSQuery} {
			if has := p.Abilities[setting] == vf.Yes; has == (read == vf.Unknown) {
				t.Errorf("%s: %s reads %s", name, setting, read)
			}
		}
	}
}

// ixgbe and igb drop the rates when the speed of the link changes; the others
// keep them.
func TestRatesAfterAnotherLinkSpeed(t *testing.T) {
	for name, p := range limitingProfiles() {
		k, pf := made(t, p, 1)
		if err := k.Do(t.Context(), step.SetVFRate{PF: pf.PCI, Max: 100}); err != nil {
			t.Fatal(name, err)
		}
		if err := k.SetLinkSpeed(pf.PCI, p.SpeedMbps); err != nil {
			t.Fatal(err)
		}
		if got := first(t, k).VFs[0].Admin.MaxTxRate; got != 100 {
			t.Errorf("%s: %d at the same speed", name, got)
		}
		if err := k.SetLinkSpeed(pf.PCI, 100); err != nil {
			t.Fatal(err)
		}
		if dropped := first(t, k).VFs[0].Admin.MaxTxRate == 0; dropped != (p.Driver == "igb" || p.Driver == "ixgbe") {
			t.Errorf("%s: dropped %t", name, dropped)
		}
	}
}

func TestVFsHaveTheirPlaceOnTheBus(t *testing.T) {
	for _, tt := range []struct {
		p    Profile
		want string
	}{
		{IGB, "0000:01:10.0 0000:01:10.2 0000:01:10.4"},
		{IXGBE, "0000:01:10.0 0000:01:10.2 0000:01:10.4"},
		{I40E, "0000:01:02.0 0000:01:02.1 0000:01:02.2"},
		{ICE, "0000:01:01.0 0000:01:01.1 0000:01:01.2"},
		{MLX5, "0000:01:00.2 0000:01:00.3 0000:01:00.4"},
		{CXGB4, "0000:01:01.0 0000:01:01.4 0000:01:02.0"},
	} {
		_, pf := made(t, tt.p, 3)
		if got := fmt.Sprint(pf.VFs[0].PCI, " ", pf.VFs[1].PCI, " ", pf.VFs[2].PCI); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.p.Driver, got, tt.want)
		}
	}
}

// The PFs of a T6 have no netdevice of their own, and use the link of one of two ports.
func TestSplitPFs(t *testing.T) {
	k := New(CXGB4, 4)
	pf := first(t, k)
	if pf.Name != "" || pf.Port != "enp1s0f4" || pf.ID.Port != "pf0" {
		t.Errorf("%+v", pf)
	}
	if err := k.Do(t.Context(), step.SetPFUp{PF: pf.PCI}); err != nil {
		t.Fatal(err)
	}
	pfs, err := k.PFs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, pf := range pfs {
		got += fmt.Sprintf("%s %s %t\n", pf.PCI, pf.Port, pf.Carrier)
	}
	if want := "0000:01:00.0 enp1s0f4 true\n0000:01:00.1 enp1s0f4d1 false\n0000:01:00.2 enp1s0f4 true\n0000:01:00.3 enp1s0f4d1 false\n"; got != want {
		t.Error(got)
	}
	if err := k.Do(t.Context(), step.SetNumVFs{PF: pf.PCI, N: 1}); err != nil {
		t.Fatal(err)
	}
	v := first(t, k).VFs[0]
	if v.Admin.MAC.IsZero() || v.Link.MAC != v.Admin.MAC {
		t.Errorf("the firmware's address: %s, %s", v.Admin.MAC, v.Link.MAC)
	}
	if err := k.Do(t.Context(), step.SetVFMAC{PF: pf.PCI}); !errors.Is(err, vf.ErrUnable) {
		t.Error("cleared:", err)
	}
	err = k.Do(t.Context(), step.SetVFVLAN{PF: pf.PCI, VLAN: vf.VLAN{ID: 5, QoS: 1}})
	if !errors.Is(err, vf.ErrUnable) {
		t.Error("a VLAN with priority:", err)
	}
}

// Some drivers accept a sriov_numvfs write and change nothing.
func TestDeaf(t *testing.T) {
	k := New(Deaf, 1)
	if err := k.Do(t.Context(), step.SetNumVFs{PF: first(t, k).PCI, N: 2}); !errors.Is(err, vf.ErrUnable) {
		t.Error(err)
	}
	if n := first(t, k).NumVFs; n != 0 {
		t.Error(n)
	}
}

func TestClearMACOfIXGBE(t *testing.T) {
	k, pf := made(t, IXGBE, 1)
	mac := vf.MAC{2, 0, 0, 0, 0, 1}
	for i, s := range []step.Step{step.SetVFMAC{PF: pf.PCI, MAC: mac}, step.SetVFMAC{PF: pf.PCI}, step.SetVFMAC{PF: pf.PCI}} {
		if err := k.Do(t.Context(), s); (err != nil) != (i == 2) {
			t.Error(i, err)
		}
	}
}

// Probe finds out the same settings as kernel.Probe, and no others.
func TestProbe(t *testing.T) {
	k, pf := made(t, IGB, 1)
	for _, tt := range []struct {
		cable bool
		max   vf.Tri
	}{{true, vf.Yes}, {false, vf.Unknown}} {
		k.Cable(pf.PCI, tt.cable)
		a, err := k.Probe(t.Context(), pf.PCI, 0)
		if err != nil || a[vf.SetMAC] != vf.Unknown || a[vf.SetMinTxRate] != vf.Unknown || a[vf.SetMaxTxRate] != tt.max || a[vf.SetVLAN] != vf.Yes {
			t.Errorf("cable %t: %v %v", tt.cable, a, err)
		}
	}
}
