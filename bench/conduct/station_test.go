package conduct

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/evidence"
)

// TestWatched: the interfaces that carry a tunnel's frames are not watched, since their traffic
// proves nothing against the tunnel.
func TestWatched(t *testing.T) {
	end := func(name, uplink string) bench.End {
		return bench.End{Interface: name, Address: netip.MustParseAddr("10.0.0.1"), Uplink: uplink}
	}
	s := &Station{Site: Site{Ends: []bench.End{end("enp1s0", ""), end("enp2s0", ""), end("net2", ""), end("flannel.1", "enp1s0"), {Interface: "net1"}, {Interface: "vtep"}}}, carriers: map[string][]string{"flannel.1": {"vtep"}}}
	// net1 has no address, but is watched, since it does not carry the tunnel's frames.
	want := []evidence.Watched{{Interface: "flannel.1", Role: "path"}, {Interface: "enp2s0", Role: "other"}, {Interface: "net1", Role: "other"}}
	if diff := cmp.Diff(want, s.watchedInterfaces(s.Ends[3], []string{"net2"})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
