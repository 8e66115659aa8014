package alloc_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// host has two PFs with n VFs each, all free and in pool x/a.
func host(n int) alloc.Host {
	h := alloc.Host{Spec: desired.Spec{Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice}}}}
	for p := range 2 {
		pf := vf.PF{ID: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, byte(p + 1)}}, Name: []string{"enp1s0", "enp2s0"}[p], Up: true, Carrier: true}
		for i := range n {
			id := vf.ID{PF: pf.ID, Index: i}
			pci := vf.PCIAddr{Bus: uint8(p + 1), Device: 0x10, Function: uint8(i)}
			pf.VFs = append(pf.VFs, vf.State{ID: id, PCI: pci})
			h.Records = append(h.Records, journal.Record{ID: id, PCI: pci, Phase: vf.PhaseFree})
		}
		h.PFs = append(h.PFs, pf)
	}
	return h
}

// hold gives record i to an owner.
func hold(h alloc.Host, i int, name string) {
	h.Records[i].Phase = vf.PhaseAttached
	h.Records[i].Lease.Owner = vf.Owner{Kind: vf.OwnerPod, Name: name}
}

var me = vf.Owner{Kind: vf.OwnerPod, Name: "default/c"}

func TestChoose(t *testing.T) {
	epoch := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		change func(alloc.Host)
		want   string
	}{
		"nothing held: the first":             {func(alloc.Host) {}, "02:00:00:00:00:01#0"},
		"the PF with most left":               {func(h alloc.Host) { hold(h, 0, "a") }, "02:00:00:00:00:02#0"},
		"the one that nobody has had yet":     {func(h alloc.Host) { h.Records[0].Released = epoch }, "02:00:00:00:00:01#1"},
		"the one given back longest ago":      {func(h alloc.Host) { released(h, epoch, 3, 1, 2, 9, 9, 9) }, "02:00:00:00:00:01#1"},
		"quarantined ones are not free":       {func(h alloc.Host) { h.Records[0].Phase = vf.PhaseQuarantined }, "02:00:00:00:00:02#0"},
		"a PF without a link comes last":      {func(h alloc.Host) { h.PFs[0].Carrier = false }, "02:00:00:00:00:02#0"},
		"so does one that is down":            {func(h alloc.Host) { h.PFs[0].Up = false }, "02:00:00:00:00:02#0"},
		"no link is better than no VF":        {func(h alloc.Host) { h.PFs[1].Carrier = false; hold(h, 0, "a"); hold(h, 1, "a"); hold(h, 2, "a") }, "02:00:00:00:00:02#0"},
		"a PF with errors of late comes last": {func(h alloc.Host) { h.PFs[0].Faults = []vf.Fault{vf.FaultPCIe} }, "02:00:00:00:00:02#0"},
		"so does one with a VF in quarantine": {func(h alloc.Host) {
			h.Records[0].Phase = vf.PhaseQuarantined
			hold(h, 3, "a")
			hold(h, 4, "a")
		}, "02:00:00:00:00:02#2"},
		"errors are better than no link": {func(h alloc.Host) {
			h.PFs[0].Carrier, h.PFs[1].Faults = false, []vf.Fault{vf.FaultTransmitQueue}
		}, "02:00:00:00:00:02#0"},
		"ones that are being made are not free": {func(h alloc.Host) { h.Records[0].Phase = vf.PhaseMaking }, "02:00:00:00:00:02#0"},
	} {
		t.Run(name, func(t *testing.T) {
			h := host(3)
			tc.change(h)
			got, err := alloc.Choose(h, alloc.Want{For: me})
			if err != nil || got.Record.ID.String() != tc.want || got.Pool != "x/a" {
				t.Errorf("got %s of %q, %v; want %s", got.Record.ID, got.Pool, err, tc.want)
			}
		})
	}
}

