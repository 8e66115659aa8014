package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/screen"
)

// odd is a valid result in which all names mean harm and figures are at their bounds.
func odd() bench.Result {
	nasty := "<script>alert(1)</script>\x1b[2J\n\u202e'\"&`|--></style>"
	end := bench.End{Machine: nasty, Name: nasty, Interface: nasty, Driver: nasty, PF: nasty, Uplink: nasty}
	path := bench.Path{Ends: nasty, Network: nasty, Place: nasty, From: end, To: end}
	run := bench.Run{Seconds: 1e15, Gbps: 1e15, PPS: 1e15, Bytes: 1<<64 - 1, Series: []float64{0, 1e15, 0}, Limits: []bench.Limit{{What: nasty, Where: nasty, Evidence: nasty}}}
	tiny := bench.Run{Arm: 1, Seconds: 1e-300, Gbps: 5e-324, Series: []float64{0, 0}, Delays: &bench.Delays{Max: 1e15}}
	return bench.Result{
		Schema: bench.Schema, Culvert: nasty, Preset: nasty, Unfinished: nasty, Notes: []string{nasty, strings.Repeat("x", 300)},
		Machines: []bench.Machine{{
			Name: nasty, Kernel: nasty, CPU: nasty, CPUs: 2, Governor: nasty, Hypervisor: nasty, Tools: []bench.Setting{{Name: nasty, Value: nasty}},
			Interfaces: []bench.Interface{{Name: nasty, Driver: nasty, IRQs: []bench.IRQ{{CPUs: "1"}}}},
		}, {Name: "b"}},
		Arms: []bench.Arm{
			{Name: nasty, Path: path, Workload: bench.Workload{Kind: bench.Stream}, CeilingGbps: 1e-300},
			{Name: "=cmd|' /C calc'!A0", Path: path, Workload: bench.Workload{Kind: bench.Stream}},
			{Name: "empty", Path: path, Workload: bench.Workload{Kind: bench.Request}},
			{Name: "delays", Path: path, Workload: bench.Workload{Kind: bench.Request}},
			{Name: "void", Path: path, Workload: bench.Workload{Kind: bench.Packets, Size: 64}},
		},
		Runs: []bench.Run{
			run, run, {Arm: 3, Delays: &bench.Delays{}}, {Arm: 3, Delays: &bench.Delays{Min: 1e15, P50: 1e15, P90: 1e15, P99: 1e15, P999: 1e15, Max: 1e15}},
			{Arm: 4, Void: nasty}, tiny,
		},
		Printed: []bench.Figure{{Name: nasty, Arm: nasty, Value: 0, Unit: nasty}, {Name: nasty, Text: nasty}},
	}
}

func TestOddText(t *testing.T) {
	for name, r := range map[string]bench.Result{"odd": odd(), "empty": {Schema: bench.Schema}} {
		if err := r.Validate(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		checkText(t, Text(r, screen.Look{Unicode: true}))
		checkText(t, Text(r, screen.Look{}))
	}
}

func TestSentence(t *testing.T) {
	with := func(change func(*bench.Result)) bench.Result {
		r := example()
		change(&r)
		return r
	}
	only := func(arms ...int) func(*bench.Result) {
		return func(r *bench.Result) {
			old := *r
			r.Arms, r.Runs, r.Printed = nil, nil, nil
			for i, a := range arms {
				r.Arms = append(r.Arms, old.Arms[a])
				for _, run := range old.Runs {
					if run.Arm == a {
						run.Arm = i
						r.Runs = append(r.Runs, run)
					}
				}
			}
		}
	}
	plus := " (+-0.04, p=0.002, n=6) at 0.42x the CPU per Gb/s."
	hostToo := func(r *bench.Result) {
		only(0, 0, 1)(r)
		r.Arms[0].Name, r.Arms[0].Path.Network = "host", "host"
	}
	if got, want := rows(with(hostToo))[2].Against, []string{"2.04x overlay, p=0.002", "2.04x host, p=0.002"}; !slices.Equal(got, want) {
		t.Errorf("a VF is set against %q, want %q", got, want)
	}
	for name, c := range map[string]struct {
		r    bench.Result
		want string
	}{
		"all":        {example(), "VF carries 2.04x the overlay's throughput" + plus},
		"sizes":      {with(only(2, 3, 4, 5)), "VF carries 1.54x the overlay's throughput (+-0.05, p=0.002, n=6) at 0.69x the CPU per Gb/s, with writes of 512 B."},
		"questions":  {with(only(12, 13)), "VF answers in 0.53x the overlay's round-trip time (+-0.02, p=0.002, n=6)."},
		"alone":      {with(only(1)), "VF: throughput 9.40 Gb/s (9.12 to 9.41, n=6), 100 % of what the wire can carry."},
		"the same":   {with(func(r *bench.Result) { only(0, 0)(r); r.Arms[1].Name, r.Arms[1].Path.Network = "again", "VF" }), "VF shows no difference: 1.00x the overlay's throughput (+-0.02, p=1, n=6)."},
		"one path":   {with(func(r *bench.Result) { only(0, 1)(r); r.Arms[0].Path.Network = "VF" }), "VF carries 2.04x the throughput of overlay" + plus},
		"on a host":  {with(func(r *bench.Result) { only(0, 1)(r); r.Arms[0].Path.Network = "host" }), "VF carries 2.04x the host network's throughput" + plus},
		"host too":   {with(hostToo), "VF carries 2.04x the overlay's throughput" + plus},
		"two runs":   {with(func(r *bench.Result) { only(0, 1)(r); r.Runs = append(r.Runs[1:3], r.Runs[8:10]...) }), "VF carries 1.97x the overlay's throughput (n=2: too few to rule out chance)."},
		"no CPU":     {with(func(r *bench.Result) { only(0, 1)(r); forget(r) }), "VF carries 2.04x the overlay's throughput (+-0.04, p=0.002, n=6)."},
		"void":       {with(func(r *bench.Result) { only(0, 1)(r); r.Runs = r.Runs[:1] }), "Nothing was measured: none of 1 runs counts."},
		"no runs":    {bench.Result{}, "Nothing was measured: there are no runs."},
		"void again": {with(func(r *bench.Result) { only(0, 1)(r); r.Runs = r.Runs[:7] }), "overlay: throughput 4.62 Gb/s (4.59 to 4.70, n=6), 51 % of what the wire can carry."},
	} {
		if got := Sentence(c.r); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// forget takes the evidence of processors away.
func forget(r *bench.Result) {
	for i := range r.Runs {
		r.Runs[i].From.CPU, r.Runs[i].To.CPU = bench.CPUUse{}, bench.CPUUse{}
	}
}
