package conduct

import (
	"net/netip"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/evidence"
	"github.com/culvert-net/culvert/bench/place"
)

// A guest has the machine name of its host. Its VF is found by the MAC address that the PF holds
// for the VF.
func TestGuestOfAHost(t *testing.T) {
	guest := func(name string, address, mac, virtio string) *Station {
		s := &Station{Site: Site{Name: name, Pod: false, VM: true, Machine: bench.Machine{Name: "(none)", Interfaces: []bench.Interface{{Name: "eth0", PCI: "0000:00:03.0"}}}, Ends: []bench.End{
			{Interface: "eth0", Address: ip(address), Driver: "igbvf"}, {Interface: "eth1", Address: ip(virtio), Driver: "virtio_net"}}}}
		s.macs = map[string]string{"eth0": mac, "eth1": "52:54:00:00:00:01"}
		s.Host = &Station{Site: Site{Name: "host", Machine: bench.Machine{Name: "n1"}}}
		return s
	}
	a, b := guest("db1", "10.90.0.1", "02:00:00:00:00:01", "192.0.2.1"), guest("db2", "10.90.0.2", "02:00:00:00:00:02", "192.0.2.2")
	vfs := []evidence.VF{{MAC: "02:00:00:00:00:01", PF: "p0", PFPCI: "0000:3b:00.0", Index: 5, PCI: "0000:3b:02.5"}, {MAC: "02:00:00:00:00:02", PF: "p1", PFPCI: "0000:3b:00.1", Index: 6, PCI: "0000:3b:0a.6"}}
	c := &Station{Site: pod("c", "n1", "0000:3b:00.0", ip("192.0.2.3"), ip("10.90.0.3"))}
	c.Cluster = false
	c.namePFs(vfs)
	for _, s := range []*Station{a, b} {
		s.guestOf("n1", vfs)
		s.Routes = map[netip.Addr]agent.Route{}
	}
	route(&a.Site, &b.Site, ip("10.90.0.1"), ip("10.90.0.2"))
	route(&a.Site, &b.Site, ip("192.0.2.1"), ip("192.0.2.2"))
	route(&a.Site, &c.Site, ip("10.90.0.1"), ip("10.90.0.3"))
	all := Between([]*Station{a}, []*Station{b, c})
	if diff := cmp.Diff([]string{"VM-VM, VF, other PF", "VM-VM, virtio, same node", "VM-pod, VF, same PF"}, titles(all)); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	if e := all[0].From; e.Machine != "n1" || e.Name != "db1" || e.PF != "p0" || *e.VF != 5 || a.pciAddress(e) != "0000:3b:02.5" || a.pciAddress(all[1].From) != "" {
		t.Errorf("%+v, %s", e, a.pciAddress(e))
	}
	for _, p := range all {
		if !Matches(p, []string{"vm"}) {
			t.Errorf("%s is no path of a VM", Title(p))
		}
	}
	if Matches(bench.Path{Ends: "pod-pod"}, []string{"VM"}) {
		t.Error("one of pods is")
	}
	machines := Machines([]*Station{a, c, a.Host}, []bench.Arm{{Path: all[0]}})
	if len(machines) != 2 || machines[0].Name != "n1/db1" || machines[0].Interfaces[0].Name != "eth0" || machines[1].Name != "n1" {
		t.Errorf("%+v", machines)
	}
}

// The culvertd that lends a guest's VF a rate is its host's.
func TestRatesOfAGuest(t *testing.T) {
	guest := tellingStation(t, "n1", `"error":"no culvertd here"`)
	guest.Host = tellingStation(t, "n1", `"value":{"Lowest":11,"Highest":1000}`)
	lowest, highest, err := (&Session{Stations: []*Station{guest}}).Rates(t.Context(), bench.Path{From: bench.End{Machine: "n1", Name: "s", Interface: "net1"}})
	if err != nil || lowest != 11 || highest != 1000 {
		t.Errorf("%d, %d, %v", lowest, highest, err)
	}
}

// The host's evidence counts. The guest's own processor time is kept beside it.
func TestHosted(t *testing.T) {
	e := bench.Evidence{CPU: bench.CPUUse{Seconds: 1, User: 0.5, Tasks: map[string]float64{"culvert": 0.5}}}
	if why := useHost(&e, bench.Run{Void: "late"}); why != "late" || e.Guest != nil {
		t.Errorf("%q, %+v", why, e)
	}
	host := bench.Run{From: bench.Evidence{CPU: bench.CPUUse{Seconds: 1, User: 2, Tasks: map[string]float64{"culvert": 0.1, "qemu-system-x86 of db1": 1.5}, Engine: map[string]float64{"culvert-bench": 0.1}}}}
	why := useHost(&e, host)
	want := bench.Evidence{
		CPU:   bench.CPUUse{Seconds: 1, User: 2, Tasks: map[string]float64{"qemu-system-x86 of db1": 1.5}},
		Guest: &bench.CPUUse{Seconds: 1, User: 0.5, Tasks: map[string]float64{"culvert": 0.5}},
	}
	if diff := cmp.Diff(want, e); diff != "" || why != "" {
		t.Errorf("%q, -want +got:\n%s", why, diff)
	}
	if len(host.From.CPU.Tasks) != 2 {
		t.Error("the host has lost one")
	}
}

// Traffic goes from a guest to a container. A network namespace with a shell stands in for the
// guest. The crew also puts an agent on the guest's host, which samples the same window.
func TestRunFromAGuest(t *testing.T) {
	w := newWorld(t)
	crew := &Session{}
	t.Cleanup(func() {
		if err := crew.Close(); err != nil {
			t.Error(err)
		}
	})
	self := place.Program{Path: os.Args[0], Version: "unknown"}
	specs := []place.Spec{
		{Kind: place.Host, VM: "db1", By: "ip netns exec " + w.netns[0] + " sh"},
		{Kind: place.Host, Netns: "/run/netns/" + w.netns[1]},
	}
	ends, err := crew.Open(t.Context(), specs, self)
	if err != nil {
		t.Fatal(err)
	}
	if err := DescribeStations(t.Context(), crew.Stations); err != nil {
		t.Fatal(err)
	}
	paths := Between(ends[:1], ends[1:])
	if len(crew.Stations) != 3 || len(paths) != 2 || paths[0].Ends != "VM-pod" || paths[0].From.Name != "db1" {
		t.Fatalf("%d stations, %+v", len(crew.Stations), paths)
	}
	load := bench.Workload{Kind: bench.Stream, Engine: "culvert", Seconds: 1, Warmup: 0.3, Streams: 1}
	for _, back := range []bool{false, true} {
		load.Reverse = back
		w.exchange = Exchange{Stations: crew.Stations, Arms: []bench.Arm{{Name: "VM", Path: paths[0], Workload: load}}}
		run := w.goodRun(t, 0)
		if g := run.From.Guest; g == nil || g.Seconds < 0.5 || run.From.CPU.Seconds < 0.5 || run.To.Guest != nil {
			t.Errorf("reverse %v: the guest's %+v, its host's %+v, the container's %+v", back, g, run.From.CPU, run.To.Guest)
		}
		if own, container := run.From.CPU.Tasks["culvert"], run.To.CPU.Tasks["culvert"]; own > container+0.05 {
			t.Errorf("the host's agent, which samples, counts as what carried: %v of %v", own, container)
		}
	}
}
