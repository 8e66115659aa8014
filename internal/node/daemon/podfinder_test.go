package daemon

import (
	"context"
	"errors"
	"testing"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// apiServer and kubeletPods answer a podFinder.
type apiServer struct {
	has, another bool
	err          error
}

func (a apiServer) HasPod(_ context.Context, namespace, name, uid string) (has, another bool, err error) {
	if namespace != "d" || name != "p" || uid != "u1" {
		return false, false, errors.New("asked about another pod")
	}
	return a.has, a.another, a.err
}

type kubeletPods struct {
	has bool
	err error
}

func (k kubeletPods) Knows(context.Context, string, string) (bool, error) { return k.has, k.err }

// A pod is gone only when both the API server and the kubelet answered that they do not
// have it; a later pod of its name is another one.
func TestPodIsGoneWhenBothSaySo(t *testing.T) {
	for name, test := range map[string]struct {
		api     apiServer
		kubelet kubeletPods
		known   bool
		fails   bool
	}{
		"the API server has it":          {apiServer{has: true}, kubeletPods{err: vf.ErrNotReady}, true, false},
		"only the kubelet has it":        {apiServer{}, kubeletPods{has: true}, true, false},
		"neither has it":                 {apiServer{}, kubeletPods{}, false, false},
		"a later pod has its name":       {apiServer{another: true}, kubeletPods{has: true}, false, false},
		"the API server does not answer": {apiServer{err: vf.ErrNotReady}, kubeletPods{}, false, true},
		"the kubelet does not answer":    {apiServer{}, kubeletPods{err: vf.ErrNotReady}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := journal.Lease{Owner: vf.Owner{Kind: vf.OwnerPod, Name: "d/p"}, PodUID: "u1"}
			known, err := podFinder{test.api, test.kubelet}.knowsPod(t.Context(), l)
			if known != test.known || (err != nil) != test.fails {
				t.Errorf("known %t, %v", known, err)
			}
		})
	}
}
