package failure

import (
	"context"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/node/attach/upkeep"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// members has the state of the pods in culvertd's cluster. If it is nil, there is no
// cluster.
type members struct {
	gone map[string]bool // pods that neither API server nor kubelet knows
	ever map[string]bool // pods that were gone at some time
	away bool            // the API server or the kubelet does not answer
}

// joinCluster makes all later containers pods of a cluster.
func (w *world) joinCluster() {
	w.members = &members{gone: map[string]bool{}, ever: map[string]bool{}}
	w.followCluster(w.node.Upkeep)
}

// followCluster makes this life of culvertd ask the cluster about pods.
func (w *world) followCluster(k *upkeep.Keeper) {
	if w.members == nil {
		return
	}
	g := w.gate
	k.KnowsPod = func(_ context.Context, l journal.Lease) (bool, error) {
		if err := g.pass("ask about %s", l.Owner); err != nil {
			return false, err
		}
		if w.members.away {
			return false, vf.ErrNotReady
		}
		return !w.members.gone[l.PodUID], nil
	}
}

// args are the CNI_ARGS of a pod; none without a cluster.
func (w *world) args(pod string) string {
	if w.members == nil {
		return ""
	}
	return "IgnoreUnknown=1;K8S_POD_NAMESPACE=d;K8S_POD_NAME=" + pod + ";K8S_POD_UID=" + pod
}

// vanish ends a pod for good, and its DEL is lost.
func (w *world) vanish(pod string) {
	w.k.DelNetns(netnsOf(pod))
	w.members.gone[pod], w.members.ever[pod] = true, true
	if w.expect[pod] == present {
		w.expect[pod] = either
	}
}

// minutes lets n minutes pass, with one pass of the reconciler in each.
func (w *world) minutes(n int) {
	for range n {
		w.skew += time.Minute
		w.pass()
	}
}

// lostAreOver checks I2, I4 and I6: some minutes after everything works, a pod whose
// DEL was lost has no VF. culvertd has ended no lease of a pod that was never gone.
func (w *world) lostAreOver() {
	w.t.Helper()
	w.minutes(8)
	for _, r := range w.records() {
		if pod := r.Lease.Owner.UID; r.Phase == vf.PhaseAttached && w.members.gone[pod] {
			w.t.Errorf("I2: %s is gone, its DEL was lost, and it has VF %s", pod, r.PCI)
		}
	}
	for _, e := range w.events("PodGone") {
		_, pod, _ := strings.Cut(e.Text, "pod d/")
		pod, _, _ = strings.Cut(pod, ",")
		if !w.members.ever[pod] {
			w.t.Errorf("I6: the lease of pod %q ended, and it was never gone: %s", pod, e.Text)
		}
	}
}
