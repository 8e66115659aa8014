package conduct

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
)

// deviceSite is a VF that DPDK drives.
func deviceSite(machine, pci string) Site {
	six := 6
	return Site{Name: pci, PCI: pci, Machine: bench.Machine{Name: machine}, Ends: []bench.End{{Interface: pci, PF: "enp1s0", VF: &six, Driver: "vfio-pci"}}}
}

// A path between VFs that DPDK drives needs no address. It leaves the machine where the VF in the
// middle is on another one.
func TestDevicePath(t *testing.T) {
	from, to := deviceSite("a", "0000:01:11.0"), deviceSite("a", "0000:01:11.2")
	paths := Paths(from, to)
	if len(paths) != 1 || Title(paths[0]) != "VF-VF, DPDK, same PF" || paths[0].From.Name != "0000:01:11.0" || paths[0].To.Interface != "0000:01:11.2" {
		t.Fatalf("%+v", paths)
	}
	if got := nameAddress(paths[0].From); got != "on a" {
		t.Error(got)
	}
	via := &Station{Site: deviceSite("b", "0000:01:11.4")}
	through, err := Through(via, nil, paths)
	if err != nil || len(through) != 1 || through[0].Place != "other node" || through[0].Via != (bench.Relay{Machine: "b", Name: "0000:01:11.4", How: bench.ForwardsByDPDK}) {
		t.Errorf("%+v, %v", through, err)
	}
	if got := via.watchedInterfaces(via.Ends[0], nil); got != nil {
		t.Errorf("%+v: the kernel counts none of its frames", got)
	}
	if got := via.pciAddress(via.Ends[0]); got != "0000:01:11.4" {
		t.Errorf("%s", got)
	}
}

// The PF of two VFs on a machine is one interface of it.
func TestMachinesOfDevices(t *testing.T) {
	var stations []*Station
	for _, pci := range []string{"v0", "v1"} {
		s := &Station{Site: deviceSite("a", pci)}
		s.Machine.Interfaces = []bench.Interface{{Name: "enp1s0"}}
		stations = append(stations, s)
	}
	if got := Machines(stations, nil); len(got) != 1 || len(got[0].Interfaces) != 1 {
		t.Errorf("%+v", got)
	}
}

