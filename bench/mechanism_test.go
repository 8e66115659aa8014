package bench

import (
	"strings"
	"testing"
)

// byMechanism is a result of two arms that differ in what carries them, whose receivers count by those mechanisms.
func byMechanism(first, second Mechanism) Result {
	vf, overlay := betweenMachines("a", "b"), betweenMachines("a", "b")
	overlay.Name, overlay.Path.Network, overlay.Path.From.Interface, overlay.Workload.Kind = "overlay", "overlay", "eth0", Packets
	vf.Name, vf.Path.Network, vf.Workload.Kind = "VF", "VF", Packets
	r := Result{Arms: []Arm{overlay, vf}}
	for range 8 {
		r.Runs = append(r.Runs, Run{Arm: 0, PPS: 1e6, To: Evidence{Mechanism: first}}, Run{Arm: 1, PPS: 2e6, To: Evidence{Mechanism: second}})
	}
	return r
}

// TestUnlikeMechanismsAreNotCompared: a receiver without eBPF takes a fifth to two fifths fewer packets, which
// would stand beside a p-value as the VF's gain.
func TestUnlikeMechanismsAreNotCompared(t *testing.T) {
	ebpf := Mechanism{Name: "eBPF at the interface"}
	socket := Mechanism{Name: "packet socket", Instead: "load an eBPF program: operation not permitted"}
	if pairs := byMechanism(ebpf, ebpf).Pairs(); len(pairs) != 1 {
		t.Errorf("alike: %d pairs", len(pairs))
	}
	if pairs := byMechanism(Mechanism{}, ebpf).Pairs(); len(pairs) != 1 { // a result from before they were kept
		t.Errorf("not known: %d pairs", len(pairs))
	}
	r := byMechanism(socket, ebpf)
	if pairs := r.Pairs(); len(pairs) != 0 {
		t.Errorf("unlike: %+v", pairs)
	}
	said := strings.Join(Remarks(r), "\n")
	for _, want := range []string{
		"overlay uses packet socket and VF eBPF at the interface: they are not compared",
		"on b uses packet socket, which carries less than the mechanism that the engine prefers: load an eBPF program: operation not permitted.",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %q", want, said)
		}
	}
	mixed := byMechanism(ebpf, ebpf)
	mixed.Runs[3].To.Mechanism = socket // of one run alone
	if pairs := mixed.Pairs(); len(pairs) != 0 {
		t.Errorf("one run with another mechanism: %+v", pairs)
	}
	if got := Unlike(byMechanism(ebpf, ebpf), r); len(got) != 1 || got[0] != "arm overlay: counts by: eBPF at the interface against packet socket" {
		t.Errorf("two results: %q", got)
	}
}
