package gather

import (
	"slices"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// The VF of a pod has the warnings of the network that it was attached by; a VF that was
// given back has none. A guard that does not hold whole is a warning.
func TestWarningsOfLeases(t *testing.T) {
	request := []byte(`{"cniVersion":"1.0.0","name":"blue","type":"sriov","max-tx-rate":5}`)
	pod := vf.Owner{Kind: vf.OwnerPod, UID: "c1", Name: "default/a", Interface: "net1"}
	record := func(index int, phase vf.Phase, owner vf.Owner, request []byte) journal.Record {
		return journal.Record{ID: vf.ID{Index: index}, Phase: phase, Lease: journal.Lease{Owner: owner, Request: request}}
	}
	vfs := []api.VF{{ID: vf.ID{Index: 0}}, {ID: vf.ID{Index: 1}}, {ID: vf.ID{Index: 2}}, {ID: vf.ID{Index: 3}}}
	vfs[1].Guard = &api.Guard{Mode: vf.GuardIP, Degree: vf.GuardPartly, Reason: "a container has NET_RAW"}
	vfs[2].Guard = &api.Guard{Mode: vf.GuardARP, Degree: vf.GuardNot, Reason: "missing"}
	vfs[3].Guard = &api.Guard{Mode: vf.GuardIP, Degree: vf.GuardEnforced}
	addWarnings(vfs, []journal.Record{
		record(0, vf.PhaseAttached, pod, request), record(1, vf.PhaseFree, pod, request), record(2, vf.PhaseAttached, vf.Owner{Kind: vf.OwnerGuest}, request),
		record(3, vf.PhaseAttached, pod, []byte(`not JSON`)),
	})
	for i, want := range [][]string{{"max-tx-rate 5: unknown key, ignored: did you mean max_tx_rate?"}, {"guard ip is partly enforced: a container has NET_RAW"}, {"guard arp is not enforced: missing"}, nil} {
		if !slices.Equal(vfs[i].Warnings, want) {
			t.Errorf("VF %d: %q, want %q", i, vfs[i].Warnings, want)
		}
	}
}
