package bench

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func makeHost(name string, change func(*Machine)) Machine {
	m := Machine{
		Name: name, Kernel: "6.12.48", CPU: "Xeon E5-2620", CPUs: 8, Governor: "performance",
		Sysctls: []Setting{{"net.core.rmem_max", "212992"}},
		Interfaces: []Interface{{Name: "enp1s0", Driver: "i40e", MTU: 9000, SpeedMbps: 10000, RxQueues: 8, IRQs: []IRQ{{40, "0", "0"}, {41, "1", "1"}},
			Offloads: []Setting{{"tcp-segmentation-offload", "on"}}, Qdisc: "mq; fq_codel"}},
	}
	if change != nil {
		change(&m)
	}
	return m
}

func TestUnlike(t *testing.T) {
	arm := Arm{Name: "VF", Workload: Workload{Kind: Stream, Engine: "iperf3", Version: "3.18", Seconds: 10}}
	a := Result{Machines: []Machine{makeHost("w1", nil), makeHost("w2", nil)}, Arms: []Arm{arm, {Name: "overlay"}}}
	if got := Unlike(a, a); got != nil {
		t.Errorf("a result is unlike itself: %q", got)
	}
	arm.Workload.Seconds, arm.Workload.Version, arm.Path.From.MTU = 60, "3.16", 1500
	b := Result{Culvert: "another", Arms: []Arm{{Name: "new"}, arm}, Machines: []Machine{
		makeHost("w3", func(m *Machine) { m.Kernel, m.Hypervisor, m.Sysctls, m.Interfaces[0].Qdisc = "6.1.0", "kvm", nil, "" }),
		makeHost("w1", func(m *Machine) {
			m.Tools = []Setting{{"iperf3", "3.16"}}
			m.Interfaces[0].Coalescing, m.Interfaces[0].FlowControl = []Setting{{"rx-usecs", "0"}}, "rx on"
			m.Interfaces[0].FlowHash, m.Interfaces[0].Qdisc = []Setting{{"udp4", "source"}}, "tbf rate 100 Mb/s, limit 5000 bytes"
			m.Interfaces[0].RxQueues, m.Interfaces[0].IRQs, m.Interfaces[0].Offloads[0].Value = 1, []IRQ{{99, "0", "0"}}, "off"
			m.Interfaces = append(m.Interfaces, Interface{Name: "bond0"})
		}),
		makeHost("w4", nil),
	}}
	want := []string{
		"w1: iperf3: none against 3.16",
		"w1: enp1s0 receive queues: 8 against 1",
		"w1: enp1s0 interrupts on processors: 0 | 1 against 0",
		"w1: enp1s0 flow control: none against rx on",
		"w1: enp1s0 queueing discipline: mq; fq_codel against tbf rate 100 Mb/s, limit 5000 bytes",
		"w1: enp1s0 tcp-segmentation-offload: on against off",
		"w1: enp1s0 coalescing rx-usecs: none against 0",
		"w1: enp1s0 hashed of udp4: none against source",
		"w1: interface bond0 is only in the second",
		"w2 and w3: kernel: 6.12.48 against 6.1.0",
		"w2 and w3: hypervisor: none against kvm",
		"w2 and w3: net.core.rmem_max: 212992 against none",
		"machine w4 is only in the second",
		"arm VF: MTU: 0 and 0 against 1500 and 0",
		"arm VF: engine: iperf3 3.18 against iperf3 3.16",
		"arm VF: seconds: 10 against 60",
	}
	if diff := cmp.Diff(want, Unlike(a, b)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	back := Unlike(b, a)
	for _, want := range []string{"machine w4 is only in the first", "w1: interface bond0 is only in the first"} {
		if !strings.Contains(strings.Join(back, "\n"), want) {
			t.Errorf("turned round, no %q in %q", want, back)
		}
	}
}

// TestUnlikeWorkloads: a difference in any field of a workload is reported.
func TestUnlikeWorkloads(t *testing.T) {
	plain := Result{Arms: []Arm{{Name: "VF"}}}
	fields := reflect.TypeFor[Workload]()
	for i := range fields.NumField() {
		var arm Arm
		arm.Name = "VF"
		switch f := reflect.ValueOf(&arm.Workload).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Float64:
			f.SetFloat(1)
		case reflect.Int:
			f.SetInt(1)
		case reflect.Bool:
			f.SetBool(true)
		default:
			t.Fatalf("%s is a %s", fields.Field(i).Name, f.Kind())
		}
		if got := Unlike(plain, Result{Arms: []Arm{arm}}); len(got) != 1 {
			t.Errorf("%s differs: %q", fields.Field(i).Name, got)
		}
	}
	through := Result{Arms: []Arm{{Name: "VF", Path: Path{Via: Relay{How: Routes}}}}}
	if diff := cmp.Diff([]string{"arm VF: in the middle: none against routes"}, Unlike(plain, through)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestApart(t *testing.T) {
	r := Result{Machines: []Machine{makeHost("w1", nil), makeHost("w2", nil), makeHost("w3", func(m *Machine) { m.Kernel = "6.1.0" })}}
	if diff := cmp.Diff([]string{"w1 and w3: kernel: 6.12.48 against 6.1.0"}, Apart(r)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// An emulated NIC carries more than a wire of its speed would.
func TestFiguresAboveTheWire(t *testing.T) {
	arm := func(name string) Arm {
		return Arm{Name: name, Workload: Workload{Kind: Stream}, CeilingGbps: 0.94}
	}
	r := Result{
		Arms: []Arm{arm("below"), arm("m4"), arm("m17")},
		Runs: []Run{{Arm: 0, Gbps: 0.94}, {Arm: 1, Gbps: 1.02}, {Arm: 2, Gbps: 1}},
	}
	want := []string{"m4 (and 1 other arm) is above what a wire of its speed can carry: a NIC there does not keep to its speed, as emulated ones do not. No figure between these machines is compared with a wire."}
	if diff := cmp.Diff(want, Remarks(r)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// If a figure is above its wire's ceiling, no wire limits a figure between these machines: an
// emulated NIC that carries 1.02 Gb/s over "1 Gb/s" was said to be at 100 % of the wire in other
// arms.
func TestWiresThatLimitNothing(t *testing.T) {
	arm := func(from, to string, ceiling float64) Arm {
		a := betweenMachines(from, to)
		a.Workload.Kind, a.CeilingGbps = Stream, ceiling
		return a
	}
	r := Result{
		Arms: []Arm{arm("a", "b", 0.94), arm("a", "b", 0.94), arm("b", "a", 0.94), arm("a", "c", 0.94)},
		Runs: []Run{{Arm: 0, Gbps: 1.02}, {Arm: 1, Gbps: 0.93}, {Arm: 2, Gbps: 0.93}, {Arm: 3, Gbps: 0.93}},
	}
	without := r.WithoutFalseWires()
	for i, want := range []string{"unknown", "unknown", "unknown", "wire"} {
		if got := Limits(without.Runs[i], without.Arms[i])[0].What; got != want {
			t.Errorf("arm %d is limited by %s, want %s", i, got, want)
		}
		if r.Arms[i].CeilingGbps == 0 {
			t.Errorf("arm %d of the result itself was changed", i)
		}
	}
}

func TestRemarks(t *testing.T) {
	one := makeHost("w1", func(m *Machine) {
		m.Interfaces[0].RxQueues, m.Interfaces[0].IRQs = 1, []IRQ{{40, "2", ""}, {41, "2", "2"}}
	})
	on := func(m Machine, name string) Result {
		return Result{Machines: []Machine{m}, Arms: []Arm{{Path: Path{To: End{Machine: "w1", Interface: name}}}}}
	}
	want := []string{"enp1s0 on w1: one processor takes all packets: it has 1 receive queue, and its 2 interrupts come to processor 2 of 8 only. " +
		"More queues, and irqbalance or smp_affinity, spread them."}
	if diff := cmp.Diff(want, Remarks(on(one, "enp1s0"))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	forwards := on(one, "enp2s0")
	forwards.Arms[0].Path.Via = Relay{Machine: "w1", Name: "host", How: Routes}
	forwards.Runs = []Run{{Via: &Evidence{Interfaces: []Counters{{Interface: "enp1s0"}}}}}
	if diff := cmp.Diff(want, Remarks(forwards)); diff != "" {
		t.Errorf("in the middle: -want +got:\n%s", diff)
	}
	// As after a boot without irqbalance: any processor may serve the interrupts, and one does.
	still := makeHost("w1", func(m *Machine) {
		m.Interfaces[0].RxQueues, m.Interfaces[0].IRQs = 1, []IRQ{{40, "0-7", "2"}, {41, "0-7", "2"}}
	})
	if diff := cmp.Diff(want, Remarks(on(still, "enp1s0"))); diff != "" {
		t.Errorf("nobody moved them: -want +got:\n%s", diff)
	}
	wide := makeHost("w1", func(m *Machine) { m.Interfaces[0].IRQs = []IRQ{{40, "0-7", ""}} })
	moved := makeHost("w1", func(m *Machine) { m.Interfaces[0].IRQs = []IRQ{{40, "0-7", "1"}, {41, "0-7", "2"}} })
	single := makeHost("w1", func(m *Machine) { m.Interfaces[0].RxQueues, m.Interfaces[0].IRQs = 1, []IRQ{{40, "2", "2"}} })
	if got := Remarks(on(single, "enp1s0")); len(got) != 1 || !strings.Contains(got[0], "it has 1 receive queue, and its 1 interrupt comes to processor 2 of 8 only") {
		t.Errorf("of one interrupt: %q", got)
	}
	small := one
	small.CPUs = 1
	for name, r := range map[string]Result{
		"spread": on(makeHost("w1", nil), "enp1s0"), "any processor": on(wide, "enp1s0"), "each its own": on(moved, "enp1s0"), "not used": on(one, "enp2s0"), "one processor": on(small, "enp1s0"),
	} {
		if got := Remarks(r); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestMismatchIsRemarked: TCP agrees on the smaller MTU and datagrams are split, so that a run over
// a path with two MTUs gives a figure. That is not the figure of a path with one MTU.
func TestMismatchIsRemarked(t *testing.T) {
	a := betweenMachines("a", "b")
	a.Path.From.Interface, a.Path.From.MTU, a.Path.To.Interface, a.Path.To.MTU = "net1", 9000, "net2", 1500
	got := Remarks(Result{Arms: []Arm{a, a}})
	if len(got) != 1 || !strings.Contains(got[0], "the MTU is 9000 on net1") || !strings.Contains(got[0], "1500 on net2") {
		t.Errorf("%q", got)
	}
	a.Path.To.MTU = 9000
	if got := Remarks(Result{Arms: []Arm{a}}); len(got) != 0 {
		t.Errorf("alike: %q", got)
	}
}

// TestSettings: the report lists the settings of a machine, and those of each interface under its
// name.
func TestSettings(t *testing.T) {
	m := Machine{
		Sysctls: []Setting{{"net.core.rmem_max", "212992"}}, Platform: []Setting{{"SMT", "on"}},
		Interfaces: []Interface{{Name: "net1", Driver: "iavf", Coalescing: []Setting{{"rx-usecs", "3"}}}, {Name: "eth0", MTU: 1500}},
	}
	all := m.Settings()
	if diff := cmp.Diff([]Setting{{"SMT", "on"}, {"net.core.rmem_max", "212992"}, {"net1 driver", "iavf"}}, all[:3]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, want := range []Setting{{"net1 coalescing rx-usecs", "3"}, {"net1 MTU", "0"}, {"eth0 MTU", "1500"}, {"eth0 driver", "none"}} {
		if !slices.Contains(all, want) {
			t.Errorf("no %+v in %+v", want, all)
		}
	}
}