// A VF that the kubelet gave to a pod is that pod's before it is attached: only
// a request that names it gets it (I1).
func TestI1GivenByTheKubelet(t *testing.T) {
	h := host(1)
	given := map[vf.PCIAddr]string{h.Records[0].PCI: "default/a"}
	w := alloc.Want{For: me, Given: func(a vf.PCIAddr) string { return given[a] }}
	if got, err := alloc.Choose(h, w); err != nil || got.Record.ID != h.Records[1].ID {
		t.Errorf("got %s, %v", got.Record.ID, err)
	}
	given[h.Records[1].PCI] = "default/b"
	_, err := alloc.Choose(h, w)
	says := "pool x/a: 0 of 2 VFs on enp1s0, enp2s0 are held, 2 given by the kubelet (pod default/a; pod default/b): nothing free for pod default/c"
	if !errors.Is(err, vf.ErrNothingFree) || err.Error() != says {
		t.Errorf("got  %v\nwant %s", err, says)
	}
	w.VF = h.Records[0].PCI
	if _, err := alloc.Choose(h, w); !errors.Is(err, vf.ErrHeld) || !strings.Contains(err.Error(), "the kubelet gave it to pod default/a, wanted for pod default/c") {
		t.Errorf("another pod names it: %v", err)
	}
	w.For.Kind, w.For.Name = vf.OwnerGuest, "default/a"
	if _, err := alloc.Choose(h, w); !errors.Is(err, vf.ErrHeld) {
		t.Errorf("a guest of the pod's name names it: %v", err)
	}
	w.For = vf.Owner{Kind: vf.OwnerPod, Name: "default/a"}
	if got, err := alloc.Choose(h, w); err != nil || got.Record.PCI != w.VF {
		t.Errorf("its own pod names it: %s, %v", got.Record.ID, err)
	}
}

// I1: in a cluster a pod that names a VF gets it only when the kubelet gave it that VF.
// The kubelet may have promised a VF to a pod that it does not list yet: only that pod
// gets it. Guests and containers outside Kubernetes name VFs that no pod has, as on a
// host without a kubelet.
func TestI1NamedVFIsTheKubeletsToGive(t *testing.T) {
	h := host(1)
	pod := ""
	w := alloc.Want{VF: h.Records[0].PCI, For: me, Network: "blue", Given: func(vf.PCIAddr) string { return pod }}
	says := "VF 0000:01:10.0 on enp1s0: the kubelet gave it to no pod: invalid for pod default/c (network blue): set the annotation " +
		"k8s.v1.cni.cncf.io/resourceName of the NetworkAttachmentDefinition to x/a, request x/a in the pod's resources, and leave deviceID out of the network"
	if _, err := alloc.Choose(h, w); !errors.Is(err, vf.ErrInvalid) || err.Error() != says {
		t.Errorf("given to no pod:\ngot  %v\nwant %s", err, says)
	}
	others := []vf.Owner{{Kind: vf.OwnerGuest, Name: "db1"}, {Kind: vf.OwnerContainer, UID: "c1"}}
	for _, other := range others {
		w.For = other
		if got, err := alloc.Choose(h, w); errors.Is(err, vf.ErrHeld) || err == nil && got.Record.PCI != w.VF {
			t.Errorf("%s names a VF that no pod has: %v", other, err)
		}
	}
	pod = "that the kubelet starts"
	for _, other := range append(others, me) {
		w.For = other
		if _, err := alloc.Choose(h, w); !errors.Is(err, vf.ErrHeld) {
			t.Errorf("%s names a VF that is on its way to a pod: %v", other, err)
		}
	}
	w.For, w.Given = me, nil
	if got, err := alloc.Choose(h, w); err != nil || got.Record.PCI != w.VF {
		t.Errorf("without a kubelet: %v", err)
	}
}

func released(h alloc.Host, epoch time.Time, seconds ...int) {
	for i, s := range seconds {
		h.Records[i].Released = epoch.Add(time.Duration(s) * time.Second)
	}
}

