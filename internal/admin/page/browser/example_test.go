package browser

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/culvert-net/culvert/internal/admin/page"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

const version = "1.0.0"

// noisy is the VF with the most traffic of the simulated host, and its owner.
const (
	noisy      = "enp175s0f0#5"
	noisyOwner = "media/transcode-6c9f7d5b8-qk2vx"
)

var owners = []string{
	"shop/cart-5d8c6b7f4-9xk2m", "shop/checkout-7f9b5c8d6-tt4lp", "media/transcode-6c9f7d5b8-qk2vx", "telco/upf-0", "telco/upf-1", "telco/smf-6bd9f9c7b-zw5nd",
	"ml/train-llm-worker-3", "ml/train-llm-worker-4", "db/postgres-0", "db/postgres-1", "edge/router-east-84f6d9c5d-x7c8v",
}

func pciOf(bus, device, function int) vf.PCIAddr {
	return vf.PCIAddr{Bus: uint8(bus), Device: uint8(device), Function: uint8(function)}
}

// makePF returns a PF of the simulated host.
func makePF(name string, bus, port int, driver, device string, speed int) api.PF {
	mac := vf.MAC{0x02, 0x1b, 0x21, byte(bus), 0, byte(port)}
	return api.PF{PF: vf.PF{
		Name: name, ID: vf.PFID{MAC: mac}, PCI: pciOf(bus, 0, port), Vendor: "8086", Device: device, Driver: driver, NUMA: bus / 100, IOMMUGroup: bus + port, MAC: mac,
		Up: true, Carrier: speed > 0, SpeedMbps: speed, MTU: 9000, TotalVFs: 64,
	}}
}

// makeVFs returns n VFs of a PF: attached to pods, then free.
func makeVFs(pf api.PF, n, used int) []api.VF {
	var out []api.VF
	for i := range n {
		mac := vf.StableMAC(pf.ID, i)
		v := api.VF{
			Name: fmt.Sprintf("%s#%d", pf.Name, i), ID: vf.ID{PF: pf.ID, Index: i}, PF: pf.Name, Index: i, PCI: pciOf(int(pf.PCI.Bus), 1+i/8, i%8), Vendor: pf.Vendor, Device: "1889",
			Driver: "iavf", NUMA: pf.NUMA, IOMMUGroup: 40 + i, Pool: "culvert.dev/fast", Phase: "free", Since: time.Now().Add(-26 * time.Hour), MAC: mac, Generation: uint64(i + 1),
			Settings: vf.Admin{MAC: mac, SpoofChk: vf.Yes, Trust: vf.No}, Baseline: &vf.Baseline{Admin: vf.Admin{SpoofChk: vf.Yes, Trust: vf.No}, Driver: "iavf", Name: fmt.Sprintf("%sv%d", pf.Name, i), MTU: 1500},
		}
		if i < used {
			own(&v, owners[(i*3+int(pf.PCI.Bus)+int(pf.PCI.Function))%len(owners)], fmt.Sprintf("10.20.%d.%d/24", pf.PCI.Bus, 10+i))
		}
		out = append(out, v)
	}
	return out
}

// own gives a VF to a pod.
func own(v *api.VF, pod, address string) {
	mtu, rate, vlan := 9000, uint32(10000), vf.VLAN{ID: 120, Proto: vf.Dot1Q}
	v.Phase, v.Since = "attached", time.Now().Add(-137*time.Minute)
	v.Owner = &vf.Owner{Kind: vf.OwnerPod, UID: fmt.Sprintf("9f31c0d2a7b54e0f8c%04d", v.Index), Name: pod, Interface: "net1"}
	v.Network, v.Netdevice, v.Addresses = "shop/storage", "net1", []string{address}
	v.Settings.MAC, v.Settings.VLAN, v.Settings.MaxTxRate = v.MAC, vlan, rate
	mac := v.MAC
	v.Wanted = &vf.Spec{MAC: &mac, VLAN: &vlan, MaxTxRate: &rate, MTU: &mtu, Interface: "net1", Addresses: []vf.Address{{Prefix: netip.MustParsePrefix(address)}}}
	v.Link = &vf.Link{Name: "net1", MAC: v.MAC, MTU: 9000, Up: true, Carrier: true}
	v.Guard = &api.Guard{Mode: vf.GuardIP, Degree: vf.GuardEnforced}
}

