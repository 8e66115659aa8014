package upkeep

import (
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// reporter emits the events of pods whose VF is lost or has changed.
type reporter struct {
	config *Config // of the Keeper
}

// reportLost emits an event of the pod whose attached VF no longer exists, because its PF's driver
// was rebound or the number of VFs was written. Culvert cannot give the pod its interface back: a
// container keeps the network that its sandbox got at its start.
func (r reporter) reportLost(rec journal.Record, why string) {
	if rec.Phase != vf.PhaseAttached {
		return
	}
	r.emitPodEvent(rec.Lease, reasons.VFLost, fmt.Sprintf("its VF %s (interface %s%s) is gone: %s: restart the pod: delete it, so that its controller makes it anew; a restart of its containers does not help",
		rec.PCI, rec.Lease.Wanted.Interface, lease.OnNetwork(rec), why))
}

// ReportLost is reportLost for VFs that package reconcile makes anew.
func (k *Keeper) ReportLost(lost []journal.Record, why string) {
	for _, rec := range lost {
		k.reports.reportLost(rec, why)
	}
}

// reportUnmended emits an event of the pod whose VF differs from its lease in a way that Culvert
// does not mend while the pod runs. A VF that is back on the host has an event of its own
// (reportBack).
func (r reporter) reportUnmended(rec journal.Record, left []vf.Difference) {
	if slices.ContainsFunc(left, func(d vf.Difference) bool { return slices.Contains([]string{"netns", "driver"}, d.Attribute) }) {
		return
	}
	r.emitPodEvent(rec.Lease, reasons.VFChanged, fmt.Sprintf("its VF %s (interface %s%s) is no longer as its network wants it: %s: restart the pod: delete it, so that its controller makes it anew",
		rec.PCI, rec.Lease.Wanted.Interface, lease.OnNetwork(rec), vf.Differences(left)))
}

// reportBack emits an event of a pod that runs, while its VF is back on the host.
func (r reporter) reportBack(rec journal.Record) {
	r.emitPodEvent(rec.Lease, reasons.VFLost, fmt.Sprintf("its VF %s (interface %s%s) is back on the host, as after a new start of the VF's driver: restart the pod: delete it, so that its controller makes it anew",
		rec.PCI, rec.Lease.Wanted.Interface, lease.OnNetwork(rec)))
}

// emitPodEvent emits a warning of the pod that has a lease. Without a cluster, and for other owners,
// the ledger's event is the only one.
func (r reporter) emitPodEvent(l journal.Lease, reason, text string) {
	if r.config.PodEvent != nil && l.Owner.Kind == vf.OwnerPod {
		r.config.PodEvent(l, journal.Warning, reason, text)
	}
}
