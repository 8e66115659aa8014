package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/segment"
)

// Without the flag, culvertd neither sends nor listens on the PFs.
func TestSegmentDiscoveryIsSwitchedOff(t *testing.T) {
	for _, on := range []bool{true, false} {
		s := &Server{Config: Config{SegmentDiscovery: on}, node: node.New(node.Config{})}
		s.followSegments(segment.NewNodeID("boot"))
		if got := s.segments != nil; got != on {
			t.Errorf("flag %t: watcher %t", on, got)
		}
		if len(s.segmentProblems()) > 0 {
			t.Errorf("flag %t: problems at the start", on)
		}
	}
	s := &Server{}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s.runSegments(ctx) // returns at once, and does not wait for the VFs
	if ctx.Err() != nil {
		t.Error("it waits")
	}
}
