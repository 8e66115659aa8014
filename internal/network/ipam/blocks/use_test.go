package blocks

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// CountUse counts only what the node may hand out of its own blocks: neither those of other nodes, nor
// those under a grant that it has given back. Addresses of other networks are not used.
func TestCountUse(t *testing.T) {
	b := NewBook("here", func() {})
	b.SetPools([]View{
		{Name: "big", Pool: Pool{Network: "d/n", Blocks: []Block{
			{Run: run("10.0.0.2-10.0.0.9"), Node: "here"}, {Run: run("10.0.0.10-10.0.0.20"), Node: "there"}, {Run: run("10.0.0.21"), Node: "here", GoneSince: time.Now()},
			{Run: run("10.0.0.30"), Node: "here", Claim: "c"}, {Run: run("10.0.0.40-10.0.0.49"), Node: "here", Grant: "old"}, {Run: run("10.0.0.50-10.0.0.59"), Node: "here", Grant: "g"},
		}}},
		{Name: "another", Pool: Pool{Network: "d/m", Blocks: []Block{{Run: run("10.0.0.2-10.0.0.3"), Node: "here"}}}},
		{Name: "elsewhere", Pool: Pool{Network: "d/x", Blocks: []Block{{Run: run("10.0.1.2-10.0.1.3"), Node: "there"}}}},
	})
	grants := []Kept{{Network: "d/n", Grant: ipam.Grant{ID: "g", Runs: runs("10.0.0.50-10.0.0.51")}}}
	held := []Held{{Network: "d/n", Addr: addr("10.0.0.3")}, {Network: "d/n", Addr: addr("10.0.0.11")}, {Network: "d/m", Addr: addr("10.0.0.2")}, {Network: "d/m", Addr: addr("10.0.0.3")}}
	want := []Use{{Name: "another", Used: 2}, {Name: "big", Used: 2, Free: 9}}
	if diff := cmp.Diff(want, b.CountUse(grants, held)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
