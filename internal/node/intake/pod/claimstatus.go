package pod

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// claimReporter shows people and programs what a pod has of its claims.
type claimReporter struct{ h *Handler }

// keepMetadata writes the metadata files of a pod's claims with what the pod has now.
func (c claimReporter) keepMetadata(p api.Pod, records []journal.Record) error {
	mine := slices.DeleteFunc(slices.Clone(records), func(r journal.Record) bool { return r.Claim == nil || !r.Claim.IsFor(p.UID) })
	if c.h.Metadata == nil || len(mine) == 0 {
		return nil
	}
	return c.h.Metadata(mine)
}

// publish writes the VFs of a pod's ResourceClaims into the claims' status. A claim of which no pod has
// a sandbox any more has no entries: left out are the VFs without a lease if attachedOnly is set.
func (c claimReporter) publish(podUID string, attachedOnly bool) {
	records, err := journal.ReadRecords(c.h.Ledger)
	if err != nil {
		c.h.Log.Warn("the status of claims", "err", err)
		return
	}
	var order []string
	devices, claims := map[string][]api.ClaimDevice{}, map[string]api.ResourceClaim{}
	for _, r := range records {
		if r.Claim == nil || !r.Claim.IsFor(podUID) {
			continue
		}
		if _, known := claims[r.Claim.UID]; !known {
			order = append(order, r.Claim.UID)
			claims[r.Claim.UID] = api.ResourceClaim{Namespace: r.Claim.Namespace, Name: r.Claim.Name, UID: r.Claim.UID}
		}
		if d, err := c.describe(r); err != nil {
			c.h.Log.Warn("the status of a claim", "claim", r.Claim, "err", err)
		} else if r.Phase == vf.PhaseAttached || !attachedOnly {
			devices[r.Claim.UID] = append(devices[r.Claim.UID], d)
		}
	}
	for _, uid := range order {
		c.h.Cluster.SetClaimDevices(claims[uid], devices[uid])
	}
}

// describe returns a VF of a claim as the claim's status shows it.
func (c claimReporter) describe(r journal.Record) (api.ClaimDevice, error) {
	pool, err := claim.PoolName(c.h.NodeName, r.ID.PF)
	if err != nil {
		return api.ClaimDevice{}, err
	}
	out := api.ClaimDevice{
		Pool: pool, Device: claim.DeviceName(r.ID.Index), Since: r.Since,
		Data: api.ClaimDeviceData{APIVersion: claim.APIVersion, Kind: "VFStatus", Pool: r.Claim.Pool, PCI: r.PCI.String()},
	}
	out.Clean, out.Data.Readback = cleanOf(r)
	l := r.Lease
	switch {
	case r.Phase == vf.PhaseAttached:
		pod := strings.TrimPrefix(l.Owner.Name, r.Claim.Namespace+"/")
		out.Ready, out.Reason, out.Message = true, reasons.Attached, fmt.Sprintf("pod %s has it as %s", pod, l.Owner.Interface)
	case r.Phase == vf.PhasePrepared && c.driverOf(r) == vf.DriverVFIO:
		out.Ready, out.Reason, out.Message = true, reasons.Prepared, "the pod's containers have it as a device"
		return out, nil
	default:
		out.Reason, out.Message = reasons.ClaimWithoutNetwork, "no network of the pod uses it"
		return out, nil
	}
	out.Interface, out.MAC = l.Owner.Interface, cmp.Or(l.LinkMAC, l.Effective.MAC).String()
	for _, a := range l.Wanted.Addresses {
		out.Addresses = append(out.Addresses, a.Prefix.String())
	}
	out.Data.MAC, out.Data.VLAN = out.MAC, l.Effective.VLAN.ID
	out.Data.Network = c.networkOf(l)
	return out, nil
}

// cleanOf returns whether a VF of a claim was clean, and the proof. It has no values that an earlier owner
// may have chosen, and no name of that owner.
func cleanOf(r journal.Record) (api.ClaimCondition, *api.ClaimReadback) {
	b := r.Readback
	if b == nil {
		return api.ClaimCondition{Status: "Unknown", Reason: reasons.NoReadback, Message: "an earlier version of culvertd prepared the VF", Since: r.Claim.Since}, nil
	}
	reason := reasons.ReadBack
	switch {
	case len(b.Changed) > 0:
		reason = reasons.ChangesUndone
	case b.Unknown != "":
		reason = reasons.ChangesUnknown
	}
	return api.ClaimCondition{Status: "True", Reason: reason, Message: b.WithoutValues(), Since: b.Time},
		&api.ClaimReadback{Time: b.Time.UTC(), Attributes: b.Attributes, Changed: b.Names(), More: b.More, Unknown: b.Unknown}
}

// networkOf returns the name of a lease's network for people: by the record of the sandbox, or else its CNI
// name.
func (c claimReporter) networkOf(l journal.Lease) string {
	sb, _, err := c.h.readSandbox(l.Owner.UID)
	if err != nil {
		return l.Network
	}
	return cmp.Or(sb.NetworkOf(l.Owner.Interface), l.Network)
}

// idleVFs returns a text for each VF of a claim that no network has, and that is no device of its own: the
// pod sees nothing of it. A VF that is bound to vfio-pci is a device in the pod's containers.
func (c claimReporter) idleVFs(w *wish) (out []string) {
	for _, r := range w.claims.vfs() {
		if c.driverOf(r) != vf.DriverVFIO {
			out = append(out, fmt.Sprintf("%s request %s: VF %s is prepared, and no network of the pod uses it: add a configuration (kind %s) to the claim, or ask for a network of resource %s in the annotation %s",
				*r.Claim, r.Claim.Request, r.PCI, claim.Kind, cmp.Or(r.Claim.Pool, "none"), netannotation.Networks))
		}
	}
	return out
}

// driverOf returns the driver that a VF has now; empty if it has none.
func (c claimReporter) driverOf(r journal.Record) string {
	_, st, _ := hold.FindListed(r, c.h.Hardware.PFs())
	return st.Driver
}
