package failure

import (
	"context"
	"errors"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// claimUID returns the UID of the claim of a pod, and podOf the pod of a claim.
func claimUID(pod string) string { return "claim-" + pod }

func podOf(uid string) string { return strings.TrimPrefix(uid, "claim-") }

// prepare calls Prepare for the claim of a pod, and notes what its answer promises.
func (w *world) prepare(pod string, vfs ...vf.ID) error {
	var wishes []attach.Wish
	for _, id := range vfs {
		wishes = append(wishes, attach.Wish{VF: id, Claim: journal.Claim{
			UID: claimUID(pod), Namespace: "d", Name: pod, Request: "vf", Pods: []journal.ClaimPod{{Name: pod, UID: pod}},
		}})
	}
	_, err := w.node.Claims.Prepare(context.Background(), wishes)
	w.node.VFs.Wait()
	switch {
	case w.gate.pass("the answer to Prepare") != nil:
		if w.claims[pod] == absent {
			w.claims[pod] = either
		}
		return errAnswerLost
	case err == nil:
		w.claims[pod] = present
	}
	return err
}

// unprepare calls Unprepare for the claim of a pod, which ends its leases too.
func (w *world) unprepare(pod string) error {
	of := w.ofClaim(pod)
	err := w.node.Claims.Unprepare(context.Background(), claimUID(pod), nil)
	w.node.VFs.Wait()
	lost := w.gate.pass("the answer to Unprepare") != nil
	for _, r := range of {
		if owner := r.Lease.Owner.UID; r.Phase == vf.PhaseAttached && w.expect[owner] != absent {
			w.expect[owner] = either
			if err == nil && !lost {
				w.expect[owner] = absent
			}
		}
	}
	switch {
	case lost:
		err = errAnswerLost
		fallthrough
	case err != nil:
		if w.claims[pod] != absent {
			w.claims[pod] = either
		}
	default:
		w.claims[pod] = absent
	}
	return err
}

// ofClaim returns the records of the claim of a pod.
func (w *world) ofClaim(pod string) []journal.Record {
	return slices.DeleteFunc(w.records(), func(r journal.Record) bool { return r.Claim == nil || r.Claim.UID != claimUID(pod) })
}

// addByClaim calls ADD for a pod with a VF of its claim, of a pool.
func (w *world) addByClaim(pod, pool string) error {
	for _, r := range w.ofClaim(pod) {
		if r.Claim.Pool == "culvert.dev/"+pool || strings.HasSuffix(r.Claim.Pool, "/"+pool) {
			return w.add(attachment{pod: pod, pool: pool, vf: r.PCI})
		}
	}
	return errors.New("the claim has no such VF")
}

// claimed checks I1 and I6 of claims: a claim that was prepared has its VFs, one that has ended has none,
// and only pods of a claim have its VFs.
func (w *world) claimed(records []journal.Record) {
	w.t.Helper()
	has := map[string]int{}
	for _, r := range records {
		if r.Claim == nil {
			continue
		}
		has[podOf(r.Claim.UID)]++
		if r.Phase == vf.PhaseAttached && !r.Claim.IsFor(r.Lease.PodUID) {
			w.t.Errorf("I1: %s has VF %s of %s", r.Lease.Owner, r.PCI, r.Claim)
		}
	}
	for _, pod := range pods {
		switch n := has[pod]; {
		case w.claims[pod] == present && n == 0:
			w.t.Errorf("I6: the claim of %s was prepared, and has no VF", pod)
		case w.claims[pod] == absent && n > 0:
			w.t.Errorf("I6: the claim of %s has ended, and has %d VFs", pod, n)
		}
	}
}

// endClaims ends all claims.
func (w *world) endClaims() {
	w.t.Helper()
	for _, pod := range pods {
		if err := w.unprepare(pod); err != nil {
			w.t.Errorf("Unprepare of the claim of %s: %v", pod, err)
		}
	}
}

// haveClaims gives the claim of pod a a netdevice and a VF of user space, and attaches the first.
func (w *world) haveClaims() {
	w.joinCluster()
	must(w, w.prepare("a", w.vfs()[0].ID, w.vfs()[2].ID))
	must(w, w.addByClaim("a", "net"))
}

// useClaims prepares the claims of two pods, uses and ends them.
func (w *world) useClaims() {
	_ = w.prepare("a", w.vfs()[0].ID, w.vfs()[2].ID)
	_ = w.prepare("b", w.vfs()[0].ID)
	_ = w.addByClaim("a", "net")
	_ = w.del(podA)
	_ = w.unprepare("b")
	_ = w.unprepare("a")
}

func (w *world) endsClaims() { _ = w.unprepare("a") }

// prepares prepares one or two VFs for the claim of a pod.
func (h *history) prepares(t *rapid.T) {
	all := h.vfs()
	if len(all) == 0 {
		return
	}
	pod := h.pod(t)
	if len(h.ofClaim(pod)) > 0 { // the kubelet would send the same claim
		return
	}
	ids := map[vf.ID]bool{}
	for range rapid.IntRange(1, 2).Draw(t, "VFs of the claim") {
		ids[rapid.SampledFrom(all).Draw(t, "VF").ID] = true
	}
	var list []vf.ID
	for _, v := range all {
		if ids[v.ID] {
			list = append(list, v.ID)
		}
	}
	_ = h.prepare(pod, list...)
}

// attachesByClaim attaches a VF of a pod's claim, if it has one.
func (h *history) attachesByClaim(t *rapid.T) {
	pod := h.pod(t)
	delete(h.members.gone, pod)
	before := h.expect[pod]
	if err := h.addByClaim(pod, rapid.SampledFrom([]string{"net", "user"}).Draw(t, "pool")); err == nil && before == present {
		h.t.Errorf("I1: %s has a VF and got another one", pod)
	}
}