// P10: the error names the owners of the requested VFs, and the next step.
func TestRefusals(t *testing.T) {
	full := func(h alloc.Host) {
		hold(h, 0, "default/a")
		hold(h, 1, "default/b")
	}
	for name, tc := range map[string]struct {
		change func(alloc.Host)
		want   alloc.Want
		is     error
		says   string
	}{
		"nothing free": {full, alloc.Want{}, vf.ErrNothingFree,
			"pool x/a: 2 of 2 VFs on enp1s0, enp2s0 are held (pod default/a; pod default/b): nothing free for pod default/c"},
		"some quarantined": {func(h alloc.Host) { full(h); h.Records[1].Phase = vf.PhaseQuarantined }, alloc.Want{}, vf.ErrNothingFree,
			"pool x/a: 1 of 2 VFs on enp1s0, enp2s0 are held (pod default/a), 1 quarantined (culvert vf list says why): nothing free"},
		"no such pool": {func(alloc.Host) {}, alloc.Want{Pool: "b"}, vf.ErrNotFound, `pod default/c wants a VF: pool "b": not found: there are x/a`},
		"the VF is held": {full, alloc.Want{VF: vf.PCIAddr{Bus: 1, Device: 0x10}}, vf.ErrHeld,
			"VF 0000:01:10.0 on enp1s0: held by pod default/a, wanted for pod default/c"},
		"the VF is unknown": {full, alloc.Want{VF: vf.PCIAddr{Bus: 9}}, vf.ErrNotFound, "VF 0000:09:00.0: not found among the VFs that culvertd made"},
		"the VF is in no such pool": {func(alloc.Host) {}, alloc.Want{VF: vf.PCIAddr{Bus: 1, Device: 0x10}, Pool: "b", MAC: &vf.MAC{2, 0, 0, 0, 0, 9}}, vf.ErrInvalid,
			"VF 0000:01:10.0 on enp1s0 is in pool x/a, and pod default/c wants one of pool b: invalid: ask for a VF of that pool, or leave the pool out"},
		"the VF of that pool is elsewhere now": {func(h alloc.Host) { h.Records[1].Baseline.Admin.MAC = vf.MAC{2, 0, 0, 0, 0, 9} },
			alloc.Want{VF: vf.PCIAddr{Bus: 1, Device: 0x10}, Pool: "x/b", MAC: &vf.MAC{2, 0, 0, 0, 0, 9}}, vf.ErrInvalid,
			"invalid: VF 0000:02:10.0 on enp2s0 has the MAC address 02:00:00:00:00:09 that pod default/c asks for: ask for a VF"},
		"the VF is quarantined": {func(h alloc.Host) { h.Records[0].Phase, h.Records[0].Reason = vf.PhaseQuarantined, "vlan is 7" },
			alloc.Want{VF: vf.PCIAddr{Bus: 1, Device: 0x10}}, vf.ErrHeld, "quarantined (vlan is 7)"},
	} {
		t.Run(name, func(t *testing.T) {
			h := host(1)
			tc.change(h)
			tc.want.For = me
			_, err := alloc.Choose(h, tc.want)
			if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got  %v\nwant %s", err, tc.says)
			}
		})
	}
}

// A request may name a VF together with its pool, by the short name or the whole one. An owner that uses
// a VF of another pool already keeps it.
func TestNamedVFOfItsPool(t *testing.T) {
	for _, w := range []alloc.Want{{Pool: "a"}, {Pool: "x/a"}, {Pool: "x/b", Owned: true}} {
		w.VF, w.For = vf.PCIAddr{Bus: 1, Device: 0x10}, me
		if got, err := alloc.Choose(host(1), w); err != nil || got.Record.PCI != w.VF || got.Pool != "x/a" {
			t.Errorf("%+v: %v, %v", w, got.Record.PCI, err)
		}
	}
}

// Choose takes the other VF of a pair from another PF. If no other PF has a free VF, the error says
// so.
func TestPairsAreOfTwoPFs(t *testing.T) {
	h := host(2)
	hold(h, 0, "default/a")
	got, err := alloc.Choose(h, alloc.Want{For: me, Apart: h.Records[0].ID})
	if err != nil || got.Record.ID.PF == h.Records[0].ID.PF {
		t.Errorf("got %s, %v", got.Record.ID, err)
	}
	hold(h, 2, "default/b")
	hold(h, 3, "default/b")
	_, err = alloc.Choose(h, alloc.Want{For: me, Apart: h.Records[0].ID})
	says := "pool x/a: 3 of 4 VFs on enp1s0, enp2s0 are held (pod default/a; pod default/b; pod default/b), and the free ones are on enp1s0, where it has the other one of the pair"
	if !errors.Is(err, vf.ErrNothingFree) || !strings.Contains(err.Error(), says) {
		t.Errorf("got  %v\nwant %s", err, says)
	}
	_, err = alloc.Choose(h, alloc.Want{For: me, Apart: h.Records[0].ID, VF: h.Records[1].PCI})
	if !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), "is on enp1s0, where pod default/c has the other one of the pair") {
		t.Errorf("by name: %v", err)
	}
}