// makeHost returns a host with two NICs and 32 VFs: traffic, history, a quarantine, drift and a bond.
func makeHost() *simulated {
	s := newSimulated("worker-07", false)
	a, b := makePF("enp59s0f0", 59, 0, "ice", "1592", 100000), makePF("enp59s0f1", 59, 1, "ice", "1592", 100000)
	c, d := makePF("enp175s0f0", 175, 0, "ice", "159b", 25000), makePF("enp175s0f1", 175, 1, "ice", "159b", 0)
	a.Segment, b.Segment, c.Segment = "storage", "storage", "tenants"
	a.Master = &vf.Master{Name: "bond0", Kind: "bond", Mode: vf.BondActiveBackup, Active: "enp59s0f0"}
	b.Master = a.Master
	d.Errors.TxTimeouts = 3
	n := &api.NodeStatus{Node: "worker-07", Version: version, Time: time.Now(), Ready: true, PFs: []api.PF{a, b, c, d}}
	n.VFs = append(n.VFs, makeVFs(a, 8, 6)...)
	n.VFs = append(n.VFs, makeVFs(b, 8, 4)...)
	n.VFs = append(n.VFs, makeVFs(c, 8, 7)...)
	n.VFs = append(n.VFs, makeVFs(d, 8, 0)...)
	at := func(name string) *api.VF {
		for i := range n.VFs {
			if n.VFs[i].Name == name {
				return &n.VFs[i]
			}
		}
		panic(name)
	}
	at(noisy).Owner.Name = noisyOwner
	spoil(at)
	for i, v := range n.VFs {
		s.megabits[v.Name] = float64((i*i*7919)%900) * 0.9
	}
	s.megabits[noisy] = 14200
	s.megabits["enp59s0f0#2"] = 0
	n.Problems = []api.Problem{
		{Object: "VF enp59s0f1#5", Reason: "in quarantine: the driver iavf did not bind within 10 s", Since: time.Now().Add(-18 * time.Minute), Next: `culvertd tries again in 12 min; run "culvert vf show enp59s0f1#5" to see what differs`},
		{Object: "PF enp175s0f1", Reason: "it has no link, and 8 VFs", Since: time.Now().Add(-3 * time.Hour), Next: `check its cable and the port of its switch; "ip link show enp175s0f1" shows its state`},
		{Object: "VF enp59s0f0#3", Reason: "another program set max_tx_rate to 0, and it should be 10000", Since: time.Now().Add(-4 * time.Minute), Next: "culvertd sets it again once the pod is gone; culvert events shows when it changed"},
	}
	n.Pools = []api.Pool{{Name: "culvert.dev/fast", DeviceType: "netdevice", PFs: []string{"enp59s0f0", "enp59s0f1"}, VFs: api.Counts{Total: 16, Used: 10, Free: 3, Quarantined: 1, Making: 1, Unmanaged: 1}}}
	n.Services = &api.ServiceBalancing{Mechanism: "eBPF", Services: 4, Backends: 19, Pods: 9}
	s.addNode(n)
	s.overview.Pools = []page.PoolRow{{Name: "culvert.dev/fast", Nodes: 1, VFs: n.Pools[0].VFs}, {Name: "culvert.dev/tenants", Nodes: 1, VFs: api.Counts{Total: 8, Used: 8}}}
	s.overview.Segments = []page.SegmentRow{{Name: "storage", PFs: []page.NodePF{{Node: "worker-07", PF: "enp59s0f0", Carrier: true}, {Node: "worker-07", PF: "enp59s0f1", Carrier: true}}}, {Name: "tenants", PFs: []page.NodePF{{Node: "worker-07", PF: "enp175s0f0", Carrier: true}}}}
	s.setNetworks([]api.Network{{Name: "shop/storage", VFs: 17, Nodes: []string{"worker-07"}, Owners: owners[:6], Addresses: 254, Granted: 64}, {Name: "media/video", VFs: 3, Nodes: []string{"worker-07"}, Owners: owners[2:3]}})
	s.addPast()
	return s
}

