package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// offerNotes returns notes about pools whose offer changes, with the pods that keep their VFs.
func offerNotes(now, next desired.Spec, records []journal.Record) (out []string) {
	for _, pool := range next.Pools {
		was := desired.OfferResource
		if i := slices.IndexFunc(now.Pools, func(p desired.Pool) bool { return p.FullName() == pool.FullName() }); i >= 0 {
			was = now.Pools[i].Offer
		}
		if was == pool.Offer {
			continue
		}
		name := pool.FullName()
		note := fmt.Sprintf("%s: pool %s: offer %s -> %s: ", pool.From, name, was, pool.Offer)
		if pool.Offer == desired.OfferClaims {
			out = append(out, note+fmt.Sprintf("the node has 0 of the resource %s, and pods get VFs by ResourceClaims", name)+
				describeStaying(podsOf(records, name, false), "by the device plugin", "the kubelet refuses them when the node boots again, so replace them before"))
			continue
		}
		out = append(out, note+fmt.Sprintf("its VFs leave the ResourceSlices, and pods get VFs by the resource %s", name)+
			describeStaying(podsOf(records, name, true), "by ResourceClaims", "their VFs count as unhealthy for the kubelet until then"))
	}
	return out
}

// podsOf returns the pods that have VFs of a pool, by ResourceClaims or without, sorted.
func podsOf(records []journal.Record, pool string, byClaim bool) (out []string) {
	for _, r := range records {
		if r.Held() && r.Lease.Owner.Kind == vf.OwnerPod && r.Lease.Pool == pool && (r.Claim != nil) == byClaim {
			out = append(out, r.Lease.Owner.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// describeStaying describes the pods that keep their VFs until they end.
func describeStaying(pods []string, way, but string) string {
	if len(pods) == 0 {
		return ""
	}
	return fmt.Sprintf("; pods that have VFs %s keep them until they end (%s): %s", way, strings.Join(pods, ", "), but)
}
