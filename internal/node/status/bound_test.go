package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
)

// The NodeState of a node with 256 VFs is small enough for the API server, whatever the VFs' owners
// do.
func TestNodeStateIsBounded(t *testing.T) {
	n := api.NodeStatus{}
	for i := range 256 {
		v := api.VF{Name: fmt.Sprintf("p0#%d", i), Reason: strings.Repeat("r", 100_000)}
		for j := range 2000 {
			v.Addresses = append(v.Addresses, fmt.Sprintf("10.%d.%d.%d/32", i, j>>8, j&0xff))
		}
		for range 9 {
			v.Warnings = append(v.Warnings, fmt.Sprint(i, len(v.Warnings), v.Reason))
		}
		n.VFs = append(n.VFs, v)
		n.Problems = append(n.Problems, api.Problem{Object: v.Name, Reason: v.Reason, Next: v.Reason})
	}
	s := ToNodeState(n)
	raw, err := json.Marshal(s)
	if err != nil || len(raw) > 1<<20 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	if len(s.NetworkWarnings) != 16 {
		t.Errorf("%d warnings", len(s.NetworkWarnings))
	}
	a := s.VFs[7].Addresses
	if len(a) != 17 || a[15] != "10.7.0.15/32" || a[16] != "and 1,984 more" || len(n.VFs[7].Addresses) != 2000 {
		t.Errorf("%v", a)
	}
}