// spoil gives some VFs of the host the states in which people look at a VF.
func spoil(at func(string) *api.VF) {
	q := at("enp59s0f1#5")
	q.Phase, q.Since, q.Reason, q.Attempts, q.NextRetry = "quarantined", time.Now().Add(-18*time.Minute), "the driver iavf did not bind within 10 s", 2, time.Now().Add(12*time.Minute)
	q.Differences = []vf.Difference{{Attribute: "driver", Want: "iavf", Have: ""}}
	at("enp59s0f1#6").Phase = "making"
	at("enp59s0f1#7").Phase = api.PhaseUnmanaged
	drift := at("enp59s0f0#3")
	drift.Settings.MaxTxRate = 0
	drift.Differences = []vf.Difference{{Attribute: "max_tx_rate", Want: "10000", Have: "0"}}
	at("enp59s0f0#7").UsedBy = "qemu-system-x86 (process 4711)"
	guest := at("enp175s0f0#6")
	guest.Owner = &vf.Owner{Kind: vf.OwnerGuest, UID: "5c1b9c0e-3f7e-4f4e-9d6c-0f3a2b1c4d5e", Name: "win2022-build"}
	guest.Driver, guest.Network, guest.Netdevice, guest.Link, guest.Guard = vf.DriverVFIO, "", "", nil, nil
	bond := &vf.Bond{Links: 2, Mode: vf.BondActiveBackup, AntiAffinity: vf.ApartPF}
	for i, name := range []string{"enp59s0f0#4", "enp59s0f1#2"} {
		member := at(name)
		member.Owner = &vf.Owner{Kind: vf.OwnerPod, UID: "77aa12", Name: "telco/upf-0", Interface: "net1"}
		member.Bond, member.Netdevice = bond, vf.MemberName("net1", i)
	}
	at("enp175s0f0#7").Phase, at("enp175s0f0#7").Since = "configuring", time.Now().Add(-2*time.Second)
	at("enp175s0f0#7").Owner = &vf.Owner{Kind: vf.OwnerPod, UID: "88bb", Name: "shop/search-0", Interface: "net1"}
	at("enp59s0f1#1").NoCarrier = true
	asked := uint32(10000)
	at(noisy).Rates = []api.Rate{{Setting: vf.SetMaxTxRate, Asked: &asked, Accepted: 10000, Effective: 9984}}
	at("enp59s0f0#5").Lent = &api.Lent{MaxTxRate: 500, Until: time.Now().Add(time.Minute)}
}

// setNetworks fills in the networks by their JSON names, which api.Network and a row of the page share.
func (s *simulated) setNetworks(networks []api.Network) {
	text, err := json.Marshal(networks)
	if err == nil {
		err = json.Unmarshal(text, &s.overview.Networks)
	}
	if err != nil {
		panic(err)
	}
}

// addPast adds the history of a VF, events, and a plan.
func (s *simulated) addPast() {
	ago := func(minutes int) time.Time { return time.Now().Add(-time.Duration(minutes) * time.Minute) }
	id := vf.ID{PF: vf.PFID{MAC: vf.MAC{2, 27, 33, 175, 0, 0}}, Index: 5}
	pod := func(name string) vf.Owner {
		return vf.Owner{Kind: vf.OwnerPod, UID: "u", Name: name, Interface: "net1"}
	}
	changed := api.Event{Seq: 12, Time: ago(300), Type: "Warning", Reason: "DriftMended", Object: "VF " + noisy, Text: "another program set trust to yes; culvertd set it to no again"}
	address := []netip.Addr{netip.MustParseAddr("10.20.175.15")}
	s.history.Spans = []api.Span{
		{VF: id, Name: noisy, To: ago(900)},
		{VF: id, Name: noisy, From: ago(900), To: ago(420), Owner: pod("shop/cart-5d8c6b7f4-9xk2m"), PodUID: "0b9d7a52-8c11-4f1b-b0f3-6c1a9d2e7f10", Network: "shop/storage", Settings: "vlan 120, max_tx_rate 10000"},
		{VF: id, Name: noisy, From: ago(420), To: ago(360)},
		{VF: id, Name: noisy, From: ago(360), To: ago(180), Owner: pod("db/postgres-1"), PodUID: "53c0fe1e-77a0-4a4e-a3b5-0d5f4f1f9b22", Network: "shop/storage", Changes: []api.Event{changed}},
		{VF: id, Name: noisy, From: ago(137), Owner: pod(noisyOwner), PodUID: "f2c4a1b0-1d2e-4c3b-9a8f-7e6d5c4b3a21", Network: "shop/storage", Addresses: address, Settings: "vlan 120, max_tx_rate 10000"},
	}
	s.history.Events = []api.Event{changed, {Seq: 20, Time: ago(137), Type: "Normal", Reason: "Attached", Object: "VF " + noisy, Text: "pod " + noisyOwner + " has it as net1, with 10.20.175.15"}}
	s.events = []api.Event{
		{Seq: 24, Time: ago(4), Type: "Warning", Reason: "Drifted", Object: "VF enp59s0f0#3", Text: "max_tx_rate is 0, not 10000: the VF has an owner, so culvertd leaves it"},
		{Seq: 23, Time: ago(18), Type: "Warning", Reason: "Quarantined", Object: "VF enp59s0f1#5", Text: "the driver iavf did not bind within 10 s; culvertd tries again in 30 min"},
		{Seq: 22, Time: ago(41), Type: "Normal", Reason: "Detached", Object: "VF enp59s0f1#5", Text: "pod ml/train-llm-worker-4 gave it back"},
		s.history.Events[1],
		{Seq: 19, Time: ago(180), Type: "Warning", Reason: "LinkDown", Object: "PF enp175s0f1", Text: "the PF has VFs and no link"},
	}
	s.overview.Plans = true
	s.plans = []page.Plan{{File: "host.yaml", Node: "worker-07", Plan: api.Plan{
		PFs: []api.PFPlan{{
			PF: "enp175s0f0", PCI: pciOf(175, 0, 0), Changes: []api.Change{
				{Op: api.Modify, Attribute: "vfs", From: "8", To: "6"},
				{Op: api.Remove, Object: "VF 6", Note: "held by guest win2022-build"}, {Op: api.Remove, Object: "VF 7"},
				{Op: api.Add, Object: "pool culvert.dev/tenants", Note: "6 VFs"},
			},
			Hurts: []api.Holder{{VF: "enp175s0f0#6", Owner: vf.Owner{Kind: vf.OwnerGuest, UID: "5c1b", Name: "win2022-build"}, Phase: "attached"}},
		}},
		Notes: []string{"no PF matches the entry ens9f0"},
	}}}
}

