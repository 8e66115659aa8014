package preset

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
)

func path(ends, network, place string, mtu int) bench.Path {
	e := bench.End{Interface: "net1", MTU: mtu}
	p := bench.Path{Ends: ends, Network: network, Place: place, From: e, To: e}
	if network == "VF" {
		p.From.VF = new(int)
	}
	if network == "VF" && ends == "pod-pod" { // the other path is to the PF
		p.To.VF = new(int)
	}
	return p
}

// cluster returns the paths and abilities of two nodes.
func cluster() Here {
	return Here{
		Paths: []bench.Path{
			path("pod-pod", "overlay", "other node", 1450), path("pod-pod", "VF", "other node", 1500), path("pod-node", "VF", "same node", 1500),
			path("node-node", "host", "other node", 1500), path("pod-pod", "VF", "same PF", 1500), path("pod-pod", "VF", "other PF", 1500),
		},
		Lacks: func(string) string { return "" }, Cable: true,
		Rates: func(bench.Path) (int, int, error) { return 1, 1000, nil },
	}
}

// There is a preset for every row M1 to M18, with the report's figures and needs, and with arms.
func TestAll(t *testing.T) {
	for i, p := range All() {
		if p.Name != fmt.Sprintf("m%d", i+1) || p.About == "" || p.Needs == "" || len(p.Printed) == 0 || !strings.HasPrefix(p.Report, "R") {
			t.Errorf("row %d is %+v", i+1, p)
		}
		for _, f := range p.Printed {
			if !strings.HasPrefix(f.Name, p.Report) || (f.Value == 0) == (f.Text == "") || (f.Unit == "") != (f.Text != "") {
				t.Errorf("%s: %+v", p.Name, f)
			}
		}
		for _, quick := range []bool{false, true} {
			h := cluster()
			if p.IsOnDevices() {
				h.Paths = []bench.Path{devicePath()}
			}
			plan, err := p.Plan(h, quick)
			if err != nil || len(plan.Arms) == 0 || plan.Repeats == 0 {
				t.Errorf("%s: %+v, %v", p.Name, plan, err)
			}
			if p.Instead != "" && !slices.Contains(plan.Notes, p.Instead) {
				t.Errorf("%s: what is measured instead is not told: %v", p.Name, plan.Notes)
			}
		}
	}
	if n := len(All()); n != 18 {
		t.Errorf("%d presets", n)
	}
}

// devicePath is a path between VFs that DPDK drives.
func devicePath() bench.Path {
	return bench.Path{Ends: "VF-VF", Network: "DPDK", Place: "other node", From: bench.End{Interface: "0000:01:10.0", VF: new(int)}, To: bench.End{Interface: "0000:01:10.0", VF: new(int)}}
}

// m15 is measured by DPDK or not at all: no other engine stands for it, and no other path. Through a
// machine in the middle it is the report's own measurement.
func TestOnDevices(t *testing.T) {
	h, p := cluster(), find(t, "m15")
	if _, err := p.Plan(h, false); err == nil || !strings.Contains(err.Error(), "it takes VFs that DPDK drives, which --from and --to name with ,pci=ADDRESS") {
		t.Errorf("no VF of DPDK: %v", err)
	}
	h.Paths = []bench.Path{devicePath()}
	h.Lacks = func(engine string) string { return "n1: " + engine + " is not here" }
	if _, err := p.Plan(h, false); err == nil || !strings.Contains(err.Error(), "m15 is not measured, and the kernel's figures do not stand for DPDK's: n1: testpmd is not here") {
		t.Errorf("no testpmd: %v", err)
	}
	h.Lacks = func(string) string { return "" }
	for how, noted := range map[bench.Forward]bool{"": true, bench.ForwardsByDPDK: false} {
		if h.Paths[0].Via = (bench.Relay{}); how != "" {
			h.Paths[0].Via = bench.Relay{Machine: "b", Name: "v", How: how}
		}
		plan, err := p.Plan(h, false)
		if err != nil || len(plan.Arms) != 1 || plan.Arms[0].Workload.Engine != "testpmd" || plan.Arms[0].Workload.Size != 64 || slices.Contains(plan.Notes, p.Instead) != noted {
			t.Errorf("%q: %+v, %v", how, plan, err)
		}
	}
}

