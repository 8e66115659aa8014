package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

// odd returns a valid result in which all names are malicious and figures are at their bounds.
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
		r := makeExample()
		change(&r)
		return r
	}
	arms := " Compared by TCP: VF pod-pod (MTU 1500) with overlay pod-pod (MTU 1450)."
	plus := " 1.97 to 2.05 times; 6 rounds in turns, p=0.03. It takes 0.42 times the CPU per Gb/s: 0.39 to 0.42 times."
	twice := "VF carries 2.0 times what the overlay carries. 1.98 to 2.05 times; 6 rounds in turns, p=0.002. It takes 0.42 times the CPU per Gb/s: 0.40 to 0.42 times." + arms
	hostToo := func(r *bench.Result) {
		only(0, 0, 1)(r)
		r.Arms[0].Name, r.Arms[0].Path.Network = "host", "host"
	}
	if got, want := makeView(with(hostToo)).rows[2].Against, []string{"2.01x overlay, p=0.004", "2.01x host, p=0.004"}; !slices.Equal(got, want) {
		t.Errorf("a VF is set against %q, want %q", got, want)
	}
	for name, c := range map[string]struct {
		r    bench.Result
		want string
	}{
		"all":        {makeExample(), "VF carries 2.0 times what the overlay carries. 1.95 to 2.05 times; 6 rounds in turns, p=0.01. It takes 0.42 times the CPU per Gb/s: 0.40 to 0.43 times." + arms},
		"sizes":      {with(only(2, 3, 4, 5)), "VF carries 1.5 times what the overlay carries. 1.48 to 1.59 times; 6 rounds in turns, p=0.004. It takes 0.69 times the CPU per Gb/s: 0.67 to 0.71 times. Compared by TCP x8 512 B: VF pod-pod (MTU 1500) with overlay pod-pod (MTU 1450)."},
		"questions":  {with(only(12, 13)), "VF answers in 0.53 times the time of the overlay. 0.52 to 0.56 times; 6 rounds in turns, p=0.03. Compared by questions 1 B: VF pod-pod (MTU 1500) with overlay pod-pod (MTU 1450)."},
		"alone":      {with(only(1)), "VF, TCP: throughput 9.40 Gb/s. Median of 6 runs: 9.12 to 9.41. It is 100 % of what the wire can carry."},
		"the same":   {with(func(r *bench.Result) { only(0, 0)(r); r.Arms[1].Name, r.Arms[1].Path.Network = "again", "VF" }), "VF carries as much as the overlay, within 5 %. 1.00x: 1.00 to 1.00 times; 6 rounds in turns. Compared by TCP: VF pod-pod (MTU 1450) with overlay pod-pod (MTU 1450)."},
		"one path":   {with(func(r *bench.Result) { only(0, 1)(r); r.Arms[0].Path.Network = "VF" }), "VF pod-pod net1-net1 carries 2.0 times what VF pod-pod eth0-eth0 carries." + plus + " Compared by TCP: VF pod-pod net1-net1 (MTU 1500) with VF pod-pod eth0-eth0 (MTU 1450)."},
		"on a host":  {with(func(r *bench.Result) { only(0, 1)(r); r.Arms[0].Path.Network = "host" }), "VF carries 2.0 times what the host network carries." + plus + " Compared by TCP: VF pod-pod (MTU 1500) with host pod-pod (MTU 1450)."},
		"host too":   {with(hostToo), twice},
		"beside":     {with(only(0, 1, 12, 13)), twice}, // a pair of questions takes no certainty from it
		"two runs":   {with(func(r *bench.Result) { only(0, 1)(r); r.Runs = append(r.Runs[1:3], r.Runs[8:10]...) }), "VF carries 2.0 times what the overlay carries, which may be chance. 2 rounds in turns; to show that much takes about 6 rounds." + arms},
		"no CPU":     {with(func(r *bench.Result) { only(0, 1)(r); forgetEvidence(r) }), "VF carries 2.0 times what the overlay carries. 1.97 to 2.05 times; 6 rounds in turns, p=0.03." + arms},
		"void":       {with(func(r *bench.Result) { only(0, 1)(r); r.Runs = r.Runs[:1] }), "Nothing was measured: none of 1 runs counts."},
		"no runs":    {bench.Result{}, "Nothing was measured: there are no runs."},
		"void again": {with(func(r *bench.Result) { only(0, 1)(r); r.Runs = r.Runs[:7] }), "overlay, TCP: throughput 4.62 Gb/s. Median of 6 runs: 4.59 to 4.70. It is 51 % of what the wire can carry."},
	} {
		if got := Sentence(c.r); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// only leaves the other arms out of a result.
func only(arms ...int) func(*bench.Result) {
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

// Arms between unlike ends are not compared, and the order of the arms does not change the sentence.
func TestHeadlineComparesLikeWithLike(t *testing.T) {
	r := makeExample()
	node := r.Arms[0]
	node.Name, node.Path.Ends = "overlay node", "node-node"
	r.Arms = append(r.Arms, node)
	for i := range r.Runs {
		if run := r.Runs[i]; run.Arm == 0 {
			run.Arm, run.Gbps = len(r.Arms)-1, 2*run.Gbps
			r.Runs = append(r.Runs, run)
		}
	}
	want := Sentence(makeExample())
	if got := Sentence(r); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for i, run := range r.Runs {
		r.Runs[i].Arm = len(r.Arms) - 1 - run.Arm
	}
	slices.Reverse(r.Arms)
	if got := Sentence(r); got != want {
		t.Errorf("the other way round: %s\nwant %s", got, want)
	}
	for i := range r.Arms {
		if r.Arms[i].Path.Network == "overlay" {
			r.Arms[i].Path.Ends = "node-node"
		}
	}
	if got := Sentence(r); strings.Contains(got, "VF") {
		t.Errorf("a pod's VF is set against a node's overlay: %s", got)
	}
}

// forgetEvidence takes the evidence of processors away.
func forgetEvidence(r *bench.Result) {
	for i := range r.Runs {
		r.Runs[i].From.CPU, r.Runs[i].To.CPU = bench.CPUUse{}, bench.CPUUse{}
	}
}
