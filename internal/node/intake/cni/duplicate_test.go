package cni

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// meetsDuplicate is an engine that meets a duplicate in each attach.
type meetsDuplicate struct{ *memory }

func (m meetsDuplicate) Attach(ctx context.Context, req attach.Request) (journal.Record, error) {
	if req.Report != nil {
		req.Report("DuplicateAddress", "fd00::2")
	}
	return m.memory.Attach(ctx, req)
}

// A report of the engine becomes an event of the pod, also if the ADD fails. There is no event
// without a cluster, and none for a container that is no pod.
func TestReportsBecomeEventsOfThePod(t *testing.T) {
	const kubernetes = "IgnoreUnknown=true;K8S_POD_NAMESPACE=d;K8S_POD_NAME=p;K8S_POD_UID=u1"
	for name, broken := range map[string]error{"replaced": nil, "refused": vf.DuplicateError{}} {
		t.Run(name, func(t *testing.T) {
			cluster, engine := &events{}, newMemory(2)
			engine.broken = broken
			h := New(partsOf(meetsDuplicate{engine}))
			r := invocation(cmdAdd, with(pool))
			if _, err := h.Run(t.Context(), callOf(r), nil); (err != nil) != (broken != nil) {
				t.Fatal(err)
			}
			h.Cluster, r.ContainerID, r.Args = cluster, "other", kubernetes
			if _, err := h.Run(t.Context(), callOf(r), nil); (err != nil) != (broken != nil) {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"u1 DuplicateAddress fd00::2"}, cluster.texts); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDuplicateHasACode(t *testing.T) {
	out := string(Failure("1.1.0", vf.DuplicateError{}).Stdout)
	if !strings.Contains(out, `"code": 101`) || !strings.Contains(out, "dmesg") {
		t.Error(out)
	}
}