func find(t *testing.T, name string) Preset {
	t.Helper()
	p, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The parameters are the reports'.
func TestParameters(t *testing.T) {
	for _, c := range []struct {
		name string
		want bench.Workload
		arms int
	}{
		{"m1", bench.Workload{Kind: bench.Stream, Engine: "iperf3", Seconds: 10, Warmup: 1, Streams: 1}, 2},
		{"M4", bench.Workload{Kind: bench.Stream, Engine: "iperf3", Seconds: 10, Warmup: 1, Streams: 1}, 3},
		{"m5", bench.Workload{Kind: bench.Echo, Engine: "ping", Seconds: 3, Rate: 1}, 5},
		{"m6", bench.Workload{Kind: bench.Stream, Engine: "iperf2", Seconds: 60, Warmup: 1, Streams: 8, Window: 524288, Size: 64}, 3 * 28},
		{"m7", bench.Workload{Kind: bench.Stream, Engine: "iperf3", Seconds: 1000, Warmup: 1, Streams: 1}, 2},
		{"m8", bench.Workload{Kind: bench.Stream, Engine: "iperf3", Seconds: 1000, Warmup: 1, Streams: 1}, 1},
		{"m10", bench.Workload{Kind: bench.Packets, Engine: "pktgen", Seconds: 10, Warmup: 1, Size: 64}, 6},
		{"m14", bench.Workload{Kind: bench.Packets, Engine: "pktgen", Seconds: 10, Warmup: 1, Size: 64, Flows: 4096}, 2},
		{"m18", bench.Workload{Kind: bench.Packets, Engine: "pktgen", Seconds: 10, Warmup: 1, Size: 64, Flows: 1}, 6},
	} {
		plan, err := find(t, c.name).Plan(cluster(), false)
		if err != nil || len(plan.Arms) != c.arms || plan.Arms[0].Workload != c.want {
			t.Errorf("%s: %v, %d arms, not %d as %+v", c.name, err, len(plan.Arms), c.arms, c.want)
		}
	}
	plan, _ := find(t, "m6").Plan(cluster(), false)
	last := plan.Arms[27]
	if last.Name != "512 KiB back" || last.Workload.Size != 524288 || !last.Workload.Reverse {
		t.Errorf("%+v", last)
	}
	// Flows that differ in ports alone share a queue of a NIC that hashes addresses.
	plan, _ = find(t, "m18").Plan(cluster(), false)
	if w := plan.Arms[1].Workload; w.Flows != 4096 || w.Sources != 4096 {
		t.Errorf("m18's many flows: %+v", w)
	}
	plan, _ = find(t, "m7").Plan(cluster(), true)
	if plan.Arms[0].Workload.Seconds != 2 || plan.Repeats != 3 {
		t.Errorf("quick: %+v", plan)
	}
}

// m14 measures VXLAN: an overlay that is known to be something else is left out, with the reason.
func TestM14MeasuresVXLAN(t *testing.T) {
	h := cluster()
	for driver, want := range map[string]string{"": "", "vxlan": "", "igb": "the driver igb: this overlay is no VXLAN", "ipip": "the driver ipip"} {
		h.Overlay = func(bench.Path) string { return driver }
		plan, err := find(t, "m14").Plan(h, false)
		if want == "" && (err != nil || len(plan.Arms) != 2) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %d arms, %v; want %q", driver, len(plan.Arms), err, want)
		}
		if _, err := find(t, "m3").Plan(h, false); err != nil {
			t.Errorf("m3 takes any overlay: %v", err)
		}
	}
}

