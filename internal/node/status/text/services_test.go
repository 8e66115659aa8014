package text

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
)

// TestServicesLine: a node with Services over VF networks shows how they are balanced and why
// not in a better way; one without shows nothing of it.
func TestServicesLine(t *testing.T) {
	st := api.NodeStatus{Node: "worker01"}
	if got := Node(st, Options{}); strings.Contains(got, "Services") {
		t.Errorf("without Services:\n%s", got)
	}
	st.Services = &api.ServiceBalancing{Mechanism: "nftables", Why: "not eBPF: the host has no cgroup2 hierarchy", Services: 2, Backends: 5, Pods: 3}
	want := "Services over VF networks: 2 with 5 backends, balanced for 3 pods by nftables (not eBPF: the host has no cgroup2 hierarchy)\n"
	if got := Node(st, Options{}); !strings.Contains(got, want) {
		t.Errorf("no line %s in:\n%s", want, got)
	}
	st.Services.Mechanism, st.Services.Why, st.Services.Before = "eBPF", "", []string{`"a" (eBPF program 7) at connect4`, `"b" (eBPF program 8) at connect6`}
	want = `pods by eBPF; programs of other projects run before Culvert's: "a" (eBPF program 7) at connect4, "b" (eBPF program 8) at connect6` + "\n"
	if got := Node(st, Options{}); !strings.Contains(got, want) {
		t.Errorf("no line %s in:\n%s", want, got)
	}
}
