package preset

import (
	"slices"
	"testing"

	"github.com/culvert-net/culvert/bench"
)

// R4's packets and rates went between machines of one kind. Paths between a node and a pod answer nothing
// more where a path of the same network joins two pods or two nodes. They are measured where they are all
// that there is.
func TestPathsOfOneKind(t *testing.T) {
	all := []bench.Path{
		path("pod-pod", "overlay", "other node", 1450), path("pod-node", "overlay", "other node", 1450), path("node-pod", "overlay", "other node", 1450),
		path("node-node", "overlay", "other node", 1450), path("pod-pod", "VF", "other node", 1500), path("pod-node", "VF", "other node", 1500),
	}
	for _, c := range []struct {
		preset string
		paths  []bench.Path
		want   []string
	}{
		{"m10", all, []string{"pod-pod overlay", "node-node overlay", "pod-pod VF"}},
		{"m10", all[5:], []string{"pod-node VF"}},
		{"m14", all, []string{"pod-pod overlay", "node-node overlay"}},
		{"m17", all, []string{"pod-pod VF"}},
		{"m1", all[:4], []string{"pod-pod overlay", "pod-node overlay", "node-pod overlay", "node-node overlay"}},
	} {
		here := cluster()
		here.Paths = c.paths
		plan, err := find(t, c.preset).Plan(here, true)
		if err != nil {
			t.Error(err)
		}
		var got []string
		for _, a := range plan.Arms {
			if name := a.Path.Ends + " " + a.Path.Network; !slices.Contains(got, name) {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.preset, got, c.want)
		}
	}
}