// Notes name what this place lacks, and what is measured instead.
func TestWhatLacks(t *testing.T) {
	h := cluster()
	h.Lacks = func(engine string) string { return engine + " is not installed" }
	plan, err := find(t, "m4").Plan(h, false)
	if err != nil || plan.Arms[0].Workload.Engine != "culvert" || !strings.Contains(strings.Join(plan.Notes, "\n"), "iperf3 is not installed") {
		t.Errorf("%+v, %v", plan, err)
	}
	plan, _ = find(t, "m5").Plan(h, false)
	if w := plan.Arms[0].Workload; w.Kind != bench.Request || !w.UDP {
		t.Errorf("echo without ping: %+v", w)
	}
	h = cluster()
	h.Paths[1].From.MTU = 1450
	plan, _ = find(t, "m4").Plan(h, false)
	if len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "the report's MTU is 1500; here it is 1450") {
		t.Errorf("%q", plan.Notes)
	}
	plan, _ = find(t, "m1").Plan(h, false)
	if len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "encapsulates") {
		t.Errorf("%q", plan.Notes)
	}
	h.ByHand = true
	for quick, seconds := range map[bool]float64{false: 180, true: 60} {
		plan, err := find(t, "m9").Plan(h, quick)
		if err != nil || plan.Repeats != 1 || !plan.Arms[0].Workload.ByHand || plan.Arms[0].Workload.Seconds != seconds || !strings.Contains(strings.Join(plan.Notes, ";"), "you pull the cable") {
			t.Errorf("by hand, quick %v: %+v, %v", quick, plan, err)
		}
	}
	h.Cable = false
	if _, err := find(t, "m9").Plan(h, false); err == nil || !strings.Contains(err.Error(), "(--pull and --plug), or run it on a terminal, where it asks you to, or take ends in a lab (culvert lab up)") {
		t.Errorf("no cable: %v", err)
	}
	h.Paths = h.Paths[:1]
	if _, err := find(t, "m4").Plan(h, false); err == nil || !strings.Contains(err.Error(), "a VF at both ends, and between these ends there is pod-pod overlay") {
		t.Errorf("no VF: %v", err)
	}
	h.Paths = nil
	if _, err := find(t, "m10").Plan(h, false); err == nil || !strings.Contains(err.Error(), "no path at all") {
		t.Errorf("nothing: %v", err)
	}
}

func TestFind(t *testing.T) {
	if _, err := Find("m44"); err == nil || !strings.Contains(err.Error(), "did you mean m4?") || !strings.Contains(err.Error(), "culvert bench presets") {
		t.Error(err)
	}
}

func TestDefault(t *testing.T) {
	plan, err := (Question{}).Plan(cluster(), false)
	if err != nil || len(plan.Arms) != 4 || plan.Repeats != 6 || len(plan.Notes) != 0 {
		t.Errorf("%+v, %v", plan, err)
	}
	for _, c := range []struct {
		take func(bench.Path) bool
		want string
	}{{isVF, "nothing to compare"}, {isOverlay, "there is no VF"}} {
		h := cluster()
		h.Paths = slices.DeleteFunc(h.Paths, func(p bench.Path) bool { return !c.take(p) })
		plan, err := (Question{}).Plan(h, true)
		if err != nil || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], c.want) {
			t.Errorf("%+v, %v", plan, err)
		}
	}
	guest := Here{Paths: []bench.Path{{Ends: "VM-node", Network: "virtio"}, {Ends: "VM-pod", Network: "VF"}}}
	if plan, err := (Question{}).Plan(guest, true); err != nil || len(plan.Arms) != 1 || plan.Arms[0].Path.Ends != "VM-pod" {
		t.Errorf("from a guest: %+v, %v", plan, err)
	}
	bond := Here{Paths: []bench.Path{{Ends: "pod-pod", Network: "bond"}}}
	if plan, err := (Question{}).Plan(bond, true); err != nil || len(plan.Arms) != 1 || len(plan.Notes) != 0 {
		t.Errorf("a bond: %+v, %v", plan, err)
	}
	vf := bench.Path{Ends: "pod-pod", Network: "VF"}
	service := vf
	service.Network, service.Service = "service", netip.MustParseAddr("10.96.0.7")
	overlay := bench.Path{Ends: "pod-pod", Network: "overlay", To: bench.End{Address: netip.MustParseAddr("10.244.1.2")}}
	var got []string
	plan, err = (Question{}).Plan(Here{Paths: []bench.Path{overlay, vf, service}, Service: true}, true)
	for _, a := range plan.Arms {
		got = append(got, fmt.Sprint(a.Path.Network, " ", a.Workload.Kind))
	}
	if diff := cmp.Diff([]string{"overlay stream", "VF stream", "service stream", "VF connect", "service connect"}, got); err != nil || diff != "" {
		t.Errorf("to a Service: %v; -want +got:\n%s", err, diff)
	}
	if _, err := (Question{}).Plan(Here{}, false); err == nil || !strings.Contains(err.Error(), "ip route") {
		t.Error(err)
	}
}

