package status

import (
	"net/netip"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

var now = time.Date(2026, 11, 21, 20, 42, 15, 0, time.UTC)

const hostYAML = `pfs:
- name: "enp1s0f*"
  vfs: max
- name: enp9s0
  vfs: 2
pools:
- name: intel_sriov_netdevice
  prefix: intel.com
  selectors: {pfNames: ["enp1s0f0", "enp1s0f1#0-3"]}
- name: dpdk
  deviceType: vfio-pci
  selectors: {pfNames: ["enp1s0f1#4-6"]}
- name: late
  offer: claims
  selectors: {pfNames: ["enp1s0f1"]}
- name: chelsio
  selectors: {vendors: ["1425"]}
`

func spec(t *testing.T, text string) desired.Spec {
	t.Helper()
	s, err := desired.Parse("host.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// igb is a PF with n clean VFs.
func igb(port int, n int) vf.PF {
	pf := vf.PF{
		ID:   vf.PFID{MAC: vf.MAC{0x90, 0xe2, 0xba, 0, 0, byte(port + 1)}},
		PCI:  vf.PCIAddr{Bus: 1, Function: uint8(port)},
		Name: "enp1s0f" + string(rune('0'+port)), Vendor: "8086", Device: "10c9", Driver: "igb", IOMMUGroup: 10 + port,
		MTU: 1500, MaxMTU: 9216, Up: true, Carrier: true, SpeedMbps: 1000, NumVFs: n, TotalVFs: 7, Autoprobe: vf.Yes,
		Abilities: vf.Abilities{vf.SetVLAN: vf.Yes, vf.SetSpoofChk: vf.Yes, vf.SetLinkState: vf.No, vf.SetMAC: vf.Yes},
	}
	for i := range n {
		pf.VFs = append(pf.VFs, igbvf(pf, i))
	}
	return pf
}

func igbvf(pf vf.PF, i int) vf.State {
	mac := vf.StableMAC(pf.ID, i)
	return vf.State{
		ID:  vf.ID{PF: pf.ID, Index: i},
		PCI: vf.PCIAddr{Bus: 1, Device: 0x10, Function: uint8(i)}, Vendor: "8086", Device: "10ca", Driver: "igbvf", IOMMUGroup: 20 + i,
		Admin: vf.Admin{MAC: mac, SpoofChk: vf.Yes, VLAN: vf.VLAN{Proto: vf.Dot1Q}},
		Link:  &vf.Link{Index: 30 + i, Name: pf.Name + "v" + string(rune('0'+i)), MAC: mac, MTU: 1500},
	}
}

func free(v vf.State) journal.Record {
	return journal.Record{ID: v.ID, PCI: v.PCI, Phase: vf.PhaseFree, Baseline: vf.BaselineOf(v), Since: now.Add(-3 * time.Hour)}
}

func ptr[T any](v T) *T { return &v }

// node is a node with a bit of everything.
func node(t *testing.T) Input {
	f0, f1 := igb(0, 7), igb(1, 6)
	f1.Carrier, f1.SpeedMbps = false, 0
	for i := range f1.VFs {
		f1.VFs[i].PCI.Device = 0x11
	}
	in := Input{Node: "worker01", Version: "v0.1.0", Now: now, Ready: true, Spec: spec(t, hostYAML), Seen: map[vf.ID]Seen{}}
	for _, v := range append(f0.VFs[:7:7], f1.VFs[:5]...) { // the sixth is not in the ledger
		in.Records = append(in.Records, free(v))
	}
	attachPod(&in, &f0.VFs[0], 0, "a", "default/sriov-net1", "172.16.91.2/24", vf.Spec{
		VLAN: &vf.VLAN{ID: 100, QoS: 3, Proto: vf.Dot1Q}, MaxTxRate: ptr(uint32(499)),
	})
	in.Records[0].Lease.Lent = &journal.Lent{MaxTxRate: 498, Until: now.Add(20 * time.Second)}
	attachPod(&in, &f0.VFs[1], 1, "a-pod-with-a-name-that-is-far-too-long-6d5f8c7b9-x2x4z", "default/sriov-net1", "2001:db8:91::3/64", vf.Spec{})
	f0.VFs[1].Admin.SpoofChk = vf.No // changed outside Culvert
	q := &in.Records[3]
	q.Phase, q.Reason, q.Attempts, q.NextRetry = vf.PhaseQuarantined, "reset: set vf 3 vlan none on PF 0000:01:00.0: invalid argument", 3, now.Add(26*time.Second)
	q.Since = now.Add(-4 * time.Minute)
	f0.VFs[3].Admin.VLAN.ID = 7
	f0.VFs[4].Link.MTU = 9000 // a free VF that was changed
	in.Records[5].Phase, in.Records[5].Baseline = vf.PhaseMaking, vf.Baseline{}
	gone := free(vf.State{ID: vf.ID{PF: f1.ID, Index: 6}, PCI: vf.PCIAddr{Bus: 1, Device: 0x11, Function: 6}})
	gone.Phase = vf.PhaseAttached
	gone.Lease = journal.Lease{Owner: vf.Owner{Kind: vf.OwnerGuest, UID: "8a1c", Name: "db1"}, Wanted: vf.Spec{Driver: vf.DriverVFIO}}
	in.Records = append(in.Records, gone)
	f1.VFs[4].Driver, f1.VFs[4].Link = vf.DriverVFIO, nil
	in.Records[11].Baseline = vf.BaselineOf(f1.VFs[4])
	broken := vf.PF{PCI: vf.PCIAddr{Bus: 4}, ID: vf.PFID{MAC: vf.MAC{2, 0, 0, 0, 0, 9}}, Vendor: "1425", Driver: "cxgb4", NUMA: -1, IOMMUGroup: -1, TotalVFs: 16, Err: "sriov_totalvfs: input/output error"}
	in.PFs = []vf.PF{f1, broken, f0}
	return in
}

// attachPod gives record i, which is of VF v, to a pod.
func attachPod(in *Input, v *vf.State, i int, name, network, prefix string, want vf.Spec) {
	r := &in.Records[i]
	r.Phase, r.Generation, r.Since = vf.PhaseAttached, 3, now.Add(-90*time.Second)
	r.Readback = &vf.Readback{Time: now.Add(-time.Hour), Attributes: 67, AfterOwner: true, Changed: []vf.Difference{{Attribute: "mtu", Want: "1500", Have: "9000"}}}
	want.Interface = "net1"
	want.Addresses = []vf.Address{{Prefix: netip.MustParsePrefix(prefix)}}
	v.Admin = want.Over(v.Admin)
	if want.MaxTxRate != nil {
		v.Admin.MaxTxRate-- // the driver rounds
	}
	r.Lease = journal.Lease{
		Owner:   vf.Owner{Kind: vf.OwnerPod, UID: "3f2a9c41d0b7e5a1", Name: "default/" + name, Interface: "net1"},
		Network: network, Netns: "/var/run/netns/cni-" + name[:1], Wanted: want, Effective: v.Admin, LinkMAC: v.Link.MAC, MTU: 1500,
	}
	seen := *v
	link := *v.Link
	link.Netns, link.Name, link.Up, link.Carrier = r.Lease.Netns, "net1", true, true
	link.Addrs = []netip.Prefix{want.Addresses[0].Prefix}
	seen.Link = &link
	if i == 0 {
		in.Seen[v.ID] = See(*r, seen)
	}
	v.Link = nil
	in.Addresses = append(in.Addresses, journal.Address{Network: network, Addr: want.Addresses[0].Prefix.Addr(), VF: v.ID, Owner: r.Lease.Owner})
}