// makeCluster returns a cluster of so many nodes with 64 VFs each.
func makeCluster(nodes int) *simulated {
	s := newSimulated("prod-eu1", true)
	for i := range nodes {
		a, b := makePF("enp59s0f0", 59, 0, "ice", "1592", 100000), makePF("enp59s0f1", 59, 1, "ice", "1592", 100000)
		a.ID.MAC[4], b.ID.MAC[4] = byte(i), byte(i>>8)
		n := &api.NodeStatus{Node: fmt.Sprintf("node-%04d", i), Version: version, Time: time.Now().Add(-time.Duration(i%50) * time.Second), Ready: i%97 != 13, PFs: []api.PF{a, b}}
		n.VFs = append(makeVFs(a, 32, (i*7)%33), makeVFs(b, 32, (i*5)%30)...)
		if i%31 == 7 {
			v := &n.VFs[len(n.VFs)-1]
			v.Phase, v.Reason, v.Owner = "quarantined", "reset of the VF timed out", nil
			n.Problems = append(n.Problems, api.Problem{Object: "VF " + v.Name, Reason: "in quarantine: reset of the VF timed out", Since: time.Now().Add(-40 * time.Minute), Next: "culvertd tries again on its own; see kubectl describe node " + n.Node})
		}
		if !n.Ready {
			n.PFs[1].Carrier = false
			n.Problems = append(n.Problems, api.Problem{Object: "node " + n.Node, Reason: "culvertd has not reported for 6 min", Next: "see kubectl get pods -n culvert-system -o wide"})
		}
		s.addNode(n)
	}
	total := api.Counts{}
	for _, row := range s.overview.Nodes {
		total.Total, total.Used, total.Free, total.Quarantined = total.Total+row.VFs.Total, total.Used+row.VFs.Used, total.Free+row.VFs.Free, total.Quarantined+row.VFs.Quarantined
	}
	s.overview.Pools = []page.PoolRow{{Name: "culvert.dev/fast", Nodes: nodes, VFs: total}, {Name: "culvert.dev/gpu-direct", Nodes: 48, VFs: api.Counts{Total: 768, Used: 768}}}
	s.overview.Segments = []page.SegmentRow{{Name: "storage", PFs: []page.NodePF{{Node: "node-0000", PF: "enp59s0f0", Carrier: true}, {Node: "node-0013", PF: "enp59s0f1"}}, More: nodes - 2}}
	s.overview.Policies = []api.ClusterPolicy{{Name: "fast-nics", Priority: 10, Nodes: nodes, Applied: nodes}, {Name: "gpu-nodes", Priority: 20, Nodes: 48, Applied: 45}}
	s.setNetworks([]api.Network{{Name: "shop/storage", VFs: 9120, Nodes: []string{"node-0000", "node-0001"}, Owners: owners, Addresses: 65534, Granted: 18240}, {Name: "ml/fabric", VFs: 768, Nodes: []string{"node-0002"}, Owners: owners[6:8], Addresses: 1022, Granted: 1022}})
	s.history.Command = "kubectl culvert events"
	s.addEventsOfCluster()
	return s
}

func (s *simulated) addEventsOfCluster() {
	for i := range 12 {
		s.events = append(s.events, api.Event{Seq: uint64(100 - i), Time: time.Now().Add(-time.Duration(3+i*7) * time.Minute), Type: []string{"Normal", "Warning"}[i%3/2], Reason: []string{"Attached", "Detached", "Quarantined"}[i%3], Object: fmt.Sprintf("VF enp59s0f1#%d on node-%04d", i, i*31+7), Text: "pod " + owners[i%len(owners)]})
	}
}