// Presets that are measured together share the arms that they have in common, and each figure
// stands beside an arm of its own preset. A preset that cannot be measured is noted.
func TestTogether(t *testing.T) {
	h := cluster()
	h.Cable = false
	plan, err := Together([]Preset{find(t, "m2"), find(t, "m3"), find(t, "m9"), find(t, "m10")}, h, false)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range plan.Arms {
		names = append(names, a.Path.Network+" "+a.Name)
	}
	if want := []string{"overlay m2 m3", "host m2", "overlay m10", "VF m10", "VF m10", "host m10", "VF m10", "VF m10"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if got := plan.Presets(); got != "m2 m3 m10" {
		t.Errorf("presets %q", got)
	}
	if !slices.ContainsFunc(plan.Notes, func(n string) bool { return strings.HasPrefix(n, "m9 pulls the cable") }) {
		t.Errorf("notes %q", plan.Notes)
	}
	for i := range plan.Arms {
		plan.Arms[i].Name = names[i]
	}
	stands := map[string]string{}
	for _, f := range plan.Printed(plan.Arms) {
		stands[f.Name] = f.Arm
	}
	if stands["R0 Calico"] != "overlay m2 m3" || stands["R4 VF received"] != "VF m10" {
		t.Errorf("%v", stands)
	}
	if _, err := Together([]Preset{find(t, "m9"), find(t, "m15")}, h, false); err == nil || !strings.Contains(err.Error(), "DPDK") || !strings.Contains(err.Error(), "m9") {
		t.Errorf("nothing to measure: %v", err)
	}
}

// Shorten makes runs shorter than a preset has them, and notes that. Runs with a pulled cable keep
// the time that they need, and runs that are shorter stay as they are.
func TestShorten(t *testing.T) {
	plan, err := Together([]Preset{find(t, "m4"), find(t, "m5"), find(t, "m9")}, cluster(), false)
	if err != nil {
		t.Fatal(err)
	}
	plan.Shorten(4)
	for _, a := range plan.Arms {
		want := map[string]float64{"m4": 4, "m5": 3, "m9": 10}[a.Name]
		if a.Workload.Seconds != want {
			t.Errorf("%s: %v s, want %v", a.Name, a.Workload.Seconds, want)
		}
	}
	if !slices.Contains(plan.Notes, "runs of 4 s, packets 6 and a pulled cable 10 at least, where the presets have up to 30 s") {
		t.Errorf("notes %q", plan.Notes)
	}
}

// Rough runs do not warm up and ping ten times in two seconds, which is noted.
func TestRoughen(t *testing.T) {
	plan, err := Together([]Preset{find(t, "m4"), find(t, "m5")}, cluster(), false)
	if err != nil {
		t.Fatal(err)
	}
	plan.Roughen()
	for _, a := range plan.Arms {
		want := map[string]float64{"m4": 10, "m5": 2}[a.Name]
		if w := a.Workload; w.Warmup != 0 || w.Seconds != want || w.Kind == bench.Echo && w.Rate != 5 {
			t.Errorf("%s: %+v", a.Name, w)
		}
	}
	if last := plan.Notes[len(plan.Notes)-1]; !strings.HasPrefix(last, "rough:") {
		t.Errorf("notes %q", plan.Notes)
	}
}

// M5 is of VFs, and has the overlay between pods measured beside them; the report's figures
// stand beside VFs. Without a VF there is nothing to compare.
func TestPingsBesideOverlay(t *testing.T) {
	h := cluster()
	plan, err := find(t, "m5").Plan(h, false)
	if err != nil {
		t.Fatal(err)
	}
	if last := plan.Arms[len(plan.Arms)-1].Path; last.Network != "overlay" || plan.Arms[0].Path.Network != "VF" {
		t.Errorf("%+v", plan.Arms)
	}
	for i := range plan.Arms {
		plan.Arms[i].Name = fmt.Sprint(plan.Arms[i].Path.Network, i)
	}
	for _, f := range plan.Printed(plan.Arms) {
		if !strings.HasPrefix(f.Arm, "VF") {
			t.Errorf("%s stands beside %q", f.Name, f.Arm)
		}
	}
	h.Paths = h.Paths[:1]
	if plan, err := find(t, "m5").Plan(h, false); err == nil {
		t.Errorf("without a VF: %+v", plan.Arms)
	}
}

// The options for sending packets apply to packet workloads alone, and to Culvert's own engine.
func TestHowPacketsAreSent(t *testing.T) {
	for _, c := range []struct {
		flag, note string
		set        func(*Plan) error
		is         func(bench.Workload) bool
	}{
		{"--burst 64", "in bursts of 64", func(p *Plan) error { return p.Burst(64) }, func(w bench.Workload) bool { return w.Burst == 64 }},
	} {
		plan, err := Together([]Preset{find(t, "m4"), find(t, "m10")}, cluster(), false)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.set(&plan); err != nil {
			t.Fatal(err)
		}
		for _, a := range plan.Arms {
			w := a.Workload
			if packets := w.Kind == bench.Packets; packets != c.is(w) || packets && w.Engine != "culvert" {
				t.Errorf("%s: %s: %+v", c.flag, a.Name, w)
			}
		}
		if last := plan.Notes[len(plan.Notes)-1]; !strings.Contains(last, c.note) {
			t.Errorf("%s: notes %q", c.flag, plan.Notes)
		}
		if plan, err = Together([]Preset{find(t, "m4")}, cluster(), false); err != nil {
			t.Fatal(err)
		}
		if err := c.set(&plan); err == nil || !strings.Contains(err.Error(), c.flag) {
			t.Error(err)
		}
	}
}

// R4's packet rates over a VF stand beside no arm over another path.
func TestVFFiguresStandBesideVFs(t *testing.T) {
	printed := find(t, "m10").Printed
	for name, want := range map[string]string{"veth": "", "VF": "VF"} {
		if got := placeFigures(printed, []bench.Arm{{Name: name}})[0].Arm; got != want {
			t.Errorf("beside %s: %q", name, got)
		}
	}
}

// R4's ratios stand beside the arms over a VF with those over an overlay and a VLAN, of the same
// workload, and the share of one VF of several is the total by their number.
func TestRatiosStandBesidePairs(t *testing.T) {
	h := Here{Lacks: func(string) string { return "" }}
	for _, network := range []string{"VF", "overlay", "VLAN"} {
		h.Paths = append(h.Paths, crossed(network, pods("n1", network, map[string]string{"VF": "p0"}[network], "a", "b", "c"), pods("n2", network, map[string]string{"VF": "p0"}[network], "r"))...)
	}
	for preset, want := range map[string][]string{
		"m10": {"R4 VF to VXLAN, +1196 %: VF to overlay 12.96 x sent", "R4 VF to VLAN, +677 %: VF to VLAN 7.77 x sent"},
		"m11": {"R4 VF to VXLAN, +363 %: VF to overlay 4.63 x", "R4 VF to VLAN, +171 %: VF to VLAN 2.71 x"},
		"m16": {"R4 each, 11.2/N: VF 3.73 Mpps each"},
	} {
		plan, err := find(t, preset).Plan(h, true)
		if err != nil {
			t.Fatal(err)
		}
		for i := range plan.Arms {
			plan.Arms[i].Name = plan.Arms[i].Path.Network
		}
		var got []string
		for _, f := range plan.Printed(plan.Arms) {
			to := f.Arm
			if f.Base != "" {
				to += " to " + f.Base
			}
			got = append(got, fmt.Sprintf("%s: %s %.3g %s", f.Name, to, f.Value, f.Unit))
		}
		for _, line := range want {
			line = strings.Replace(line, "12.96", "13", 1)
			if !slices.Contains(got, line) {
				t.Errorf("%s: %q is not among %q", preset, line, got)
			}
		}
	}
}

func TestBeside(t *testing.T) {
	arms := []bench.Arm{{Name: "VF 1 flow", Path: path("pod-pod", "VF", "same PF", 1500)}, {Name: "VF 4096 flows", Path: path("pod-node", "VF", "same PF", 1500)}}
	printed := []bench.Figure{{Name: "a", Value: 1}, {Name: "b", Value: 1, Arm: "4096 flows"}, {Name: "c", Value: 1, Arm: "pod-node"}, {Name: "d", Value: 1, Arm: "node-node"}, {Name: "e", Text: "x"}}
	var got []string
	for _, f := range placeFigures(printed, arms) {
		got = append(got, f.Arm)
	}
	if want := []string{"VF 1 flow", "VF 4096 flows", "VF 4096 flows", "", ""}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The rates are those that the PF accepts. If culvertd does not answer, the error comes before any
// run.
func TestRatesAreSwept(t *testing.T) {
	for _, c := range []struct {
		lowest, highest int
		quick           bool
		want            []string
	}{
		{1, 1000, false, []string{"10 Mb/s", "100 Mb/s", "250 Mb/s", "500 Mb/s", "1000 Mb/s"}},
		{11, 10000, false, []string{"11 Mb/s", "100 Mb/s", "1000 Mb/s", "2500 Mb/s", "5000 Mb/s", "10000 Mb/s"}},
		{50, 10000, true, []string{"1000 Mb/s", "5000 Mb/s", "10000 Mb/s"}},
		{1, 5, false, []string{"5 Mb/s", "1 Mb/s", "2 Mb/s"}},
	} {
		h := cluster()
		h.Paths = h.Paths[1:2]
		h.Rates = func(bench.Path) (int, int, error) { return c.lowest, c.highest, nil }
		plan, err := find(t, "m17").Plan(h, c.quick)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range plan.Arms {
			got = append(got, a.Name)
			if fmt.Sprintf("%d Mb/s", a.Workload.RateLimit) != a.Name || a.Workload.Kind != bench.Stream {
				t.Errorf("%s: %+v", a.Name, a.Workload)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
	h := cluster()
	h.Rates = func(bench.Path) (int, int, error) { return 0, 0, errors.New("no culvertd answers") }
	if _, err := find(t, "m17").Plan(h, false); err == nil || !strings.Contains(err.Error(), "no culvertd answers") || !strings.Contains(err.Error(), "run m4 for each rate") {
		t.Errorf("without culvertd: %v", err)
	}
}

// M12 and M13 are the reports' own measurements through a machine that routes, or bridges, so that
// no note names a substitute. The kernel's pktgen does not send to a router.
func TestThroughTheMiddle(t *testing.T) {
	here := cluster()
	through := func(how bench.Forward) Here {
		h := here
		h.Paths = slices.Clone(h.Paths)
		for i := range h.Paths {
			h.Paths[i].Via = bench.Relay{Machine: "n3", Name: "r", How: how}
		}
		return h
	}
	for _, c := range []struct {
		preset string
		here   Here
		engine string // of its arms; empty: there are none
	}{
		{"m12", through(bench.Routes), "culvert"}, {"m13", through(bench.Bridges), "pktgen"},
		{"m12", through(bench.Bridges), ""}, {"m13", through(bench.Routes), ""},
		{"m10", through(bench.Routes), "culvert"},
	} {
		plan, err := find(t, c.preset).Plan(c.here, true)
		if c.engine == "" {
			if err == nil || !strings.Contains(err.Error(), "a path through a machine that") || !strings.Contains(err.Error(), "through r, which ") {
				t.Errorf("%s: %+v, %v", c.preset, plan.Arms, err)
			}
			continue
		}
		if err != nil || len(plan.Arms) != len(here.Paths) || plan.Arms[0].Workload.Engine != c.engine {
			t.Errorf("%s: %+v, %v", c.preset, plan, err)
		}
		for _, n := range plan.Notes {
			if strings.Contains(n, "the report's machine") {
				t.Errorf("%s: %q", c.preset, n)
			}
		}
		if c.engine == "culvert" && !slices.ContainsFunc(plan.Notes, func(n string) bool { return strings.Contains(n, "not the router's") }) {
			t.Errorf("%s: %q", c.preset, plan.Notes)
		}
	}
}