// The owner gets the VF with the driver that its pool wants. A VF in no pool keeps the driver of
// its baseline.
func TestDriverFollowsThePool(t *testing.T) {
	for name, tc := range map[string]struct {
		pools      []desired.Pool
		bound      string
		pool, want string
	}{
		"netdevice pool":              {[]desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice}}, "igbvf", "x/a", vf.DriverDefault},
		"vfio pool, bound only now":   {[]desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.VFIO}}, "igbvf", "x/a", vf.DriverVFIO},
		"no pool":                     {nil, "igbvf", "", vf.DriverDefault},
		"no pool, kept bound to vfio": {nil, "vfio-pci", "", vf.DriverVFIO},
	} {
		t.Run(name, func(t *testing.T) {
			h := host(1)
			h.Spec.Pools = tc.pools
			h.Records[0].Baseline.Driver = tc.bound
			got, err := alloc.Choose(h, alloc.Want{VF: h.Records[0].PCI, For: me})
			if err != nil || got.Driver != tc.want || got.Pool != tc.pool {
				t.Errorf("driver %q pool %q, %v; want %q %q", got.Driver, got.Pool, err, tc.want, tc.pool)
			}
		})
	}
}

// Choose refuses a VF that a guest names if the VF shares an IOMMU group. From a pool, it picks a
// VF that shares none.
func TestGuestsNeedAGroupOfTheirOwn(t *testing.T) {
	guest := vf.Owner{Kind: vf.OwnerGuest, UID: "6695eb01", Name: "db1"}
	first := vf.PCIAddr{Bus: 1, Device: 0x10}
	for name, tc := range map[string]struct {
		groups [4]int // of two VFs on each of two PFs
		pfs    [2]int
		want   alloc.Want
		gets   string
		says   string
	}{
		"each its own":         {[4]int{10, 11, 12, 13}, [2]int{1, 2}, alloc.Want{For: guest}, "02:00:00:00:00:01#0", ""},
		"one PF does not":      {[4]int{10, 10, 12, 13}, [2]int{1, 2}, alloc.Want{For: guest}, "02:00:00:00:00:02#0", ""},
		"with its PF":          {[4]int{1, 1, 2, 2}, [2]int{1, 2}, alloc.Want{For: guest, VF: first}, "", "VF 0000:01:10.0 on enp1s0 shares IOMMU group 1 with PF enp1s0, VF 0000:01:10.1: "},
		"nobody":               {[4]int{9, 9, 9, 9}, [2]int{1, 2}, alloc.Want{For: guest}, "", "VF 0000:02:10.1 on enp2s0 shares IOMMU group 9 with VF 0000:01:10.0, VF 0000:01:10.1, VF 0000:02:10.0: "},
		"no IOMMU":             {[4]int{-1, -1, -1, -1}, [2]int{-1, -1}, alloc.Want{For: guest}, "", "VF 0000:02:10.1 on enp2s0 is in no IOMMU group: "},
		"no IOMMU, and named":  {[4]int{-1, -1, -1, -1}, [2]int{-1, -1}, alloc.Want{For: guest, VF: first}, "", "VF 0000:01:10.0 on enp1s0 is in no IOMMU group: "},
		"a pod needs no group": {[4]int{-1, -1, -1, -1}, [2]int{-1, -1}, alloc.Want{For: me}, "02:00:00:00:00:01#0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := host(2)
			for i, group := range tc.groups {
				h.PFs[i/2].VFs[i%2].IOMMUGroup = group
			}
			for i, group := range tc.pfs {
				h.PFs[i].IOMMUGroup = group
			}
			got, err := alloc.Choose(h, tc.want)
			if tc.says != "" {
				if !errors.Is(err, vf.ErrInvalid) || !strings.HasPrefix(err.Error(), tc.says) {
					t.Errorf("got  %v\nwant %s", err, tc.says)
				}
			} else if err != nil || got.Record.ID.String() != tc.gets {
				t.Errorf("got %s, %v; want %s", got.Record.ID, err, tc.gets)
			}
		})
	}
}
