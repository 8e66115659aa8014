package pod

import (
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// publishStatus writes the network-status after the answer to the runtime, and with it the
// addresses that the ledger has, and the status of the pod's claims. The controller needs these for Services before the next NodeState.
// If the ledger cannot be read, they come with the next NodeState.
func (h *Handler) publishStatus(p api.Pod, sb journal.Sandbox) {
	if p.UID == "" || sb.Status == "" {
		return
	}
	values := map[string]string{netannotation.Status: sb.Status}
	confirmed, err := h.confirmVFs(p, sb)
	switch {
	case err != nil:
		h.Log.Warn("addresses of a pod are left to the NodeState", "pod", sb.PodName(), "err", err)
	case len(confirmed.VFs) > 0:
		values[netannotation.Confirmed] = confirmed.String()
	}
	h.Cluster.Annotate(p, values)
	claimReporter{h}.publish(p.UID, false)
}

// isPublished reports whether a pod's annotations are those that publishStatus writes.
func (h *Handler) isPublished(p api.Pod, sb journal.Sandbox) bool {
	if p.Annotations[netannotation.Status] != sb.Status {
		return false
	}
	want, err := h.confirmVFs(p, sb)
	if err != nil || len(want.VFs) == 0 {
		return true
	}
	there, err := netannotation.ParseConfirmation(p.Annotations[netannotation.Confirmed])
	return err == nil && want.SameVFs(there)
}

// confirmVFs returns the VFs of a pod's sandbox with their addresses, as the ledger has them now.
func (h *Handler) confirmVFs(p api.Pod, sb journal.Sandbox) (netannotation.Confirmation, error) {
	out := netannotation.Confirmation{Pod: p.UID, At: h.Now().UTC()} // before the ledger is read
	records, err := journal.ReadRecords(h.Ledger)
	for _, r := range records {
		if r.Phase != vf.PhaseAttached || r.Lease.Owner.UID != sb.ID {
			continue
		}
		v := netannotation.ConfirmedVF{Interface: r.Lease.Owner.Interface, Network: sb.NetworkOf(r.Lease.Owner.Interface), Pool: r.Lease.Pool}
		for _, a := range r.Lease.Wanted.Addresses {
			v.Addresses = append(v.Addresses, a.Prefix.String())
		}
		out.VFs = append(out.VFs, v)
	}
	return out, err
}
