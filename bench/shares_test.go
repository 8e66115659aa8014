package bench

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// threeSenders is an arm of three senders on one machine to one receiver on another, and a run of it.
func threeSenders() (Arm, Run) {
	path := func(from string) Path {
		return Path{From: End{Machine: "n1", Name: from, Interface: "net1"}, To: End{Machine: "n2", Name: "r", Interface: "net1"}}
	}
	a := Arm{Name: "three", Path: path("a"), Also: []Path{path("b"), path("c")}, Workload: Workload{Kind: Packets, Seconds: 10}}
	use := func(seconds, busiest float64) Evidence {
		return Evidence{
			CPU:        CPUUse{Seconds: 10, System: seconds, Idle: 20 - seconds, Busiest: busiest},
			Interfaces: []Counters{{Interface: "net1", Role: "path", RxPackets: 100, RxDropped: 50}},
			Softnet:    Softnet{Dropped: 7},
		}
	}
	again := uint64(2)
	var each []Run
	for i, packets := range []uint64{100, 300, 200} {
		each = append(each, Run{Seconds: 10, Packets: packets, Bytes: packets * 64, PPS: float64(packets) / 10, Sent: packets + 1, Lost: 1, Retransmits: &again, Series: []float64{1, 2, 3}[:2+i%2], From: use(8, 0.99), To: use(4, 0.3)})
	}
	return a, Sum(each)
}

// The total is the sum, the machines' processors count once, and Each returns the shares from it.
func TestSum(t *testing.T) {
	a, r := threeSenders()
	if r.Packets != 600 || r.PPS != 60 || r.Sent != 603 || r.Lost != 3 || *r.Retransmits != 6 || r.Seconds != 10 {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]float64{3, 6, 3}, r.Series); diff != "" {
		t.Error(diff)
	}
	if got, want := a.Cost(r).NsPerPacket, (8.0+4)/600*1e9; math.Abs(got-want) > 1 {
		t.Errorf("%g ns a packet, want %g: one machine sends and one receives", got, want)
	}
	if got := a.Fairness(r); math.Abs(got-1.0/3) > 1e-9 {
		t.Errorf("fairness %g", got)
	}
	if from, to := r.Busiest(); from != 0.99 || to != 0.3 {
		t.Errorf("%g, %g", from, to)
	}
	each := r.Each()
	if len(each) != 3 || each[1].Packets != 300 || each[1].From.CPU.System != 8 || len(a.Paths()) != 3 {
		t.Errorf("%+v", each)
	}
	if diff := cmp.Diff(r, Sum(each)); diff != "" {
		t.Error(diff)
	}
	still := Sum([]Run{{}, {}, {}})
	if got := a.Fairness(still); !math.IsNaN(got) {
		t.Errorf("paths that carried nothing are fair: %g", got)
	}
	plain := Run{Packets: 5}
	if diff := cmp.Diff([]Run{plain}, plain.Each()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(plain, Sum([]Run{plain})); diff != "" {
		t.Error(diff)
	}
	if got := a.Fairness(plain); !math.IsNaN(got) {
		t.Errorf("one path is fair to itself: %g", got)
	}
}

// Limits names each machine and each interface once, also if several paths share it.
func TestLimitsOfSeveral(t *testing.T) {
	a, r := threeSenders()
	// The total is at the wires' ceiling, and above what one generator makes: the first path carries a sixth. The
	// third carries what its own VF may, and what its generator makes.
	a.CeilingPPS, a.GeneratorPPS = r.PPS, r.PPS/2
	r.Shares[2].Sent = uint64(720e3 * r.Shares[2].Seconds) // 500 Mb/s have 744 thousand of the least frames a second
	r.Shares[2].From.EngineSeconds = r.Shares[2].From.CPU.Seconds
	a.AlsoBounds = []Bounds{{GeneratorPPS: r.PPS, RateMbps: 500}, {GeneratorPPS: r.Shares[2].PPS, RateMbps: 500}}
	var got []string
	for _, l := range Limits(r, a) {
		got = append(got, l.What+" "+l.Where)
	}
	want := []string{"rate limit net1 on n1", "wire net1 on n1", "generator n1", "core n1", "ring net1 on n1", "ring net1 on n1", "ring net1 on n1", "ring net1 on n2", "softnet n1", "softnet n2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A run has shares of all its paths or of none, and Read checks their figures too.
func TestReadShares(t *testing.T) {
	a, run := threeSenders()
	r := Result{Schema: Schema, Machines: []Machine{{Name: "n1"}, {Name: "n2"}}, Arms: []Arm{a}, Runs: []Run{run}}
	var file strings.Builder
	if err := Write(&file, r); err != nil {
		t.Fatal(err)
	}
	back, err := Read(strings.NewReader(file.String()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(run, back.Runs[0]); diff != "" {
		t.Error(diff)
	}
	for want, spoil := range map[string]func(*Result){
		"runs[0].shares: 2 of them":      func(r *Result) { r.Runs[0].Shares = r.Runs[0].Shares[:2] },
		"runs[0].shares: 3 of them":      func(r *Result) { r.Arms[0].Also = nil },
		"shares[1].pps -1":               func(r *Result) { r.Runs[0].Shares[1].PPS = -1 },
		`path: there is no machine "n9"`: func(r *Result) { r.Arms[0].Also[1].From.Machine = "n9" },
		"alsoBounds: 1 of them":          func(r *Result) { r.Arms[0].AlsoBounds = make([]Bounds, 1) },
		"rtt -1":                         func(r *Result) { r.Arms[0].AlsoBounds = []Bounds{{}, {RTT: -1}} },
		"no arm has more than":           func(r *Result) { r.Arms[0].Also = make([]Path, mostPaths+1); fillPaths(r.Arms[0].Also, a.Path) },
	} {
		a, run := threeSenders()
		r := Result{Schema: Schema, Machines: r.Machines, Arms: []Arm{a}, Runs: []Run{run}}
		spoil(&r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func fillPaths(paths []Path, p Path) {
	for i := range paths {
		paths[i] = p
	}
}
