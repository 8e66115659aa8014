package pod

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/claim"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// keepMetadata writes the metadata files of a pod's claims with what the pod has now.
func (h *Handler) keepMetadata(p api.Pod, records []journal.Record) error {
	mine := slices.DeleteFunc(slices.Clone(records), func(r journal.Record) bool { return r.Claim == nil || !r.Claim.IsFor(p.UID) })
	if h.Metadata == nil || len(mine) == 0 {
		return nil
	}
	return h.Metadata(mine)
}

// publishClaims writes the VFs of a pod's ResourceClaims into the claims' status. A claim of which no pod has
// a sandbox any more has no entries: left out are the VFs without a lease if attachedOnly is set.
func (h *Handler) publishClaims(podUID string, attachedOnly bool) {
	records, err := journal.ReadRecords(h.Ledger)
	if err != nil {
		h.Log.Warn("the status of claims", "err", err)
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
		if d, err := h.describeClaimed(r); err != nil {
			h.Log.Warn("the status of a claim", "claim", r.Claim, "err", err)
		} else if r.Phase == vf.PhaseAttached || !attachedOnly {
			devices[r.Claim.UID] = append(devices[r.Claim.UID], d)
		}
	}
	for _, uid := range order {
		h.Cluster.SetClaimDevices(claims[uid], devices[uid])
	}
}

// describeClaimed returns a VF of a claim as the claim's status shows it.
func (h *Handler) describeClaimed(r journal.Record) (api.ClaimDevice, error) {
	pool, err := claim.PoolName(h.NodeName, r.ID.PF)
	if err != nil {
		return api.ClaimDevice{}, err
	}
	out := api.ClaimDevice{
		Pool: pool, Device: claim.DeviceName(r.ID.Index), Since: r.Since,
		Data: api.ClaimDeviceData{APIVersion: claim.APIVersion, Kind: "VFStatus", Pool: r.Claim.Pool, PCI: r.PCI.String()},
	}
	l := r.Lease
	switch {
	case r.Phase == vf.PhaseAttached:
		pod := strings.TrimPrefix(l.Owner.Name, r.Claim.Namespace+"/")
		out.Ready, out.Reason, out.Message = true, reasons.Attached, fmt.Sprintf("pod %s has it as %s", pod, l.Owner.Interface)
	case r.Phase == vf.PhasePrepared && h.driverOf(r) == vf.DriverVFIO:
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
	out.Data.Network = h.networkOf(l)
	return out, nil
}

// networkOf returns the name of a lease's network for people: by the record of the sandbox, or else its CNI
// name.
func (h *Handler) networkOf(l journal.Lease) string {
	sb, _, err := h.readSandbox(l.Owner.UID)
	if err != nil {
		return l.Network
	}
	return cmp.Or(sb.NetworkOf(l.Owner.Interface), l.Network)
}
