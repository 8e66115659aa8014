package blocks

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// I4: no granted block has an address that a pod has from another stack, though a node
// claims it by name. The controller grants it once the pod has gone. A claim of an
// attachment comes first: its address is Culvert's.
func TestI4ForeignAddressesAreNotGranted(t *testing.T) {
	at := netip.MustParseAddr
	demand := Demand{Node: "a", UID: "a", Request: Request{Network: "n", Ranges: []ipam.Run{run("10.0.0.2-10.0.0.9")}, Used: 4, Claims: []Claim{
		{Addr: at("10.0.0.3"), ID: "named"}, {Addr: at("10.0.0.7"), ID: "holds", Held: true},
	}}}
	foreign := []netip.Addr{at("10.0.0.3"), at("10.0.0.4"), at("10.0.0.7"), at("10.9.0.1")}
	got, out := Grant(Pool{Network: "n", Foreign: foreign}, []Demand{demand}, 1)
	for _, b := range got.Blocks {
		if b.Contains(at("10.0.0.3")) || b.Contains(at("10.0.0.4")) {
			t.Errorf("I4: block %s has an address of another stack's pod", b.Run)
		}
	}
	if b, ok := got.at(at("10.0.0.7")); !ok || b.Claim != "holds" {
		t.Errorf("the claim of an attachment is refused: %v", show(got))
	}
	if len(out.Disputed) != 1 || !strings.Contains(out.Disputed[0], "10.0.0.3, which node a claims, is the address of a pod that another stack attached") {
		t.Errorf("disputed: %v", out.Disputed)
	}
	got.Foreign = nil
	later, out := Grant(got, []Demand{demand}, 1)
	if b, ok := later.at(at("10.0.0.3")); !ok || b.Claim != "named" || len(out.Disputed) > 0 {
		t.Errorf("the pod has gone: %v, %v", show(later), out)
	}
	if diff := cmp.Diff(show(got), slices.DeleteFunc(show(later), func(s string) bool { return strings.Contains(s, "named") })); diff != "" {
		t.Errorf("what was granted moved, -before +after\n%s", diff)
	}
}