// m15 is for VFs that DPDK drives, and these are for m15. All else refuses them before anything is
// booted or opened.
func TestOrderOnDevices(t *testing.T) {
	const a, b = "host,pci=0000:01:11.0", "ssh:n2,pci=0000:01:11.0"
	for name, tc := range map[string]struct {
		order Order
		want  string
	}{
		"two ends":       {Order{Presets: []string{"m15"}, From: []string{a}, To: []string{b}}, ""},
		"three":          {Order{Presets: []string{"M15"}, From: []string{a}, To: []string{"host,pci=0000:01:11.2"}, Via: b}, ""},
		"another preset": {Order{Presets: []string{"m10", "m15"}, From: []string{a}, To: []string{b}}, "m15 goes alone"},
		"a kernel's end": {Order{Presets: []string{"m15"}, From: []string{a}, To: []string{"ssh:n2,netns=b"}}, "take ssh:n2,pci=ADDRESS"},
		"a router":       {Order{Presets: []string{"m15"}, From: []string{a}, To: []string{b}, Via: "ssh:r"}, "m15: ssh:r names no VF that DPDK drives"},
		"without m15":    {Order{Presets: []string{"m10"}, From: []string{a}, To: []string{b}}, ",pci= is for m15"},
		"A/B":            {Order{Presets: []string{"m15"}, From: []string{a}, To: []string{b}, AB: []string{"true", "false"}}, "make two results of m15"},
		"a Service":      {Order{Presets: []string{"m15"}, From: []string{a}, To: []string{b}, Service: "10.0.0.1"}, "--service does not go with m15"},
		"bursts":         {Order{Presets: []string{"m15"}, From: []string{a}, To: []string{b}, Burst: 64}, "--burst is for Culvert's own engine"},
	} {
		if tc.order.Burst == 0 {
			tc.order.Burst = 1
		}
		err := tc.order.Check()
		if err == nil {
			_, err = tc.order.parseSpecs()
		}
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
}

// forwarded is a run of m15: 1000 frames leave VF 0 of a, b forwards 900, and 850 come to VF 1 of a.
func forwarded() (bench.Arm, bench.Run) {
	from, to, via := deviceSite("a", "v0"), deviceSite("a", "v1"), &Station{Site: deviceSite("b", "v0")}
	paths := throughDevice(via, Paths(from, to))
	arm := bench.Arm{Path: paths[0], Workload: bench.Workload{Kind: bench.Packets, Engine: engine.Testpmd, Size: 64, Seconds: 1}}
	const k = 1e6
	middle := countingEnd(counts("v0", "path", 68*.9*k, .9*k, 68*.95*k, .95*k), counts("enp1s0", "port", 0, .9*k, 0, k))
	return arm, bench.Run{
		Seconds: 1, Packets: .85 * k, Totals: bench.Totals{Sent: k, Arrived: .85 * k},
		From: countingEnd(counts("v0", "path", 68*k, k, 0, 0), counts("enp1s0", "port", 0, k, 0, .9*k)),
		To:   countingEnd(counts("v1", "path", 0, 0, 68*.85*k, .85*k), counts("enp1s0", "port", 0, k, 0, .9*k)),
		Via:  &middle,
	}
}

// The counters of the VFs and those of the ports prove a run of DPDK, which the kernel does not see.
func TestProofOfDevices(t *testing.T) {
	set := func(e *bench.Evidence, i int, change func(c *bench.Counters)) { change(&e.Whole.Interfaces[i]) }
	for name, tc := range map[string]struct {
		spoil func(r *bench.Run)
		want  string
	}{
		"as it should be": {func(*bench.Run) {}, ""},
		"ports are not known": {func(r *bench.Run) {
			r.From.Whole.Interfaces, r.To.Whole.Interfaces = r.From.Whole.Interfaces[:1], r.To.Whole.Interfaces[:1]
		}, ""},
		"the sender's port is idle": {func(r *bench.Run) { set(&r.From, 1, func(c *bench.Counters) { c.TxPackets = 100 }) }, "the port of enp1s0 on a sent 100 packets, and testpmd counted 1000000 on the VF v0: the frames took another way"},
		"the receiver's is":         {func(r *bench.Run) { set(&r.To, 1, func(c *bench.Counters) { c.RxPackets = 100 }) }, "the port of enp1s0 on a received 100 packets, and testpmd counted 850000 on the VF v1"},
		"the middle's is":           {func(r *bench.Run) { set(r.Via, 1, func(c *bench.Counters) { c.TxPackets = 100 }) }, "the port of enp1s0 on b sent 100 packets"},
		"others send too":           {func(r *bench.Run) { set(&r.From, 1, func(c *bench.Counters) { c.TxPackets = 1.02e6 }) }, "other traffic was on the wire"},
		"others send to it":         {func(r *bench.Run) { set(r.Via, 1, func(c *bench.Counters) { c.RxPackets = 1.02e6 }) }, "the port of enp1s0 on b received 1020000 packets"},
		"it arrived without it": {func(r *bench.Run) {
			set(r.Via, 0, func(c *bench.Counters) { c.TxPackets = 100 })
			r.Via.Whole.Interfaces = r.Via.Whole.Interfaces[:1]
		}, "no two interfaces of v0 received and sent the 850000 packets"},
		"more came than left": {func(r *bench.Run) { set(&r.From, 0, func(c *bench.Counters) { c.TxPackets = 100 }) }, "v0 of v0 sent 100 packets, and 850000 packets were claimed"},
		"nothing came":        {func(r *bench.Run) { r.Packets, r.Totals.Arrived = 0, 0 }, "nothing arrived at v1"},
	} {
		arm, run := forwarded()
		tc.spoil(&run)
		if got := Proof(arm, run); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q; want %q", name, got, tc.want)
		}
	}
	// Frames between VFs of one PF stay in the NIC's own switch.
	arm, run := forwarded()
	arm.Path.Via, run.Via, arm.Path.Place = bench.Relay{}, nil, "same PF"
	for _, e := range []*bench.Evidence{&run.From, &run.To} {
		set(e, 1, func(c *bench.Counters) { c.TxPackets, c.RxPackets = 0, 0 })
	}
	if got := Proof(arm, run); got != "" {
		t.Errorf("within the NIC: %q", got)
	}
}
